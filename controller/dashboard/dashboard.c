/* dashboard.c -- life of the dashboard; see dashboard.h. */
#include "controller/dashboard/dashboard.h"

#include <stdlib.h>

#include "api/base/clock.h"
#include "controller/dashboard/bridge.h"

enum {
    CONNECTIONS_MAX = 256,
    DRAIN_S = 2,
    CONNECTIONS_OF_ONE_MAX = 64,
    BODY_BYTES_MAX = 256 << 10,
    STREAM_BYTES_MAX = 8 * BATON_MESSAGE_BYTES_MAX
};

static struct baton_status check_listen(const struct dashboard_options *options)
{
    if (options->insecure || web_listen_is_local(options->listen)) {
        return baton_status_ok();
    }
    return baton_status_hint(
        baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NOT_ALLOWED,
                          "dashboard.listen: other machines would reach %.80s, without TLS",
                          options->listen),
        "listen at 127.0.0.1 and use `ssh -L` or `kubectl port-forward`, or say 'insecure: true'");
}

static struct baton_status start(struct dashboard *dashboard)
{
    const struct dashboard_options *options = &dashboard->options;
    const struct rpc_client_options inside = { .inside = options->server,
                                               .user_agent = "baton-dashboard/" BATON_VERSION };
    struct baton_status st = rpc_client_create(&inside, &dashboard->client);
    if (!baton_ok(&st)) {
        return st;
    }
    const struct web_options web = { .listen = options->listen,
                                     .field = "dashboard.listen",
                                     .handler = bridge_handle,
                                     .context = dashboard,
                                     .connections_max = CONNECTIONS_MAX,
                                     .connections_of_one_max = CONNECTIONS_OF_ONE_MAX,
                                     .body_bytes_max = BODY_BYTES_MAX,
                                     .stream_bytes_max = STREAM_BYTES_MAX,
                                     .alive = ": alive\n\n" };
    return web_create(&web, &dashboard->web);
}

struct baton_status dashboard_create(const struct dashboard_options *options,
                                     struct dashboard **out)
{
    *out = NULL;
    struct baton_status st = check_listen(options);
    if (!baton_ok(&st)) {
        return st;
    }
    struct dashboard *dashboard = calloc(1, sizeof(*dashboard));
    baton_assert(dashboard != NULL);
    dashboard->options = *options;
    dashboard->is_local = web_listen_is_local(options->listen);
    st = start(dashboard);
    if (!baton_ok(&st)) {
        dashboard_destroy(dashboard);
        return st;
    }
    *out = dashboard;
    return st;
}

uint16_t dashboard_port(const struct dashboard *dashboard)
{
    return web_port(dashboard->web);
}

void dashboard_destroy(struct dashboard *dashboard)
{
    if (dashboard == NULL) {
        return;
    }
    if (dashboard->web != NULL) { /* The server ended its streams: their callers hear why. */
        web_drain(dashboard->web, DRAIN_S * BATON_NS_PER_S);
    }
    web_destroy(dashboard->web); /* Who is left leaves, and with them their calls. */
    rpc_client_destroy(dashboard->client);
    free(dashboard);
}
