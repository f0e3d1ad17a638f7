/* transport_conformance.c -- the suite that every transport backend must pass.
 *
 * usage: transport_conformance BACKEND [CONFIG]
 *   BACKEND  "memory", "file", or the path of a shared object
 *   CONFIG   its configuration; every @DIR@ in it becomes a directory that holds the file "object"
 *
 * Rows whose capabilities the backend lacks are skipped by name.  Exit 0: no row failed. */
#include "tests/conformance/transport_conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "tests/unit/checkpoint_maker.h"
#include "transport/host/registry.h"

/* The frozen layout of major 1 on 64-bit machines; a change needs a new line written by hand. */
_Static_assert(sizeof(struct baton_transport_plugin) == 128, "table, minor 0");
_Static_assert(offsetof(struct baton_transport_plugin, open) == 32, "head");
_Static_assert(offsetof(struct baton_transport_plugin, mem_register) == 64, "order");
_Static_assert(offsetof(struct baton_transport_plugin, get) == 96, "order");
_Static_assert(offsetof(struct baton_transport_plugin, poll) == 120, "order");
_Static_assert(sizeof(struct baton_tp_host) == 24, "host");
_Static_assert(sizeof(struct baton_tp_attr) == 32, "attributes");
_Static_assert(sizeof(struct baton_tp_memory) == 40, "memory");
_Static_assert(sizeof(struct baton_tp_transfer) == 72, "transfer");
_Static_assert(offsetof(struct baton_tp_transfer, peer_bytes) == 64, "transfer");
_Static_assert(sizeof(struct baton_tp_completion) == 24, "completions never grow");

struct baton_tp_transfer bench_transfer(const struct bench *bench, uint64_t offset, uint64_t bytes,
                                        uint64_t op_id)
{
    return (struct baton_tp_transfer){
        .size = sizeof(struct baton_tp_transfer),
        .peer = bench->address,
        .key = bench->key,
        .mem = bench->mem,
        .remote_offset = offset,
        .bytes = bytes,
        .op_id = op_id,
        .peer_bytes = bench->address_bytes,
        .key_bytes = bench->key_bytes,
    };
}

bool bench_poll(struct baton_tp *tp, const struct bench *bench, struct baton_tp_completion *out)
{
    uint64_t deadline = baton_clock_monotonic_ns() + 10 * BATON_NS_PER_S;
    uint32_t count = 0;
    while (count == 0) {
        uint64_t now = baton_clock_monotonic_ns();
        if (bench->plugin->poll(tp, now, out, 1, &count) < 0 || now > deadline) {
            return false;
        }
    }
    return count == 1;
}

struct baton_tp_completion bench_do(const struct bench *bench,
                                    int (*fn)(struct baton_tp *, const struct baton_tp_transfer *),
                                    const struct baton_tp_transfer *transfer)
{
    struct baton_tp_completion done = { transfer->op_id, 0, BATON_TP_E_INTERNAL, 0 };
    int result = fn(bench->reader, transfer);
    if (result < 0) {
        done.result = result;
        return done;
    }
    if (!bench_poll(bench->reader, bench, &done)) {
        done.result = BATON_TP_E_INTERNAL;
    }
    return done;
}

static void give_up(const char *what)
{
    printf("not ok - %s\n", what);
    exit(1);
}

/* Puts 'dir' where CONFIG says @DIR@. */
static void fill_config(struct bench *bench, const char *config, const char *dir)
{
    size_t used = 0;
    while (*config != '\0') {
        bool mark = strncmp(config, "@DIR@", 5) == 0;
        int n = snprintf(bench->config + used, sizeof(bench->config) - used, "%.*s",
                         mark ? 2000 : 1, mark ? dir : config);
        used += (size_t)n;
        if (used >= sizeof(bench->config)) {
            give_up("the configuration is too long");
        }
        config += mark ? 5 : 1;
    }
}

