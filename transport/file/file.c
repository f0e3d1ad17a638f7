/* file.c -- backend "file": reads ranges of the files of one directory, shared or local.
 *
 * Keys are plain file names.  get() and length() only queue; poll() serves the queue in order with
 * one bounded read each, so that the bytes are still in the processor's cache when the host
 * verifies them.  A hung network file system therefore hangs poll(): the host runs transfers on
 * worker threads.  Symbolic links are not followed unless the configuration says so. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/file/file_plugin.h"

enum {
    SLOTS = 64,
    OPEN_FILES_MAX = 32,
    NAME_BYTES = 256,
    TRANSFER_BYTES_MAX = 64 << 20,
};

struct baton_tp_mem {
    struct baton_tp_mem *next; /* In its transport's list. */
    uint8_t *base;
    uint64_t bytes;
};

enum op_kind { OP_READ, OP_LENGTH };

struct op {
    uint64_t op_id;
    uint8_t *to;
    uint64_t offset;
    uint64_t bytes;
    enum op_kind kind;
    bool cancelled;
    char name[NAME_BYTES];
};

struct open_file {
    int fd; /* -1: free. */
    char name[NAME_BYTES];
};

struct baton_tp {
    int dir_fd;
    bool follow_links;
    struct baton_tp_mem *mems;
    struct op queue[SLOTS]; /* A ring. */
    uint32_t first;
    uint32_t count;
    struct open_file files[OPEN_FILES_MAX];
    uint32_t next_file; /* Which to close when all are open: in turn. */
};

static void log_line(const struct baton_tp_host *host, const char *what, const char *name)
{
    char line[512];
    if (host != NULL && host->log != NULL) {
        snprintf(line, sizeof(line), "%.100s: %.300s", what, name);
        host->log(host->self, 1, line);
    }
}

/* Returns what is wrong with the configuration, or null. */
static const char *read_config(json_t *top, const char **directory, bool *follow_links)
{
    const char *key;
    json_t *value;
    json_object_foreach(top, key, value)
    {
        if (strcmp(key, "directory") == 0 && json_is_string(value)) {
            *directory = json_string_value(value);
        } else if (strcmp(key, "followLinks") == 0 && json_is_boolean(value)) {
            *follow_links = json_is_true(value);
        } else {
            return key;
        }
    }
    return *directory == NULL ? "directory" : NULL;
}

static int open_directory(const struct baton_tp_host *host, const char *directory,
                          bool follow_links, struct baton_tp **out)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        log_line(host, strerror(errno), directory);
        return errno == EACCES ? BATON_TP_E_DENIED : BATON_TP_E_UNREACHABLE;
    }
    struct baton_tp *tp = calloc(1, sizeof(*tp));
    if (tp == NULL) {
        close(fd);
        return BATON_TP_E_INTERNAL;
    }
    tp->dir_fd = fd;
    tp->follow_links = follow_links;
    for (uint32_t i = 0; i < OPEN_FILES_MAX; i++) {
        tp->files[i].fd = -1;
    }
    *out = tp;
    return BATON_TP_OK;
}

static int file_open(const struct baton_tp_host *host, const char *config, struct baton_tp **out)
{
    const char *directory = NULL;
    bool follow_links = false;
    json_t *top = json_loads(config == NULL ? "{}" : config, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(top)) {
        log_line(host, "config is not a JSON object", "");
        json_decref(top);
        return BATON_TP_E_INVALID;
    }
    const char *wrong = read_config(top, &directory, &follow_links);
    int result = BATON_TP_E_INVALID;
    if (wrong != NULL) {
        log_line(host, "config: missing, unknown or of another type", wrong);
    } else {
        result = open_directory(host, directory, follow_links, out);
    }
    json_decref(top);
    return result;
}

static void file_close(struct baton_tp *tp)
{
    for (uint32_t i = 0; i < OPEN_FILES_MAX; i++) {
        if (tp->files[i].fd >= 0) {
            close(tp->files[i].fd);
        }
    }
    while (tp->mems != NULL) {
        struct baton_tp_mem *next = tp->mems->next;
        free(tp->mems);
        tp->mems = next;
    }
    close(tp->dir_fd);
    free(tp);
}

