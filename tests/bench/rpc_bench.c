/* rpc_bench.c -- unary calls a second through api/rpc, as a ratio to the bare core (rpc_bare.h); and over mutual TLS, as a ratio
 * to the same calls in plain text.
 *
 * Both sides of the figure run client and server in one process, with one thread each, the same
 * calls outstanding and the same bytes; "hop" answers from a third thread, as the daemons do. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/rpc/rpc.h"
#include "baton/v1/models.pb-c.h"
#include "tests/bench/ratio.h"
#include "tests/bench/rpc_bare.h"

enum { OUTSTANDING = 64, QUEUE_ITEMS = 1024, PAIRS_DEFAULT = 11, PATH_BYTES = 128 };
#define SECONDS      0.5
#define WARM_SECONDS 0.2

static void must(bool holds, const char *what)
{
    if (!holds) {
        (void)fprintf(stderr, "rpc_bench: %s\n", what);
        abort();
    }
}

/* --- the hop: a bounded queue to one thread --- */

struct hop {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t filled;
    void *items[QUEUE_ITEMS];
    size_t first;
    size_t count;
    bool is_ended;
    void (*answer)(void *call);
};

static void hand_over(void *call, void *context)
{
    struct hop *hop = context;
    pthread_mutex_lock(&hop->mutex);
    must(hop->count < QUEUE_ITEMS, "the queue is full");
    hop->items[(hop->first + hop->count++) % QUEUE_ITEMS] = call;
    if (hop->count == 1) {
        pthread_cond_signal(&hop->filled);
    }
    pthread_mutex_unlock(&hop->mutex);
}

static void *take_over(void *argument)
{
    struct hop *hop = argument;
    pthread_mutex_lock(&hop->mutex);
    for (;;) {
        while (hop->count == 0 && !hop->is_ended) {
            (void)pthread_cond_wait(&hop->filled, &hop->mutex);
        }
        if (hop->count == 0) {
            break;
        }
        void *call = hop->items[hop->first];
        hop->first = (hop->first + 1) % QUEUE_ITEMS;
        hop->count--;
        pthread_mutex_unlock(&hop->mutex);
        hop->answer(call);
        pthread_mutex_lock(&hop->mutex);
    }
    pthread_mutex_unlock(&hop->mutex);
    return NULL;
}

static void hop_start(struct hop *hop, void (*answer)(void *call))
{
    *hop = (struct hop){ .answer = answer };
    pthread_mutex_init(&hop->mutex, NULL);
    pthread_cond_init(&hop->filled, NULL);
    must(pthread_create(&hop->thread, NULL, take_over, hop) == 0, "no thread");
}

static void hop_stop(struct hop *hop)
{
    pthread_mutex_lock(&hop->mutex);
    hop->is_ended = true;
    pthread_cond_signal(&hop->filled);
    pthread_mutex_unlock(&hop->mutex);
    (void)pthread_join(hop->thread, NULL);
    pthread_cond_destroy(&hop->filled);
    pthread_mutex_destroy(&hop->mutex);
}

/* --- ours --- */

struct ours {
    struct rpc_server *server;
    struct rpc_client *client;
    struct hop *hop; /* Null: the handler answers. */
    atomic_bool is_running;
    atomic_uint open;
    uint64_t done;
    pthread_mutex_t mutex;
    pthread_cond_t idle;
};

static void fill_request(Baton__V1__GetModelRequest *request)
{
    baton__v1__get_model_request__init(request);
    request->name = "qwen3-8b-grpo";
}

static void fill_reply(Baton__V1__Model *model, Baton__V1__ObjectMeta *meta)
{
    baton__v1__model__init(model);
    baton__v1__object_meta__init(meta);
    meta->name = "qwen3-8b-grpo";
    meta->revision = 12345;
    model->meta = meta;
}

static void answer_ours(void *call)
{
    Baton__V1__Model model;
    Baton__V1__ObjectMeta meta;
    fill_reply(&model, &meta);
    rpc_reply(call, &model);
    rpc_call_unref(call);
}

static void get(struct rpc_call *call, const void *request, void *context)
{
    struct ours *ours = context;
    must(((const Baton__V1__GetModelRequest *)request)->name[0] == 'q', "another request");
    rpc_call_ref(call);
    if (ours->hop != NULL) {
        hand_over(call, ours->hop);
    } else {
        answer_ours(call);
    }
}

static void ask(struct ours *ours);

