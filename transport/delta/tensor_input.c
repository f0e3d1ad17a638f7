/* tensor_input.c -- pieces of the files of a checkpoint directory. */
#include "transport/delta/tensor_input.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/delta/format.h"
#include "transport/model/file_io.h"

struct baton_status tensor_input_open(const struct checkpoint *checkpoint, struct tensor_input *out)
{
    *out = (struct tensor_input){ checkpoint, -1, -1, NULL };
    return checkpoint->follows_links ? file_open_directory(checkpoint->dir, &out->dir_fd)
                                     : file_open_directory_itself(checkpoint->dir, &out->dir_fd);
}

void tensor_input_close(struct tensor_input *input)
{
    if (input->checkpoint == NULL) {
        return;
    }
    if (input->fd >= 0) {
        close(input->fd);
    }
    if (input->dir_fd >= 0) {
        close(input->dir_fd);
    }
    *input = (struct tensor_input){ NULL, -1, -1, NULL };
}

static struct baton_status open_shard(struct tensor_input *input, const char *shard)
{
    struct file_opened file;
    if (input->fd >= 0 && strcmp(input->shard, shard) == 0) {
        return baton_status_ok();
    }
    struct baton_status st =
        file_open_read(input->dir_fd, shard, input->checkpoint->follows_links, shard, &file);
    if (!baton_ok(&st)) {
        return st;
    }
    if (input->fd >= 0) {
        close(input->fd);
    }
    input->fd = file.fd;
    input->shard = shard;
    return st;
}

struct baton_status tensor_input_read(struct tensor_input *input, const char *shard,
                                      uint64_t offset, uint8_t *out, size_t size)
{
    struct baton_status st = open_shard(input, shard);
    if (baton_ok(&st)) {
        st = file_read_at(input->fd, out, size, offset, shard);
    }
    return baton_status_in(st, "%.120s", input->checkpoint->dir);
}

static struct baton_status digest_opened(struct file_opened file, const char *name, int copy_fd,
                                         struct digest *out)
{
    struct chunk_digester digester;
    struct baton_status st = baton_status_ok();
    uint8_t *piece = malloc(DELTA_PIECE_BYTES);
    if (piece == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "out of memory");
    }
    chunk_digester_init(&digester);
    for (uint64_t at = 0; baton_ok(&st) && at < file.bytes;) {
        uint64_t left = file.bytes - at;
        size_t size = left < DELTA_PIECE_BYTES ? (size_t)left : DELTA_PIECE_BYTES;
        st = file_read_at(file.fd, piece, size, at, name);
        if (baton_ok(&st) && copy_fd >= 0) {
            st = file_write_at(copy_fd, (struct baton_bytes){ piece, size }, at, name);
        }
        chunk_digester_add(&digester, (struct baton_bytes){ piece, baton_ok(&st) ? size : 0 });
        at += size;
    }
    free(piece);
    *out = chunk_digester_finish(&digester);
    return st;
}

struct baton_status tensor_input_file(struct tensor_input *input, const char *name, int copy_fd,
                                      struct digest *out)
{
    struct file_opened file;
    struct baton_status st =
        file_open_read(input->dir_fd, name, input->checkpoint->follows_links, name, &file);
    if (baton_ok(&st)) {
        st = digest_opened(file, name, copy_fd, out);
        close(file.fd);
    }
    return baton_status_in(st, "%.120s", input->checkpoint->dir);
}