static int file_query(const struct baton_tp *tp, struct baton_tp_attr *attr)
{
    (void)tp;
    if (attr->size < sizeof(*attr)) {
        return BATON_TP_E_INVALID;
    }
    *attr = (struct baton_tp_attr){
        .size = sizeof(*attr),
        .caps = BATON_TP_CAP_GET | BATON_TP_CAP_LENGTH | BATON_TP_CAP_NAMED | BATON_TP_CAP_CANCEL |
                BATON_TP_CAP_CROSS_HOST,
        .transfer_bytes_max = TRANSFER_BYTES_MAX,
        .transfers_max = SLOTS,
        .address_bytes = 0,
    };
    return BATON_TP_OK;
}

static int file_mem_register(struct baton_tp *tp, const struct baton_tp_memory *memory,
                             struct baton_tp_mem **out)
{
    if (memory->size < sizeof(*memory) || (memory->base == NULL && memory->bytes > 0)) {
        return BATON_TP_E_INVALID;
    }
    if (memory->access != 0) {
        return BATON_TP_E_UNSUPPORTED;
    }
    struct baton_tp_mem *mem = malloc(sizeof(*mem));
    if (mem == NULL) {
        return BATON_TP_E_INTERNAL;
    }
    *mem = (struct baton_tp_mem){ tp->mems, memory->base, memory->bytes };
    tp->mems = mem;
    *out = mem;
    return BATON_TP_OK;
}

static void file_mem_release(struct baton_tp *tp, struct baton_tp_mem *mem)
{
    struct baton_tp_mem **link = &tp->mems;
    while (*link != NULL && *link != mem) {
        link = &(*link)->next;
    }
    if (*link == mem) {
        *link = mem->next;
        free(mem);
    }
}

/* Copies a key that is a plain file name; false for any other. */
static bool take_name(const struct baton_tp_transfer *transfer, char out[NAME_BYTES])
{
    if (transfer->key_bytes == 0 || transfer->key_bytes >= NAME_BYTES ||
        memchr(transfer->key, '/', transfer->key_bytes) != NULL ||
        memchr(transfer->key, '\0', transfer->key_bytes) != NULL) {
        return false;
    }
    memcpy(out, transfer->key, transfer->key_bytes);
    out[transfer->key_bytes] = '\0';
    return strcmp(out, ".") != 0 && strcmp(out, "..") != 0;
}

static int enqueue(struct baton_tp *tp, const struct baton_tp_transfer *transfer, enum op_kind kind,
                   uint8_t *to)
{
    if (tp->count == SLOTS) {
        return BATON_TP_AGAIN;
    }
    struct op *op = &tp->queue[(tp->first + tp->count) % SLOTS];
    if (!take_name(transfer, op->name)) {
        return BATON_TP_E_INVALID;
    }
    op->op_id = transfer->op_id;
    op->to = to;
    op->offset = transfer->remote_offset;
    op->bytes = transfer->bytes;
    op->kind = kind;
    op->cancelled = false;
    tp->count++;
    return BATON_TP_PENDING;
}

static int file_get(struct baton_tp *tp, const struct baton_tp_transfer *transfer)
{
    if (transfer->size < sizeof(*transfer) || transfer->mem == NULL || transfer->peer_bytes != 0) {
        return BATON_TP_E_INVALID;
    }
    const struct baton_tp_mem *mem = transfer->mem;
    if (transfer->bytes > TRANSFER_BYTES_MAX || transfer->local_offset > mem->bytes ||
        transfer->bytes > mem->bytes - transfer->local_offset ||
        transfer->remote_offset > (uint64_t)INT64_MAX - transfer->bytes) {
        return BATON_TP_E_INVALID;
    }
    return enqueue(tp, transfer, OP_READ, mem->base + transfer->local_offset);
}

static int file_length(struct baton_tp *tp, const struct baton_tp_transfer *transfer)
{
    if (transfer->size < sizeof(*transfer) || transfer->peer_bytes != 0) {
        return BATON_TP_E_INVALID;
    }
    return enqueue(tp, transfer, OP_LENGTH, NULL);
}

