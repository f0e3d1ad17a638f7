#include "tests/unit/sglang_landing_maker.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/checkpoint_maker.h"
#include "transport/model/checkpoint.h"
#include "transport/model/digest.h"
#include "transport/model/manifest.h"

#define ROW(name, dtype, shape, from, to)                                                          \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" from "," to   \
    "]}"
#define HEAD    ROW("lm_head.weight", "BF16", "65,2", "0", "260")
#define Q       ROW("model.layers.0.q_proj.weight", "BF16", "2,2", "260", "268")
#define K       ROW("model.layers.0.k_proj.weight", "BF16", "2,2", "268", "276")
#define V(a, b) ROW("model.layers.0.v_proj.weight", "BF16", "2,2", a, b)
#define NORM    ROW("model.norm.weight", "BF16", "4", "284", "292")

static const struct {
    const char *header;
    size_t bytes;
} KINDS[] = {
    [LANDING_WHOLE] = { "{" HEAD "," Q "," K "," V("276", "284") "," NORM "}", 292 },
    [LANDING_NO_K] = { "{" HEAD "," Q "," V("268", "276") "," ROW("model.norm.weight", "BF16", "4",
                                                                  "276", "284") "}",
                       284 },
    [LANDING_EXTRA] = { "{" HEAD "," Q "," K "," V("276", "284") "," NORM "," ROW(
                            "zz.bias", "BF16", "1", "292", "294") "}",
                        294 },
    [LANDING_NARROW] = { "{" HEAD "," Q "," K "," V("276", "284") "," ROW(
                             "model.norm.weight", "BF16", "3", "284", "290") "}",
                         290 },
    [LANDING_RECAST] = { "{" HEAD "," Q "," K "," V("276", "284") "," ROW(
                             "model.norm.weight", "F16", "4", "284", "292") "}",
                         292 },
};

static void must(struct baton_status st)
{
    if (!baton_ok(&st)) {
        abort();
    }
}

/* The chunked digest of a short text. */
static struct digest digest_short(struct baton_bytes bytes)
{
    struct digest chunk = digest_of(bytes);
    return digest_of_chunks(&chunk, 1);
}

static void digests_fill(const char *dir, const struct checkpoint *files, struct manifest *manifest)
{
    struct baton_bytes data = maker_read(dir, "model.safetensors");
    for (size_t i = 0; i < manifest->tensors_count; i++) {
        const struct checkpoint_tensor *tensor = checkpoint_find(files, manifest->tensors[i].name);
        manifest->tensors[i].digest =
            digest_short((struct baton_bytes){ data.data + tensor->offset, tensor->bytes });
    }
    free((void *)(uintptr_t)data.data);
    for (size_t i = 0; i < manifest->files_count; i++) {
        struct baton_bytes file = maker_read(dir, manifest->files[i].name);
        manifest->files[i].digest = digest_short(file);
        free((void *)(uintptr_t)file.data);
    }
}

void landing_make(const char *dir, enum landing_fault fault, char digest[BATON_DIGEST_TEXT_BYTES])
{
    struct checkpoint *files = NULL;
    struct manifest *manifest = NULL;
    struct baton_bytes text = { 0 };
    char *json = NULL;
    maker_safetensors(dir, "model.safetensors", KINDS[fault].header, KINDS[fault].bytes);
    maker_write_text(dir, "config.json", "{}");
    must(checkpoint_open(dir, CHECKPOINT_WHOLE, &files));
    must(checkpoint_to_manifest(files, &manifest));
    digests_fill(dir, files, manifest);
    must(manifest_seal(manifest));
    must(manifest_encode_json(manifest, &json, &text.size));
    text.data = (const uint8_t *)json;
    maker_write(dir, MANIFEST_FILE_NAME, text);
    digest_format(manifest->digest, digest);
    free(json);
    manifest_destroy(manifest);
    checkpoint_close(files);
}
