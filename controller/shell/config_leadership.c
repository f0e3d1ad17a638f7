/* config_leadership.c -- the section 'leadership' of the controller's file, checked; see config.h. */
#include <string.h>

#include "api/base/clock.h"
#include "api/config/config.h"
#include "controller/shell/config.h"

static const uint64_t LEASE_NS_MIN = 500 * BATON_NS_PER_MS;
static const uint64_t LEASE_NS_MAX = 60 * BATON_NS_PER_S;
static const uint64_t LAST_KNOWN_NS = 300 * BATON_NS_PER_S;
enum { RENEW_MS_MIN = 50, SKEWS_OF_LEASE_MAX = 100 };

static struct baton_status check_advertise(const char *address)
{
    static const char *const nowhere[] = { "0.0.0.0:", "[::]:", "*:", ":" };
    const char *colon = address == NULL ? NULL : strrchr(address, ':');
    bool ok = colon != NULL && colon[1] != '\0' &&
              strspn(colon + 1, "0123456789") == strlen(colon + 1) &&
              strpbrk(address, " \t\r\n\",\\/") == NULL && strlen(address) < LEADER_ADDRESS_BYTES;
    for (size_t i = 0; ok && i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
        ok = strncmp(address, nowhere[i], strlen(nowhere[i])) != 0;
    }
    return ok ? baton_status_ok()
              : baton_status_hint(
                    baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                      "leadership.advertise: \"%.200s\" is no address that agents "
                                      "and batonctl could reach",
                                      address == NULL ? "" : address),
                    "write host:port, as others reach this controller");
}

/* A leader has two tries before it must stop, and stops before anybody else may begin. */
static struct baton_status check_times(const struct leadership_options *out)
{
    const char *wrong = NULL;
    if (out->lease_ns < LEASE_NS_MIN || out->lease_ns > LEASE_NS_MAX) {
        wrong = "lease: from 500ms to 60s";
    } else if (out->skew_ns < out->lease_ns / SKEWS_OF_LEASE_MAX) {
        wrong = "clockSkew: at least a hundredth of lease";
    } else if (out->renew_ns < RENEW_MS_MIN * BATON_NS_PER_MS) {
        wrong = "renew: at least 50ms";
    } else if (out->renew_ns > out->lease_ns / 2 ||
               2 * out->renew_ns + out->skew_ns > out->lease_ns) {
        wrong = "renew: twice that and clockSkew fit into lease";
    }
    return wrong == NULL ? baton_status_ok()
                         : baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                             "leadership.%s", wrong);
}

struct baton_status controller_config_leadership(const struct controller_config *config,
                                                 const char *advertise,
                                                 struct leadership_options *out)
{
    const struct controller_leadership none = { 0 };
    const struct controller_leadership *given =
        config != NULL && config->leadership != NULL ? config->leadership : &none;
    *out = (struct leadership_options){ .advertise =
                                            advertise != NULL ? advertise : given->advertise };
    struct baton_status st = check_advertise(out->advertise);
    if (baton_ok(&st)) {
        st = baton_config_duration("leadership.lease", given->lease, 2 * BATON_NS_PER_S,
                                   &out->lease_ns);
    }
    if (baton_ok(&st)) {
        st = baton_config_duration("leadership.renew", given->renew, out->lease_ns * 3 / 10,
                                   &out->renew_ns);
    }
    if (baton_ok(&st)) {
        st = baton_config_duration("leadership.clockSkew", given->clock_skew, out->lease_ns / 10,
                                   &out->skew_ns);
    }
    if (baton_ok(&st)) {
        st = baton_config_duration("leadership.lastKnown", given->last_known, LAST_KNOWN_NS,
                                   &out->last_known_ns);
    }
    return baton_ok(&st) ? check_times(out) : st;
}
