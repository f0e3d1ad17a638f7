/* rates.c -- see rates.h. */
#include "controller/shell/rates.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "api/base/clock.h"
#include "api/base/random.h"

/* Places stand in rows; an identity's row is that of its hash. */
enum { ROWS = 4096, PLACES_PER_ROW = 8, NO_ROLE = ROLES_COUNT };

/* Agents: a fleet may share a certificate, and come back all at once. */
static const struct rate defaults[ROLES_COUNT] = {
    [ROLE_TRAINER] = { 500, 1000, 256 },    [ROLE_AGENT] = { 500, 20000, 16384 },
    [ROLE_ROUTER] = { 10000, 20000, 2048 }, [ROLE_OPERATOR] = { 500, 1000, 1024 },
    [ROLE_VIEWER] = { 500, 1000, 1024 },
};

struct place {
    uint64_t hash; /* Of identity and role; 0: free. */
    uint64_t
        paid_to_ns; /* Up to when its calls are paid for: ahead of now by what it took of its bucket. */
    uint32_t streams;
};

struct rates {
    struct rate roles[ROLES_COUNT]; /* Constant, as is the next. */
    uint64_t seed;
    atomic_uint_fast64_t refused;
    pthread_mutex_t mutex;
    struct place places[ROWS * PLACES_PER_ROW]; /* Under the mutex. */
};

static struct rate fill(struct rate given, const struct rate *otherwise)
{
    given.calls = given.calls > 0 ? given.calls : otherwise->calls;
    given.burst = given.burst > 0 ? given.burst : otherwise->burst;
    given.streams = given.streams > 0 ? given.streams : otherwise->streams;
    return given;
}

struct rates *rates_create(const struct rates_options *options)
{
    struct rates *rates = calloc(1, sizeof(*rates));
    baton_assert(rates != NULL);
    for (int i = 0; i < ROLES_COUNT; i++) {
        rates->roles[i] = fill(options != NULL ? options->roles[i] : defaults[i], &defaults[i]);
    }
    baton_random_secure((uint8_t *)&rates->seed, sizeof(rates->seed));
    pthread_mutex_init(&rates->mutex, NULL);
    return rates;
}

void rates_destroy(struct rates *rates)
{
    if (rates != NULL) {
        pthread_mutex_destroy(&rates->mutex);
        free(rates);
    }
}

struct rate rates_of(const struct rates *rates, enum role role)
{
    return rates->roles[role];
}

/* The role whose rate is the highest of those given. */
static unsigned choose(const struct rates *rates, unsigned roles)
{
    unsigned best = NO_ROLE;
    for (unsigned i = 0; i < ROLES_COUNT; i++) {
        bool has = (roles & ROLE_BIT(i)) != 0;
        if (has && (best == NO_ROLE || rates->roles[i].calls > rates->roles[best].calls)) {
            best = i;
        }
    }
    return best;
}

static uint64_t hash_of(const struct rates *rates, const char *identity, unsigned role)
{
    uint64_t hash = rates->seed ^ role;
    for (; *identity != '\0'; identity++) { /* FNV-1a. */
        hash = (hash ^ (uint8_t)*identity) * UINT64_C(0x100000001b3);
    }
    hash ^= hash >> 29;
    return hash != 0 ? hash : 1;
}

static bool is_idle(const struct place *place, uint64_t now_ns)
{
    return place->streams == 0 && place->paid_to_ns <= now_ns;
}

/* The identity's place, or one that nobody needs any more; a row full of busy ones shares its first. */
static struct place *find(struct rates *rates, uint64_t hash, uint64_t now_ns)
{
    struct place *row = &rates->places[hash % ROWS * PLACES_PER_ROW];
    struct place *spare = NULL;
    for (int i = 0; i < PLACES_PER_ROW; i++) {
        if (row[i].hash == hash) {
            return &row[i];
        }
        if (spare == NULL && is_idle(&row[i], now_ns)) {
            spare = &row[i];
        }
    }
    if (spare == NULL) {
        return row;
    }
    *spare = (struct place){ .hash = hash };
    return spare;
}

static const char *name_of(unsigned role)
{
    return role_name(role == NO_ROLE ? ROLE_VIEWER : (enum role)role);
}

static struct baton_status refuse_call(const struct rates_call *call, unsigned role,
                                       const struct rate *rate)
{
    struct baton_status st =
        baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                          "%.120s called more than %u times a second, and %u more at once",
                          call->identity, rate->calls, rate->burst);
    return baton_status_hint(
        st, "call less often, or raise rates.%s.calls (or burst) in the controller's file",
        name_of(role));
}

static struct baton_status refuse_stream(const struct rates_call *call, unsigned role,
                                         const struct rate *rate)
{
    struct baton_status st = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                               "%.120s has %u streams open, the most that it may",
                                               call->identity, rate->streams);
    return baton_status_hint(st, "end one, or raise rates.%s.streams in the controller's file",
                             name_of(role));
}

/* With the mutex. */
static struct baton_status take(const struct rate *rate, const struct rates_call *call,
                                unsigned role, struct place *place, uint64_t *retry_ns)
{
    uint64_t from = place->paid_to_ns > call->now_ns ? place->paid_to_ns : call->now_ns;
    uint64_t paid_to = from + BATON_NS_PER_S / rate->calls;
    uint64_t burst_ns = rate->burst * BATON_NS_PER_S / rate->calls;
    if (paid_to - call->now_ns > burst_ns) {
        *retry_ns = paid_to - call->now_ns - burst_ns;
        return refuse_call(call, role, rate);
    }
    place->paid_to_ns = paid_to;
    return call->is_stream && place->streams >= rate->streams ? refuse_stream(call, role, rate)
                                                              : baton_status_ok();
}

struct baton_status rates_take(struct rates *rates, const struct rates_call *call, uint32_t *mark,
                               uint64_t *retry_ns)
{
    unsigned role = choose(rates, call->roles);
    const struct rate *rate = &rates->roles[role == NO_ROLE ? ROLE_VIEWER : role];
    uint64_t hash = hash_of(rates, call->identity, role);
    *mark = 0;
    *retry_ns = 0;
    pthread_mutex_lock(&rates->mutex);
    struct place *place = find(rates, hash, call->now_ns);
    struct baton_status st = take(rate, call, role, place, retry_ns);
    if (baton_ok(&st) && call->is_stream) {
        place->streams++;
        *mark = (uint32_t)(place - rates->places) + 1;
    }
    pthread_mutex_unlock(&rates->mutex);
    if (!baton_ok(&st)) {
        atomic_fetch_add_explicit(&rates->refused, 1, memory_order_relaxed);
    }
    return st;
}

void rates_give_back(struct rates *rates, uint32_t mark)
{
    if (mark > 0) {
        pthread_mutex_lock(&rates->mutex);
        baton_assert(rates->places[mark - 1].streams > 0);
        rates->places[mark - 1].streams--;
        pthread_mutex_unlock(&rates->mutex);
    }
}

uint64_t rates_refused(const struct rates *rates)
{
    return atomic_load_explicit(&rates->refused, memory_order_relaxed);
}
