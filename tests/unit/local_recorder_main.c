/* local_recorder_main.c -- a local server that shows what a client of another language sent.
 *
 * usage: local_recorder_main ADDRESS [REFUSED-ENTRY]
 * Prints "ready"; serves until its input ends; then prints the last request and each entry as
 * "name dtype [dims] bytes crc32c". */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/local_recorder.h"

static void print_request(const struct recorder *recorder)
{
    const struct local_publish *request = &recorder->request;
    (void)printf("request %s %s step %" PRIu64 " iteration %" PRIu64 " partial %d directory '%s'\n",
                 request->model, request->request_id, request->optimizer_step,
                 request->rollout_iteration, request->partial, request->directory);
    (void)printf("begun %u committed %u dropped %u cancelled %u\n", atomic_load(&recorder->begun),
                 atomic_load(&recorder->committed), atomic_load(&recorder->dropped),
                 atomic_load(&recorder->cancelled));
}

static void print_entry(const struct recorded_entry *recorded)
{
    const struct local_entry *entry = &recorded->entry;
    (void)printf("entry %s %s [", entry->name, entry->dtype[0] != '\0' ? entry->dtype : "file");
    for (uint32_t i = 0; i < entry->rank; i++) {
        (void)printf("%s%" PRIu64, i == 0 ? "" : ",", entry->dims[i]);
    }
    (void)printf("] %" PRIu64 " %08x\n", entry->bytes,
                 baton_crc32c(0, recorded->bytes, recorded->have));
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fprintf(stderr, "usage: %s ADDRESS [REFUSED-ENTRY]\n", argv[0]);
        return 2;
    }
    struct recorder *recorder = recorder_create();
    recorder->refused_entry = argc > 2 ? argv[2] : NULL;
    struct local_server_options options = { .address = argv[1],
                                            .agent = "recorder",
                                            .sink = recorder_sink(recorder) };
    struct local_server *server = NULL;
    struct baton_status st = local_server_create(&options, &server);
    if (!baton_ok(&st)) {
        (void)fprintf(stderr, "%s\n", st.message);
        return 1;
    }
    (void)printf("ready\n");
    (void)fflush(stdout);
    char line[64];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        /* "block" and "free" hold and release publishes. */
        atomic_store(&recorder->blocks, strcmp(line, "block\n") == 0);
        (void)printf("ok\n");
        (void)fflush(stdout);
    }
    local_server_destroy(server);
    print_request(recorder);
    for (size_t i = 0; i < recorder->entries_count; i++) {
        print_entry(&recorder->entries[i]);
    }
    recorder_destroy(recorder);
    return 0;
}
