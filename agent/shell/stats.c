/* stats.c -- see stats.h. */
#include "agent/shell/stats.h"

#include <string.h>
#include <time.h>

#include "api/rpc/rpc.h"

static void show_certificates(const struct shell_config *config, struct metrics_page *page)
{
    const char *const files[] = { config->cert, config->ca, config->listen_cert,
                                  config->peer_cert };
    metrics_family(page, "baton_certificate_expiration_timestamp_seconds", METRICS_GAUGE,
                   "When a certificate of this daemon ends.");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const struct metrics_label label = { "file", files[i] };
        int64_t seconds = 0;
        bool is_shown = files[i][0] == '\0';
        for (size_t k = 0; k < i; k++) {
            is_shown |= strcmp(files[k], files[i]) == 0;
        }
        struct baton_status st = rpc_certificate_ends(files[i], &seconds);
        if (!is_shown && baton_ok(&st)) {
            metrics_sample(page, &label, 1, (double)(time(NULL) + seconds));
        }
    }
}

static void collect(struct metrics_page *page, void *context)
{
    metrics_build(page, "agent", BATON_VERSION);
    show_certificates(context, page);
}

struct baton_status stats_create(const struct shell_config *config, struct metrics **out)
{
    struct metrics_options options = { config->metrics_listen, collect, (void *)(uintptr_t)config };
    *out = NULL;
    return config->metrics_listen[0] == '\0' ? baton_status_ok() : metrics_create(&options, out);
}
