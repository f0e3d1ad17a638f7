#include "tests/conformance/etcd_parts.h"

#include <stdio.h>
#include <string.h>

#include "tests/conformance/patience.h"

enum { SKIPPED = 77 };

static const struct etcd_part *asked;

static void one_member(void)
{
    static struct etcd_rig rig;
    etcd_rig_init(&rig, 1);
    etcd_rig_start(&rig);
    asked->asks(&rig);
    etcd_rig_stop(&rig);
}

int etcd_parts_run(const char *program, const struct etcd_part *parts, size_t count, int argc,
                   char **argv)
{
    if (!etcd_rig_there()) {
        printf("skip %s: etcd is not installed (deploy/install.sh test)\n", program);
        return SKIPPED;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < count; i++) {
        if (argc < 2 || strcmp(argv[1], parts[i].name) == 0) {
            asked = &parts[i];
            patience_run(parts[i].name, parts[i].run != NULL ? parts[i].run : one_member);
            printf("ok %s\n", parts[i].name);
        }
    }
    return 0;
}