static void on_done(const struct rpc_result *result, void *context)
{
    struct ours *ours = context;
    must(baton_ok(&result->status), result->status.message);
    baton_wire_free(result->message);
    ours->done++;
    if (atomic_load(&ours->is_running)) {
        ask(ours);
    } else if (atomic_fetch_sub(&ours->open, 1) == 1) {
        pthread_mutex_lock(&ours->mutex);
        pthread_cond_signal(&ours->idle);
        pthread_mutex_unlock(&ours->mutex);
    }
}

static void ask(struct ours *ours)
{
    Baton__V1__GetModelRequest request;
    fill_request(&request);
    rpc_unary_start(ours->client, "baton.v1.Models/Get", &request, NULL, on_done, ours);
}

static double ours_run(struct ours *ours, unsigned outstanding, double seconds)
{
    ours->done = 0;
    atomic_store(&ours->is_running, true);
    atomic_store(&ours->open, outstanding);
    double start = ratio_now_s();
    for (unsigned i = 0; i < outstanding; i++) {
        ask(ours);
    }
    struct timespec wait = { 0, (long)(seconds * 1e9) };
    (void)nanosleep(&wait, NULL);
    atomic_store(&ours->is_running, false);
    pthread_mutex_lock(&ours->mutex);
    while (atomic_load(&ours->open) > 0) {
        (void)pthread_cond_wait(&ours->idle, &ours->mutex);
    }
    pthread_mutex_unlock(&ours->mutex);
    return (double)ours->done / (ratio_now_s() - start);
}

/* Of both ends, from a folder that tests/unit/rpc_certs.sh filled. */
struct certificates {
    char files[5][PATH_BYTES];
    struct rpc_tls server;
    struct rpc_tls client;
};

static const struct certificates *certificates_of(const char *folder)
{
    static struct certificates found;
    static const char *const NAMES[] = { "ca.pem", "server.pem", "server.key", "client.pem",
                                         "client.key" };
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        (void)snprintf(found.files[i], sizeof(found.files[i]), "%s/%s", folder, NAMES[i]);
    }
    found.server = (struct rpc_tls){ .cert_file = found.files[1],
                                     .key_file = found.files[2],
                                     .ca_file = found.files[0],
                                     .require_client = true };
    found.client = (struct rpc_tls){ .cert_file = found.files[3],
                                     .key_file = found.files[4],
                                     .ca_file = found.files[0] };
    return &found;
}

/* 'certificates' null: in plain text. */
static void ours_start(struct ours *ours, const struct certificates *certificates)
{
    static const struct rpc_route ROUTES[] = { { "baton.v1.Models/Get", get, 0 } };
    struct rpc_listener listener = { .address = "127.0.0.1:0",
                                     .tls = certificates == NULL ? NULL : &certificates->server };
    *ours = (struct ours){ .hop = NULL };
    pthread_mutex_init(&ours->mutex, NULL);
    pthread_cond_init(&ours->idle, NULL);
    struct rpc_server_options options = { .routes = ROUTES,
                                          .routes_count = 1,
                                          .context = ours,
                                          .listeners = &listener,
                                          .listeners_count = 1 };
    struct baton_status st = rpc_server_create(&options, &ours->server);
    must(baton_ok(&st), st.message);
    rpc_server_start(ours->server);
    char target[32];
    (void)snprintf(target, sizeof(target), "127.0.0.1:%u",
                   (unsigned)rpc_server_port(ours->server, 0));
    struct rpc_client_options client_options = {
        .target = target, .tls = certificates == NULL ? NULL : &certificates->client
    };
    st = rpc_client_create(&client_options, &ours->client);
    must(baton_ok(&st), st.message);
}

static void ours_stop(struct ours *ours)
{
    rpc_client_destroy(ours->client);
    rpc_server_destroy(ours->server);
    pthread_cond_destroy(&ours->idle);
    pthread_mutex_destroy(&ours->mutex);
}

/* --- figures --- */

static struct bare *bare_start(void)
{
    uint8_t request_bytes[128];
    uint8_t reply_bytes[128];
    Baton__V1__GetModelRequest request;
    Baton__V1__Model model;
    Baton__V1__ObjectMeta meta;
    fill_request(&request);
    fill_reply(&model, &meta);
    size_t request_size = baton_wire_encode(&request, request_bytes);
    size_t reply_size = baton_wire_encode(&model, reply_bytes);
    return bare_create(request_bytes, request_size, reply_bytes, reply_size);
}

