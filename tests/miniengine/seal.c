/* seal.c -- makes a checkpoint directory a landing: writes its baton.manifest.json.
 *
 * A tool of the checks: seal DIR writes the manifest and prints the version's digest. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "transport/model/checkpoint.h"
#include "transport/model/file_io.h"

static struct baton_status digest_range(int dir_fd, const char *file, uint64_t offset,
                                        uint64_t bytes, struct digest *out)
{
    struct file_opened opened = { .fd = -1 };
    uint8_t *data = malloc(bytes + 1);
    struct baton_status status = file_open_read(dir_fd, file, true, file, &opened);
    if (baton_ok(&status) && data != NULL) {
        status = file_read_at(opened.fd, data, bytes, offset, file);
        close(opened.fd);
    }
    if (baton_ok(&status) && data != NULL) {
        struct chunk_digester digester;
        chunk_digester_init(&digester);
        chunk_digester_add(&digester, (struct baton_bytes){ .data = data, .size = bytes });
        *out = chunk_digester_finish(&digester);
    }
    free(data);
    return status;
}

static struct baton_status fill(const struct checkpoint *checkpoint, int dir_fd,
                                struct manifest *manifest)
{
    struct baton_status status = baton_status_ok();
    for (size_t i = 0; baton_ok(&status) && i < manifest->tensors_count; i++) {
        const struct checkpoint_tensor *tensor =
            checkpoint_find(checkpoint, manifest->tensors[i].name);
        status = digest_range(dir_fd, tensor->shard, tensor->offset, tensor->bytes,
                              &manifest->tensors[i].digest);
    }
    for (size_t i = 0; baton_ok(&status) && i < manifest->files_count; i++) {
        struct manifest_file *file = &manifest->files[i];
        status = digest_range(dir_fd, file->name, 0, file->bytes, &file->digest);
    }
    return baton_ok(&status) ? manifest_seal(manifest) : status;
}

static struct baton_status write_manifest(int dir_fd, const struct manifest *manifest)
{
    char *text = NULL;
    size_t bytes = 0;
    struct baton_status status = manifest_encode_json(manifest, &text, &bytes);
    int fd = openat(dir_fd, MANIFEST_FILE_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (baton_ok(&status) && fd >= 0) {
        struct baton_bytes view = { .data = (const uint8_t *)text, .size = bytes };
        status = file_write_at(fd, view, 0, MANIFEST_FILE_NAME);
    }
    if (fd >= 0) {
        close(fd);
    }
    free(text);
    return status;
}

static struct baton_status seal(const char *dir)
{
    struct checkpoint *checkpoint = NULL;
    struct manifest *manifest = NULL;
    int dir_fd = -1;
    struct baton_status status = checkpoint_open(dir, CHECKPOINT_WHOLE, &checkpoint);
    status = baton_ok(&status) ? file_open_directory(dir, &dir_fd) : status;
    status = baton_ok(&status) ? checkpoint_to_manifest(checkpoint, &manifest) : status;
    status = baton_ok(&status) ? fill(checkpoint, dir_fd, manifest) : status;
    status = baton_ok(&status) ? write_manifest(dir_fd, manifest) : status;
    if (baton_ok(&status)) {
        char text[BATON_DIGEST_TEXT_BYTES];
        digest_format(manifest->digest, text);
        (void)printf("%s\n", text);
    }
    manifest_destroy(manifest);
    checkpoint_close(checkpoint);
    if (dir_fd >= 0) {
        close(dir_fd);
    }
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s DIR\n", argv[0]);
        return 2;
    }
    struct baton_status status = seal(argv[1]);
    if (!baton_ok(&status)) {
        (void)fprintf(stderr, "seal: %s\n", status.message);
        return 1;
    }
    return 0;
}
