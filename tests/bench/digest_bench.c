/* digest_bench.c -- reading and digesting a file on one core, against `xxhsum -H2` of the same
 * file.
 *
 * Ours is the chunked digest of transport/model; xxhsum hashes the file at once.  Its time is that
 * of the whole process minus that of hashing an empty file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/bench/ratio.h"
#include "transport/model/digest.h"

enum { FILE_BYTES = 512 << 20, PAIRS = 9, RUN_SECONDS_MAX = 300 };

static void make_file(const char *path, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    uint64_t state = 88172645463325252u;
    uint64_t block[8192];
    for (size_t done = 0; file != NULL && done < bytes; done += sizeof(block)) {
        for (size_t i = 0; i < 8192; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            block[i] = state;
        }
        if (fwrite(block, 1, sizeof(block), file) != sizeof(block)) {
            abort();
        }
    }
    if (file == NULL || fclose(file) != 0) {
        perror(path);
        abort();
    }
}

static double time_ours(const char *path, uint8_t *buffer)
{
    struct chunk_digester digester;
    double begin = ratio_now_s();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    chunk_digester_init(&digester);
    ssize_t n = 0;
    while ((n = read(fd, buffer, BATON_CHUNK_BYTES)) > 0) {
        chunk_digester_add(&digester, (struct baton_bytes){ buffer, (size_t)n });
    }
    struct digest digest = chunk_digester_finish(&digester);
    close(fd);
    double seconds = ratio_now_s() - begin;
    if (n < 0 || digest.bytes[0] == digest.bytes[1]) {
        fprintf(stderr, "digest_bench: reading failed, or an unlikely digest\n");
    }
    return seconds;
}

static double time_xxhsum(const char *path, const char *empty)
{
    const char *whole[] = { "xxhsum", "-H2", path, NULL };
    const char *nothing[] = { "xxhsum", "-H2", empty, NULL };
    double start = ratio_time_command(nothing);
    return ratio_time_command(whole) - start;
}

int main(void)
{
    struct ratio ratio = { .name = "digest",
                           .unit = "GB/s per core",
                           .anchor = "xxhsum -H2, same file, minus start",
                           .target = 0.95 };
    alarm(RUN_SECONDS_MAX);
    char *dir = ratio_directory();
    char *path = ratio_join(dir, "file");
    char *empty = ratio_join(dir, "empty");
    uint8_t *buffer = aligned_alloc(4096, BATON_CHUNK_BYTES);
    make_file(path, FILE_BYTES);
    make_file(empty, 0);
    time_ours(path, buffer);
    for (unsigned i = 0; i < PAIRS; i++) {
        double ours = time_ours(path, buffer);
        double anchor = time_xxhsum(path, empty);
        ratio_add(&ratio, FILE_BYTES / 1e9 / ours, FILE_BYTES / 1e9 / anchor);
    }
    free(buffer);
    free(empty);
    free(path);
    ratio_remove(dir);
    return ratio_print(&ratio);
}
