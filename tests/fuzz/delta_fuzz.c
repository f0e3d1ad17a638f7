/* delta_fuzz.c -- foreign frames, indexes and whole version directories; and round trips.
 *
 * First byte: 'x' or 'o' a frame (xor, overwrite) for a small tensor; 'i' an index; 'd' our
 * digests; 'v' a version: u16le size of the index, the index, the rest is its shard; else old and
 * new bytes of a tensor, one half each, which must come back. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/delta/decoder.h"
#include "transport/delta/encoder.h"
#include "transport/delta/version.h"
#include "transport/model/checkpoint.h"

enum { TENSOR_BYTES = 1000 };

/* Used again and again, also after a failure, as a long chain uses them. */
static struct delta_encoder *encoder;
static struct delta_decoder *decoder;

static void must(bool condition)
{
    if (!condition) {
        abort();
    }
}

static struct baton_status decode(enum delta_encoding encoding, struct baton_bytes frame,
                                  uint8_t *bytes, size_t size)
{
    struct baton_status st =
        delta_decoder_begin(decoder, encoding, DELTA_CHECKSUM_ADLER32, frame, size);
    return baton_ok(&st) ? delta_decoder_next(decoder, bytes, size) : st;
}

static void fuzz_frame(enum delta_encoding encoding, struct baton_bytes frame)
{
    uint8_t bytes[TENSOR_BYTES] = { 0 };
    struct baton_status st = decode(encoding, frame, bytes, sizeof(bytes));
    if (baton_ok(&st)) {
        st = delta_decoder_finish(decoder, "00000001");
    }
    must(baton_ok(&st) || st.message[0] != '\0');
}

static void round_trip(enum delta_encoding encoding, const uint8_t *old, const uint8_t *now,
                       size_t size)
{
    struct delta_encoded encoded;
    uint8_t *bytes = malloc(size + 1);
    memcpy(bytes, old, size);
    struct baton_status st = delta_encoder_begin(encoder, encoding, DELTA_CHECKSUM_ADLER32, size);
    must(baton_ok(&st));
    st = delta_encoder_add(encoder, old, now, size);
    must(baton_ok(&st));
    st = delta_encoder_finish(encoder, &encoded);
    must(baton_ok(&st));
    must((encoded.frame.size == 0) == (memcmp(old, now, size) == 0));
    if (encoded.frame.size > 0) {
        st = decode(encoding, encoded.frame, bytes, size);
        must(baton_ok(&st));
        st = delta_decoder_finish(decoder, encoded.checksum);
        must(baton_ok(&st) && memcmp(bytes, now, size) == 0);
    }
    free(bytes);
}

static void fuzz_index(struct baton_bytes text)
{
    struct delta_index index;
    struct baton_status st = delta_index_parse("index", text, &index);
    must(!baton_ok(&st) || !index.is_delta || index.version <= DELTA_VERSION_MAX);
}

static void fuzz_digests(struct baton_bytes text)
{
    struct delta_digests digests;
    struct baton_status st = delta_digests_parse("digests", text, &digests);
    must(baton_ok(&st) || st.message[0] != '\0');
}

/* --- a version's directory, in memory where there is such a file system --- */

static char publication[64];
static char version_dir[96];

static void remove_directory(void)
{
    (void)rmdir(version_dir);
    (void)rmdir(publication);
}

static int open_directory(void)
{
    if (publication[0] == '\0') {
        bool in_memory = access("/dev/shm", W_OK) == 0;
        (void)snprintf(publication, sizeof(publication), "%s/baton-fuzz-XXXXXX",
                       in_memory ? "/dev/shm" : "/tmp");
        must(mkdtemp(publication) != NULL);
        (void)snprintf(version_dir, sizeof(version_dir), "%s/weight_v000001", publication);
        must(mkdir(version_dir, 0755) == 0);
        atexit(remove_directory);
    }
    return open(version_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void put_file(int dir_fd, const char *name, const uint8_t *data, size_t size)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}

static void fuzz_version(const uint8_t *data, size_t size)
{
    static const char shard[] = "model-00000-of-00001.safetensors";
    struct delta_version *version = NULL;
    if (size < 2) {
        return;
    }
    size_t text = data[0] | (size_t)data[1] << 8;
    text = text < size - 2 ? text : size - 2;
    int dir_fd = open_directory();
    put_file(dir_fd, CHECKPOINT_INDEX_NAME, data + 2, text);
    put_file(dir_fd, shard, data + 2 + text, size - 2 - text);
    struct baton_status st = delta_version_open(publication, 1, &version);
    for (size_t i = 0; baton_ok(&st) && i < version->tensors_count; i++) {
        const struct delta_tensor *tensor = &version->tensors[i];
        must(strcmp(tensor->shard, shard) == 0 && tensor->checksum[0] != '\0');
        must(tensor->offset + tensor->frame_bytes <= size - 2 - text);
    }
    delta_version_close(version);
    (void)unlinkat(dir_fd, CHECKPOINT_INDEX_NAME, 0);
    (void)unlinkat(dir_fd, shard, 0);
    close(dir_fd);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    encoder = delta_encoder_create();
    decoder = delta_decoder_create();
    return encoder == NULL || decoder == NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct baton_bytes rest = { data + 1, size - 1 };
    switch (data[0]) {
    case 'x': fuzz_frame(DELTA_ENCODING_XOR, rest); break;
    case 'o': fuzz_frame(DELTA_ENCODING_OVERWRITE, rest); break;
    case 'i': fuzz_index(rest); break;
    case 'd': fuzz_digests(rest); break;
    case 'v': fuzz_version(rest.data, rest.size); break;
    default:
        round_trip((enum delta_encoding)(data[0] % DELTA_ENCODING_COUNT), rest.data,
                   rest.data + rest.size / 2, rest.size / 2);
    }
    return 0;
}