static int file_cancel(struct baton_tp *tp, uint64_t op_id)
{
    for (uint32_t i = 0; i < tp->count; i++) {
        struct op *op = &tp->queue[(tp->first + i) % SLOTS];
        if (op->op_id == op_id) {
            op->cancelled = true;
            return BATON_TP_OK;
        }
    }
    return BATON_TP_E_INVALID;
}

static int result_of_errno(int number)
{
    if (number == EACCES || number == EPERM || number == ELOOP) {
        return BATON_TP_E_DENIED;
    }
    if (number == ENOENT || number == ENOTDIR || number == ESTALE || number == EIO) {
        return BATON_TP_E_UNREACHABLE;
    }
    return BATON_TP_E_INTERNAL;
}

/* Opens a regular file; what is no regular file counts as denied. */
static int open_regular(const struct baton_tp *tp, const char *name, int *out)
{
    struct stat info;
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (tp->follow_links ? 0 : O_NOFOLLOW);
    int fd = openat(tp->dir_fd, name, flags);
    if (fd < 0) {
        return result_of_errno(errno);
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return BATON_TP_E_DENIED;
    }
    *out = fd;
    return BATON_TP_OK;
}

/* The open file of this name, opened if need be. */
static int find_file(struct baton_tp *tp, const char *name, int *out)
{
    for (uint32_t i = 0; i < OPEN_FILES_MAX; i++) {
        if (tp->files[i].fd >= 0 && strcmp(tp->files[i].name, name) == 0) {
            *out = tp->files[i].fd;
            return BATON_TP_OK;
        }
    }
    int result = open_regular(tp, name, out);
    if (result != BATON_TP_OK) {
        return result;
    }
    struct open_file *file = &tp->files[tp->next_file];
    tp->next_file = (tp->next_file + 1) % OPEN_FILES_MAX;
    if (file->fd >= 0) {
        close(file->fd);
    }
    file->fd = *out;
    snprintf(file->name, sizeof(file->name), "%s", name);
    return BATON_TP_OK;
}

static int read_range(int fd, const struct op *op, uint64_t *done)
{
    while (*done < op->bytes) {
        ssize_t n = pread(fd, op->to + *done, op->bytes - *done, (off_t)(op->offset + *done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return result_of_errno(errno);
        }
        if (n == 0) {
            return BATON_TP_E_CORRUPT;
        }
        *done += (uint64_t)n;
    }
    return BATON_TP_OK;
}

static struct baton_tp_completion serve(struct baton_tp *tp, const struct op *op)
{
    struct baton_tp_completion done = { op->op_id, 0, BATON_TP_E_CANCELLED, 0 };
    struct stat info;
    int fd = -1;
    if (op->cancelled) {
        return done;
    }
    done.result = find_file(tp, op->name, &fd);
    if (done.result != BATON_TP_OK) {
        return done;
    }
    if (op->kind == OP_READ) {
        done.result = read_range(fd, op, &done.bytes);
    } else if (fstat(fd, &info) == 0) {
        done.bytes = (uint64_t)info.st_size;
    } else {
        done.result = result_of_errno(errno);
    }
    return done;
}

/* One operation a call: bounded work, and the host gets its bytes while they are hot. */
static int file_poll(struct baton_tp *tp, uint64_t now_ns, struct baton_tp_completion *out,
                     uint32_t out_max, uint32_t *out_count)
{
    (void)now_ns;
    *out_count = 0;
    if (tp->count > 0 && out_max > 0) {
        out[0] = serve(tp, &tp->queue[tp->first]);
        tp->first = (tp->first + 1) % SLOTS;
        tp->count--;
        *out_count = 1;
    }
    return BATON_TP_OK;
}

static const struct baton_transport_plugin table = {
    .size = sizeof(table),
    .abi_major = BATON_TP_ABI_MAJOR,
    .abi_minor = BATON_TP_ABI_MINOR,
    .name = "file",
    .version = "1",
    .open = file_open,
    .close = file_close,
    .query = file_query,
    .mem_register = file_mem_register,
    .mem_release = file_mem_release,
    .get = file_get,
    .length = file_length,
    .cancel = file_cancel,
    .poll = file_poll,
};

const struct baton_transport_plugin *file_plugin(void)
{
    return &table;
}
