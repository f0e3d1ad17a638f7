/* format.c -- names of the disk-delta format. */
#include "transport/delta/format.h"

#include <stdio.h>
#include <string.h>

static const char *const encodings[DELTA_ENCODING_COUNT] = { "xor", "overwrite" };
static const char *const checksums[DELTA_CHECKSUM_COUNT] = { "xxh3-128", "blake3", "adler32" };

const char *delta_encoding_name(enum delta_encoding encoding)
{
    return (unsigned)encoding < DELTA_ENCODING_COUNT ? encodings[encoding] : "?";
}

const char *delta_checksum_name(enum delta_checksum checksum)
{
    return (unsigned)checksum < DELTA_CHECKSUM_COUNT ? checksums[checksum] : "?";
}

bool delta_encoding_parse(const char *name, enum delta_encoding *out)
{
    for (unsigned i = 0; i < DELTA_ENCODING_COUNT; i++) {
        if (strcmp(name, encodings[i]) == 0) {
            *out = (enum delta_encoding)i;
            return true;
        }
    }
    return false;
}

bool delta_checksum_parse(const char *name, enum delta_checksum *out)
{
    for (unsigned i = 0; i < DELTA_CHECKSUM_COUNT; i++) {
        if (strcmp(name, checksums[i]) == 0) {
            *out = (enum delta_checksum)i;
            return true;
        }
    }
    return false;
}

void delta_version_text(uint64_t version, char out[DELTA_NAME_BYTES])
{
    (void)snprintf(out, DELTA_NAME_BYTES, "%06llu", (unsigned long long)version);
}

bool delta_version_parse(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    size_t length = 0;
    for (; text[length] != '\0'; length++) {
        if (text[length] < '0' || text[length] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text[length] - '0');
        if (value > DELTA_VERSION_MAX) {
            return false;
        }
    }
    *out = value;
    return length > 0;
}

void delta_version_name(uint64_t version, char out[DELTA_NAME_BYTES])
{
    (void)snprintf(out, DELTA_NAME_BYTES, "weight_v%06llu", (unsigned long long)version);
}

void delta_shard_name(unsigned index, unsigned count, char out[DELTA_NAME_BYTES])
{
    (void)snprintf(out, DELTA_NAME_BYTES, "model-%05u-of-%05u.safetensors", index, count);
}