/* Memory of a second transport stands for the object. */
static void export_object(struct bench *bench)
{
    struct baton_tp_memory memory = { sizeof(memory),      bench->object, OBJECT_BYTES, NULL, 0,
                                      BATON_TP_ACCESS_READ };
    bench->address_bytes = sizeof(bench->address);
    bench->key_bytes = sizeof(bench->key);
    if (bench->plugin->open(NULL, bench->config, &bench->peer) != BATON_TP_OK ||
        bench->plugin->mem_register(bench->peer, &memory, &bench->exported) != BATON_TP_OK ||
        bench->plugin->address(bench->peer, bench->address, &bench->address_bytes) != BATON_TP_OK ||
        bench->plugin->key(bench->peer, bench->exported, bench->key, &bench->key_bytes) !=
            BATON_TP_OK) {
        give_up("a peer that exports memory");
    }
}

static void open_bench(struct bench *bench)
{
    struct baton_tp_memory memory = { sizeof(memory), bench->buffer, OBJECT_BYTES, NULL, 0, 0 };
    bench->attr.size = sizeof(bench->attr);
    if (bench->plugin->open(NULL, bench->config, &bench->reader) != BATON_TP_OK ||
        bench->plugin->query(bench->reader, &bench->attr) != BATON_TP_OK ||
        bench->plugin->mem_register(bench->reader, &memory, &bench->mem) != BATON_TP_OK) {
        give_up("open, query, register");
    }
    struct baton_status st = registry_check_caps(bench->plugin, bench->attr.caps);
    if (!baton_ok(&st)) {
        give_up(st.message);
    }
    if ((bench->attr.caps & BATON_TP_CAP_EXPORT) != 0) {
        export_object(bench);
    } else {
        memcpy(bench->key, "object", 6);
        bench->key_bytes = 6;
    }
}

static void close_bench(struct bench *bench)
{
    bench->plugin->mem_release(bench->reader, bench->mem);
    bench->plugin->close(bench->reader);
    if (bench->peer != NULL) {
        bench->plugin->mem_release(bench->peer, bench->exported);
        bench->plugin->close(bench->peer);
    }
}

static unsigned run_rows(struct bench *bench, const struct row *rows, unsigned *ran)
{
    unsigned failed = 0;
    for (; rows->name != NULL; rows++) {
        if ((bench->attr.caps & rows->needs) != rows->needs) {
            printf("skip - %s: %s lacks a capability that it needs\n", rows->name,
                   bench->plugin->name);
            continue;
        }
        const char *wrong = rows->run(bench);
        printf("%s - %s: %s%s%s\n", wrong == NULL ? "ok" : "not ok", bench->plugin->name,
               rows->name, wrong == NULL ? "" : ": ", wrong == NULL ? "" : wrong);
        failed += wrong != NULL;
        (*ran)++;
    }
    return failed;
}

/* Configurations that no backend takes. */
static unsigned check_configs(const struct bench *bench)
{
    static const char *const bad[] = { "[", "{\"noSuchKey\":1}", "7" };
    unsigned failed = 0;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct baton_tp *tp = NULL;
        int result = bench->plugin->open(NULL, bad[i], &tp);
        printf("%s - %s: refuses configuration %s\n", result < 0 ? "ok" : "not ok",
               bench->plugin->name, bad[i]);
        failed += result >= 0;
    }
    return failed;
}

int main(int argc, char **argv)
{
    struct bench bench = { .plugin = NULL };
    unsigned ran = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: transport_conformance BACKEND [CONFIG]\n");
        return 2;
    }
    struct baton_status st = registry_find(argv[1], &bench.plugin);
    if (!baton_ok(&st)) {
        give_up(st.message);
    }
    char *dir = maker_directory();
    bench.object = maker_bytes(OBJECT_BYTES);
    bench.buffer = maker_bytes(OBJECT_BYTES);
    maker_write(dir, "object", (struct baton_bytes){ bench.object, OBJECT_BYTES });
    fill_config(&bench, argc > 2 ? argv[2] : "{}", dir);
    open_bench(&bench);
    unsigned failed = check_configs(&bench);
    failed += run_rows(&bench, transfer_rows, &ran);
    failed += run_rows(&bench, export_rows, &ran);
    close_bench(&bench);
    free(bench.object);
    free(bench.buffer);
    maker_remove(dir);
    return failed == 0 && ran > 0 ? 0 : 1;
}
