/* main.c -- gpu_suite CUDA IPC NCCL VECTORS [figures]: checks the kernels and the backends; with "figures" also
 * their rates.  CUDA, IPC and NCCL are paths of plug-ins; NCCL may be missing.
 *
 * Exit 0: all hold and all figures are met; 1: not; 2: the device failed; a machine without a GPU
 * gets a line that says skip, and 0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/gpu/nccl_rank.h"
#include "tests/gpu/trainer.h"

enum { RUN_SECONDS_MAX = 500 };

/* A failure is the answer of the call that failed, not of the launch after it. */
static void check_errors(struct rig *rig)
{
    uint64_t zero[2] = { 0, 0 };
    int busy = 0;
    bool fails = rig->cuda->use(1000) > 0 && rig->cuda->free(zero) > 0;
    struct baton_cuda_quant one = { .values = rig_device(rig, 256),
                                    .codes = rig_device(rig, 128),
                                    .scales = rig_device(rig, 4),
                                    .counts = rig_upload(rig, zero, sizeof(zero)),
                                    .rows = 1,
                                    .columns = 128 };
    fails = rig->cuda->use(1000) > 0 && fails;
    rig_verdict(rig, "a launch after a refused call is not blamed for it",
                fails && rig->cuda->quantise(&one, rig->stream) == BATON_CUDA_OK &&
                    rig->cuda->stream_query(rig->stream, &busy) == BATON_CUDA_OK &&
                    rig->cuda->quantise(&one, rig->stream) == BATON_CUDA_OK);
    rig_wait(rig);
    rig_free(rig, (void *)(uintptr_t)one.values);
    rig_free(rig, one.codes);
    rig_free(rig, one.scales);
    rig_free(rig, one.counts);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: gpu_suite CUDA IPC NCCL VECTORS [figures]\n");
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(RUN_SECONDS_MAX);
    if (argc == 5 && strcmp(argv[1], "trainer") == 0) {
        return trainer_main(&(struct trainer_paths){ argv[2], argv[3] },
                            strtoull(argv[4], NULL, 10));
    }
    if (argc == 8 && strcmp(argv[1], "rank") == 0) {
        return nccl_rank_main(argv);
    }
    struct trainer_paths paths = { argv[1], argv[2] };
    struct rig rig = rig_open(paths.cuda);
    check_digests(&rig, argv[4]);
    check_boxes(&rig);
    check_deltas(&rig);
    check_quantisers(&rig);
    check_host_path(&rig);
    check_errors(&rig);
    check_ipc(&rig, &paths);
    if (access(argv[3], R_OK) == 0) {
        check_nccl(&rig, &(struct nccl_paths){ argv[1], argv[3] });
    } else {
        printf("skip - nccl: not built, NCCL's header is not installed\n");
    }
    if (argc > 5 && strcmp(argv[5], "figures") == 0) {
        figures(&rig);
        figures_host(&rig);
        figures_ipc(&rig, &paths);
    }
    rig_close(&rig);
    return rig.failed + rig.missed > 0;
}
