/* version.c -- see version.h. */
#include "tests/bench/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/ratio.h"

void version_must(struct baton_status st)
{
    if (!baton_ok(&st)) {
        (void)fprintf(stderr, "bench: %s\n", st.message);
        abort();
    }
}

struct landing_root *version_root(const char *dir, const char *name)
{
    struct landing_root *root = NULL;
    char *path = ratio_join(dir, name);
    struct landing_root_options options = { path, 0 };
    version_must(landing_root_open(&options, &root));
    free(path);
    return root;
}

struct manifest *version_make(struct landing_root *root)
{
    char names[VERSION_TENSORS][32];
    struct landing_tensor tensors[VERSION_TENSORS];
    struct landing_session *session = NULL;
    struct manifest *manifest = NULL;
    uint8_t *data = malloc(VERSION_TENSOR_BYTES);
    baton_assert(data != NULL);
    for (unsigned i = 0; i < VERSION_TENSORS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "layers.%02u.weight", i);
        tensors[i] = (struct landing_tensor){
            names[i], NULL, TENSOR_DTYPE_BF16, { 2, { VERSION_ROWS, VERSION_COLUMNS } }
        };
    }
    struct landing_tensors all = { tensors, VERSION_TENSORS, NULL, NULL, 0 };
    version_must(landing_begin_tensors(root, &all, NULL, &session));
    for (unsigned i = 0; i < VERSION_TENSORS; i++) {
        memset(data, (int)i + 1, VERSION_TENSOR_BYTES);
        version_must(
            landing_put_tensor(session, i, (struct baton_bytes){ data, VERSION_TENSOR_BYTES }));
    }
    version_must(landing_finish_tensors(session, NULL, &manifest));
    free(data);
    return manifest;
}