/* What carries the calls. */
enum side { SIDE_BARE, SIDE_OURS, SIDE_TLS };

static const char *folder = "-"; /* Of certificates. */

/* One measurement, in a process of its own: the core lets the threads of all queues of a process share
 * the work of the network, so that two rigs in one process would help each other. */
static double measure_here(enum side side, bool has_hop, unsigned outstanding)
{
    bool is_ours = side != SIDE_BARE;
    struct hop hop;
    double rate = 0;
    hop_start(&hop, is_ours ? answer_ours : bare_answer);
    if (is_ours) {
        struct ours ours;
        ours_start(&ours, side == SIDE_TLS ? certificates_of(folder) : NULL);
        ours.hop = has_hop ? &hop : NULL;
        (void)ours_run(&ours, outstanding, WARM_SECONDS);
        rate = ours_run(&ours, outstanding, SECONDS);
        ours_stop(&ours);
    } else {
        struct bare *bare = bare_start();
        bare_set_hop(bare, has_hop ? hand_over : NULL, &hop);
        (void)bare_run(bare, outstanding, WARM_SECONDS);
        rate = bare_run(bare, outstanding, SECONDS);
        bare_destroy(bare);
    }
    hop_stop(&hop);
    return rate;
}

static double measure_apart(enum side side, bool has_hop, unsigned outstanding)
{
    char self[512];
    char command[768];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    must(length > 0, "no path of itself");
    self[length] = '\0';
    (void)snprintf(command, sizeof(command), "'%s' --one %d %d %u '%s'", self, side, has_hop,
                   outstanding, folder);
    FILE *child = popen(command, "re");
    double rate = 0;
    must(child != NULL && fscanf(child, "%lf", &rate) == 1, "a measurement gave nothing");
    must(pclose(child) == 0, "a measurement failed");
    return rate;
}

/* A row of figures: 'side' against 'anchor_side'. */
struct row {
    const char *name;
    enum side side;
    enum side anchor_side;
    bool has_hop;
    unsigned outstanding;
    double target;
};

static int measure(const struct row *row, unsigned pairs)
{
    struct ratio ratio = { .name = row->name, .unit = "calls/s", .target = row->target };
    ratio.anchor = row->anchor_side == SIDE_BARE ? "bare completion-queue loop" : "plain text";
    for (unsigned i = 0; i < pairs; i++) {
        bool ours_first = i % 2 == 0; /* Who goes first changes, so that neither gains by it. */
        double first = measure_apart(ours_first ? row->side : row->anchor_side, row->has_hop,
                                     row->outstanding);
        double second = measure_apart(ours_first ? row->anchor_side : row->side, row->has_hop,
                                      row->outstanding);
        ratio_add(&ratio, ours_first ? first : second, ours_first ? second : first);
    }
    return ratio_print(&ratio);
}

static int measure_all(unsigned pairs)
{
    static const struct row ROWS[] = {
        { "rpc_unary_hop", SIDE_OURS, SIDE_BARE, true, OUTSTANDING, 0.9 },
        { "rpc_unary", SIDE_OURS, SIDE_BARE, false, OUTSTANDING, 0.9 },
        { "rpc_unary_hop_one_outstanding", SIDE_OURS, SIDE_BARE, true, 1, 0.9 },
        { "rpc_unary_tls", SIDE_TLS, SIDE_OURS, true, OUTSTANDING, 0.6 },
        { "rpc_unary_tls_one_outstanding", SIDE_TLS, SIDE_OURS, true, 1, 0.6 },
    };
    int missed = 0;
    char *made = ratio_directory();
    const char *const make[] = { RPC_CERTS, made, NULL };
    (void)ratio_time_command(make);
    folder = made;
    for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
        missed += measure(&ROWS[i], pairs);
    }
    ratio_remove(made);
    return missed;
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "--one") == 0) {
        folder = argv[5];
        (void)printf("%f\n", measure_here((enum side)strtoul(argv[2], NULL, 10), argv[3][0] == '1',
                                          (unsigned)strtoul(argv[4], NULL, 10)));
        return 0;
    }
    unsigned pairs = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : PAIRS_DEFAULT;
    must(pairs > 0 && pairs <= RATIO_PAIRS_MAX, "usage: rpc_bench [PAIRS]");
    return measure_all(pairs) > 0;
}
