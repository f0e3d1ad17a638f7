/* config_rates.c -- the part of the controller's file that bounds what callers may use up; see config.h. */
#include "api/base/clock.h"
#include "api/config/config.h"
#include "controller/shell/config.h"

#define HANDSHAKE_NS     (20 * BATON_NS_PER_S)
#define IDLE_NS          (1800 * BATON_NS_PER_S)
#define HANDSHAKE_NS_MIN (100 * BATON_NS_PER_MS)
#define IDLE_NS_MIN      BATON_NS_PER_S

enum { PER_ADDRESS = 1024 };

static struct baton_status check_rate(enum role role, const struct rate *rate)
{
    if (rate->calls > RATES_CALLS_MAX || rate->burst > RATES_CALLS_MAX ||
        rate->streams > RATES_STREAMS_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "rates.%s: calls and burst are at most %d, streams at most %d",
                                 role_name(role), RATES_CALLS_MAX, RATES_STREAMS_MAX);
    }
    return baton_status_ok();
}

struct baton_status controller_config_rates(const struct controller_config *config,
                                            struct rates_options *out)
{
    struct baton_status st = baton_status_ok();
    *out = (struct rates_options){ 0 };
    for (int i = 0; i < ROLES_COUNT && config != NULL && config->rates != NULL && baton_ok(&st);
         i++) {
        const struct rate *given = config->rates->roles[i];
        if (given != NULL) {
            st = check_rate((enum role)i, given);
            out->roles[i] = *given;
        }
    }
    return st;
}

struct baton_status controller_config_connections(const struct controller_config *config,
                                                  struct connection_limits *out)
{
    static const struct controller_connections none = { 0 };
    const struct controller_connections *given =
        config != NULL && config->connections != NULL ? config->connections : &none;
    struct baton_status st = baton_config_duration("connections.handshake", given->handshake,
                                                   HANDSHAKE_NS, &out->handshake_ns);
    if (baton_ok(&st)) {
        st = baton_config_duration("connections.idle", given->idle, IDLE_NS, &out->idle_ns);
    }
    if (baton_ok(&st) && (out->handshake_ns < HANDSHAKE_NS_MIN || out->idle_ns < IDLE_NS_MIN)) {
        st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                               "connections: handshake is at least 100 ms, idle at least 1 s");
    }
    out->per_address_max = given->per_address != 0 ? given->per_address : PER_ADDRESS;
    return st;
}
