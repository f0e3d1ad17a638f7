/* main.c -- gpu_suite PLUGIN VECTORS [figures]: checks the kernels; with "figures" also their rates.
 *
 * Exit 0: all hold and all figures are met; 1: not; 2: the device failed; a machine without a GPU
 * gets a line that says skip, and 0. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/gpu/rig.h"

enum { RUN_SECONDS_MAX = 500 };

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: gpu_suite PLUGIN VECTORS [figures]\n");
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(RUN_SECONDS_MAX);
    struct rig rig = rig_open(argv[1]);
    check_digests(&rig, argv[2]);
    check_boxes(&rig);
    check_deltas(&rig);
    check_quantisers(&rig);
    if (argc > 3 && strcmp(argv[3], "figures") == 0) {
        figures(&rig);
    }
    rig_close(&rig);
    return rig.failed + rig.missed > 0;
}
