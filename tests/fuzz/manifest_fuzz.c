/* manifest_fuzz.c -- foreign manifests as JSON and as parts: what is taken survives a round trip.
 *
 * First byte: 'j' the rest is baton.manifest.json, else a part. */
#include <stdint.h>
#include <stdlib.h>

#include "transport/model/manifest.h"

static void must(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* Encodes and decodes again: the digest stays. */
static void round_trip(const struct manifest *manifest)
{
    struct manifest *again = NULL;
    char *text = NULL;
    size_t bytes = 0;
    struct baton_status st = manifest_encode_json(manifest, &text, &bytes);
    must(baton_ok(&st));
    st = manifest_decode_json((struct baton_bytes){ (const uint8_t *)text, bytes }, &again);
    must(baton_ok(&st) && digest_equal(again->digest, manifest->digest));
    manifest_destroy(again);
    free(text);
}

static void decode_json(struct baton_bytes text)
{
    struct manifest *manifest = NULL;
    struct baton_status st = manifest_decode_json(text, &manifest);
    if (baton_ok(&st)) {
        round_trip(manifest);
        manifest_destroy(manifest);
    }
}

/* The running digest and the manifest in memory must take the same parts and agree. */
static void decode_part(struct baton_bytes part)
{
    struct version_digester digester;
    struct manifest *manifest = manifest_create();
    version_digester_init(&digester);
    struct baton_status running = version_digester_add_part(&digester, part);
    struct baton_status st = manifest_decode_part(manifest, part);
    if (baton_ok(&running)) {
        must(baton_ok(&st));
        st = manifest_seal(manifest);
        must(baton_ok(&st));
        must(digest_equal(manifest->digest, version_digester_finish(&digester)));
    }
    manifest_destroy(manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0) {
        struct baton_bytes rest = { data + 1, size - 1 };
        if (data[0] == 'j') {
            decode_json(rest);
        } else {
            decode_part(rest);
        }
    }
    return 0;
}
