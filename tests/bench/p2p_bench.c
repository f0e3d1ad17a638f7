/* p2p_bench.c -- a version from one node to another over loopback, against bare loops of as many streams.
 *
 * Ours: server and puller in this process, capability checked, every chunk digested and written into a landing on
 * tmpfs, sealed.  The anchors move the same number of bytes over as many TCP connections, and verify nothing:
 *   copies    sends one buffer and reads into another, as iperf3 does; nothing is written;
 *   sendfile  sends the version's file by sendfile; nothing is written;
 *   landed    the same, and what arrives is written into a file on tmpfs: what a landing costs whoever fetches it.
 * Beside the ratios: processor seconds of both sides together for each GB. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/ratio.h"
#include "tests/bench/version.h"
#include "transport/p2p/puller.h"
#include "transport/p2p/server.h"

enum { PAIRS = 7, STREAMS = 4, NOW_S = 1000 };

struct bench {
    char *dir;
    struct landing_root *source;
    struct landing_root *landing;
    struct manifest *manifest;
    struct p2p_server *server;
    struct capability_signer *signer;
    char address[64];
    char model[1024];
};

static void must(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "p2p_bench: %s\n", what);
        abort();
    }
}

static double cpu_s(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* --- ours --- */

static size_t keys(void *context, struct capability_key out[P2P_KEYS_MAX])
{
    const struct bench *bench = context;
    out[0] = capability_signer_key(bench->signer);
    return 1;
}

static uint64_t now_s(void *context)
{
    (void)context;
    return NOW_S;
}

static void on_refused(void *context, const struct p2p_refusal *refusal)
{
    (void)context;
    must(0, refusal->status->message);
}

static void on_poison(void *context, const struct puller_poison *poison)
{
    (void)context;
    (void)poison;
    must(0, "a damaged chunk");
}

static double time_pull(struct bench *bench)
{
    uint8_t bytes[CAPABILITY_BYTES_MAX];
    struct capability capability = { .version = bench->manifest->digest,
                                     .node = "bench",
                                     .issued_s = NOW_S,
                                     .ends_s = NOW_S + 600 };
    struct puller_peer peer = { "source", "", false };
    (void)snprintf(peer.address, sizeof(peer.address), "%s", bench->address);
    struct puller_options options = { .peers = &peer,
                                      .peers_count = 1,
                                      .version = bench->manifest->digest,
                                      .capability = { bytes, capability_sign(bench->signer,
                                                                             &capability, bytes) },
                                      .told = on_poison };
    struct landing_options landing = { .workers = STREAMS };
    struct manifest *manifest = NULL;
    struct digest *table = NULL;
    double begin = ratio_now_s();
    struct puller *puller = puller_create(&options);
    struct landing_supplier supplier = puller_supplier(puller);
    version_must(puller_fetch(puller, &manifest, &table));
    version_must(landing_pull(bench->landing, manifest, table, &supplier, &landing, NULL));
    double seconds = ratio_now_s() - begin;
    puller_destroy(puller);
    free(table);
    manifest_destroy(manifest);
    version_must(landing_remove(bench->landing, bench->manifest->digest));
    return seconds;
}

/* --- the anchor --- */

enum anchor { COPIES, SENDFILE, LANDED, ANCHORS };

enum { BLOCK = 128 << 10 }; /* iperf3's. */

/* One of the streams: its part of the file. */
struct part {
    int fd;
    enum anchor anchor;
    const char *file; /* Null: none is read, or written. */
    uint64_t offset, bytes;
    pthread_t thread;
};

static void send_copies(const struct part *part)
{
    uint8_t *buffer = calloc(1, BLOCK);
    must(buffer != NULL, "memory");
    for (uint64_t left = part->bytes; left > 0;) {
        ssize_t sent = send(part->fd, buffer, left < BLOCK ? left : BLOCK, 0);
        must(sent > 0, "send");
        left -= (uint64_t)sent;
    }
    free(buffer);
}

static void send_file(const struct part *part)
{
    int file = open(part->file, O_RDONLY | O_CLOEXEC);
    off_t at = (off_t)part->offset;
    must(file >= 0, part->file);
    while (at < (off_t)(part->offset + part->bytes)) {
        ssize_t sent = sendfile(part->fd, file, &at, part->offset + part->bytes - (uint64_t)at);
        must(sent > 0, "sendfile");
    }
    close(file);
}

static void *send_part(void *argument)
{
    struct part *part = argument;
    if (part->anchor == COPIES) {
        send_copies(part);
    } else {
        send_file(part);
    }
    close(part->fd);
    return NULL;
}

