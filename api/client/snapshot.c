/* snapshot.c -- memfd_create, write, seal, pass on. */
#include "api/client/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SNAPSHOT_WRITE_BYTES_MAX = 64 << 20 };

static const int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static int open_segment(void)
{
    return memfd_create("baton-snapshot", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

struct baton_status snapshot_init(struct snapshot *snapshot)
{
    *snapshot = (struct snapshot){ .fd = open_segment() };
    if (snapshot->fd < 0) {
        return baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_IO,
                                 "memfd_create does not work here");
    }
    snapshot->frames = malloc(SNAPSHOT_FRAMES_BYTES);
    if (snapshot->frames == NULL) {
        snapshot_deinit(snapshot);
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "no memory for a snapshot");
    }
    return baton_status_ok();
}

static void close_segment(struct snapshot *snapshot)
{
    if (snapshot->fd >= 0) {
        (void)close(snapshot->fd);
    }
    snapshot->fd = -1;
    snapshot->used = 0;
    snapshot->frames_bytes = 0;
}

void snapshot_deinit(struct snapshot *snapshot)
{
    if (snapshot->frames != NULL || snapshot->fd > 0) {
        close_segment(snapshot);
    }
    free(snapshot->frames);
    *snapshot = (struct snapshot){ .fd = -1 };
}

static struct baton_status no_memory(int error_number)
{
    struct baton_status st = baton_status_errno(error_number, "write", "shared memory");
    if (error_number == ENOSPC || error_number == ENOMEM) {
        st = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_NO_SPACE,
                               "no memory for the snapshot");
        st = baton_status_hint(st, "Free memory, or publish from a checkpoint directory");
    }
    return st;
}

static struct baton_status write_at(int fd, const uint8_t *data, uint64_t bytes, uint64_t offset)
{
    uint64_t done = 0;
    while (done < bytes) {
        uint64_t left = bytes - done;
        size_t now = left < SNAPSHOT_WRITE_BYTES_MAX ? (size_t)left : SNAPSHOT_WRITE_BYTES_MAX;
        ssize_t written = pwrite(fd, data + done, now, (off_t)(offset + done));
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return no_memory(written < 0 ? errno : ENOSPC);
        }
        done += (uint64_t)written;
    }
    return baton_status_ok();
}

static uint64_t aligned(uint64_t used)
{
    return (used + LOCAL_SEGMENT_ALIGN - 1) / LOCAL_SEGMENT_ALIGN * LOCAL_SEGMENT_ALIGN;
}

static bool has_room(const struct snapshot *snapshot, uint64_t bytes)
{
    if (SNAPSHOT_FRAMES_BYTES - snapshot->frames_bytes < LOCAL_MESSAGE_BYTES_MAX) {
        return false;
    }
    return snapshot->used == 0 || (bytes <= SNAPSHOT_SEGMENT_BYTES &&
                                   aligned(snapshot->used) <= SNAPSHOT_SEGMENT_BYTES - bytes);
}

struct baton_status snapshot_add(struct snapshot *snapshot, struct local_message *entry,
                                 const void *data, struct local_channel *channel,
                                 uint64_t deadline_ns)
{
    uint64_t bytes = entry->as.entry.bytes;
    if (!has_room(snapshot, bytes)) {
        struct baton_status st = snapshot_flush(snapshot, channel, deadline_ns);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    if (snapshot->fd < 0) {
        snapshot->fd = open_segment();
    }
    if (snapshot->fd < 0) {
        return baton_status_errno(errno, "memfd_create", "snapshot");
    }
    uint64_t offset = bytes == 0 ? 0 : aligned(snapshot->used);
    struct baton_status st = write_at(snapshot->fd, data, bytes, offset);
    if (!baton_ok(&st)) {
        return st;
    }
    if (bytes > 0) {
        snapshot->used = offset + bytes;
    }
    entry->as.entry.is_inline = false;
    entry->as.entry.offset = offset;
    snapshot->frames_bytes +=
        local_message_encode(entry, snapshot->frames + snapshot->frames_bytes);
    return st;
}

struct baton_status snapshot_flush(struct snapshot *snapshot, struct local_channel *channel,
                                   uint64_t deadline_ns)
{
    if (snapshot->frames_bytes == 0) {
        return baton_status_ok();
    }
    if (fcntl(snapshot->fd, F_ADD_SEALS, seals) < 0) {
        return baton_status_errno(errno, "fcntl F_ADD_SEALS", "snapshot");
    }
    struct local_message segment = { .kind = LOCAL_KIND_SEGMENT };
    segment.as.segment.bytes = snapshot->used;
    struct baton_status st = local_channel_send(channel, &segment, snapshot->fd, deadline_ns);
    if (baton_ok(&st)) {
        struct baton_bytes frames = { snapshot->frames, snapshot->frames_bytes };
        st = local_channel_send_encoded(channel, frames, deadline_ns);
    }
    close_segment(snapshot);
    return st;
}