static void *receive_part(void *argument)
{
    struct part *part = argument;
    size_t room = part->anchor == COPIES ? BLOCK : 1 << 20;
    uint8_t *buffer = malloc(room);
    int file = part->anchor == LANDED ? open(part->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    must(buffer != NULL && (part->anchor != LANDED || file >= 0), "memory, or a file");
    for (ssize_t got; (got = recv(part->fd, buffer, room, 0)) != 0;) {
        must(got > 0, "recv");
        must(file < 0 || pwrite(file, buffer, (size_t)got, (off_t)part->offset) == got, "pwrite");
        part->bytes += (uint64_t)got;
        part->offset += (uint64_t)got;
    }
    if (file >= 0) {
        close(file);
    }
    free(buffer);
    close(part->fd);
    return NULL;
}

static int listen_anywhere(struct sockaddr_in *address)
{
    socklen_t size = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *address =
        (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    must(fd >= 0 && bind(fd, (struct sockaddr *)address, size) == 0 && listen(fd, STREAMS) == 0 &&
             getsockname(fd, (struct sockaddr *)address, &size) == 0,
         "listen");
    return fd;
}

static double time_anchor(const struct bench *bench, enum anchor anchor, uint64_t bytes)
{
    struct part senders[STREAMS], receivers[STREAMS];
    struct sockaddr_in address;
    char copy[1024];
    uint64_t received = 0;
    (void)snprintf(copy, sizeof(copy), "%s/copy", bench->dir);
    double begin = ratio_now_s();
    int listener = listen_anywhere(&address);
    for (unsigned i = 0; i < STREAMS; i++) {
        uint64_t from = bytes * i / STREAMS;
        receivers[i] = (struct part){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                                      .anchor = anchor,
                                      .file = copy,
                                      .offset = from };
        must(connect(receivers[i].fd, (struct sockaddr *)&address, sizeof(address)) == 0,
             "connect");
        senders[i] = (struct part){ .fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC),
                                    .anchor = anchor,
                                    .file = bench->model,
                                    .offset = from,
                                    .bytes = bytes * (i + 1) / STREAMS - from };
        must(senders[i].fd >= 0 &&
                 pthread_create(&senders[i].thread, NULL, send_part, &senders[i]) == 0 &&
                 pthread_create(&receivers[i].thread, NULL, receive_part, &receivers[i]) == 0,
             "a stream");
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        (void)pthread_join(senders[i].thread, NULL);
        (void)pthread_join(receivers[i].thread, NULL);
        received += receivers[i].bytes;
    }
    close(listener);
    must(received == bytes, "bytes were lost");
    double seconds = ratio_now_s() - begin;
    (void)unlink(copy);
    return seconds;
}

/* --- all --- */

static void open_bench(struct bench *bench)
{
    char path[BATON_PATH_BYTES];
    (void)signal(SIGPIPE, SIG_IGN);
    bench->dir = ratio_directory();
    bench->source = version_root(bench->dir, "source");
    bench->landing = version_root(bench->dir, "landing");
    bench->signer = capability_signer_create();
    bench->manifest = version_make(bench->source);
    landing_path(bench->source, bench->manifest->digest, path);
    (void)snprintf(bench->model, sizeof(bench->model), "%s/model.safetensors", path);
    struct p2p_server_options options = { .listen = "127.0.0.1:0",
                                          .roots = { bench->source },
                                          .roots_count = 1,
                                          .keys = keys,
                                          .refused = on_refused,
                                          .wall_s = now_s,
                                          .context = bench };
    version_must(p2p_server_create(&options, &bench->server));
    (void)snprintf(bench->address, sizeof(bench->address), "127.0.0.1:%u",
                   (unsigned)p2p_server_port(bench->server));
}

static void close_bench(struct bench *bench)
{
    p2p_server_destroy(bench->server);
    landing_root_close(bench->source);
    landing_root_close(bench->landing);
    capability_signer_destroy(bench->signer);
    manifest_destroy(bench->manifest);
    ratio_remove(bench->dir);
}

static const struct ratio RATIOS[ANCHORS] = {
    { .name = "p2p",
      .unit = "GB/s",
      .anchor = "send and recv as iperf3 does, 4 streams",
      .target = 0.9 },
    { .name = "p2p_sendfile",
      .unit = "GB/s",
      .anchor = "sendfile, 4 streams, nothing verified or written",
      .target = 0.5 },
    { .name = "p2p_landed",
      .unit = "GB/s",
      .anchor = "sendfile, 4 streams, written to tmpfs, nothing verified",
      .target = 0.9 },
};

/* Ours and one anchor in turn. */
static int measure(struct bench *bench, enum anchor anchor)
{
    struct ratio ratio = RATIOS[anchor];
    double cpu[2] = { 0 };
    uint64_t bytes = VERSION_TENSORS * VERSION_TENSOR_BYTES;
    (void)time_anchor(bench, anchor, bytes);
    for (unsigned i = 0; i < PAIRS; i++) {
        double began = cpu_s();
        double ours = time_pull(bench);
        double between = cpu_s();
        double theirs = time_anchor(bench, anchor, bytes);
        cpu[0] += between - began;
        cpu[1] += cpu_s() - between;
        ratio_add(&ratio, 1e-9 * (double)bytes / ours, 1e-9 * (double)bytes / theirs);
    }
    printf("{\"name\": \"%s_cpu\", \"value\": %.3f, \"unit\": \"CPU s/GB, both sides\", "
           "\"anchor\": \"%s\", \"anchor_value\": %.3f}\n",
           ratio.name, cpu[0] / (1e-9 * (double)bytes * PAIRS), ratio.anchor,
           cpu[1] / (1e-9 * (double)bytes * PAIRS));
    return ratio_print(&ratio);
}

int main(void)
{
    struct bench bench = { NULL };
    int missed = 0;
    open_bench(&bench);
    (void)time_pull(&bench); /* Pages and code are there from now on. */
    for (enum anchor anchor = COPIES; anchor < ANCHORS; anchor++) {
        missed |= measure(&bench, anchor);
    }
    close_bench(&bench);
    return missed;
}
