/* local_threads_check.c -- clients and server at once, for the thread sanitizer: exits 0 when all holds.
 *
 * Clients publish directories side by side, some are cut off, and the server stops under load. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/client/baton.h"
#include "tests/unit/local_recorder.h"

enum { CLIENTS_COUNT = 8, ROUNDS = 20 };

struct client {
    const char *address;
    unsigned number;
    unsigned published;
    unsigned stopped; /* The server went away. */
};

static void one_round(struct client *client, unsigned round)
{
    struct baton_agent *agent = NULL;
    if (baton_connect(client->address, 5000, &agent, NULL) != 0) {
        client->stopped++;
        return;
    }
    struct baton_publish_options options = BATON_PUBLISH_OPTIONS_INIT;
    options.model = "m";
    struct baton_agent_info info = BATON_AGENT_INFO_INIT;
    if (round % 4 == 3) {
        (void)baton_get_agent_info(agent, 5000, &info, NULL);
    } else if (baton_publish_directory(agent, &options, "/c", NULL, NULL) == 0) {
        client->published++;
    } else {
        client->stopped++;
    }
    baton_close(agent);
}

static void *run_client(void *argument)
{
    struct client *client = argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        one_round(client, i);
    }
    return NULL;
}

static void check(bool holds, const char *what)
{
    if (!holds) {
        (void)fprintf(stderr, "local_threads_check: %s\n", what);
        exit(1);
    }
}

/* Runs all clients; stops the server among them if 'stops'. Returns how many publishes succeeded. */
static unsigned run_world(const char *address, struct recorder *recorder, bool stops)
{
    struct local_server_options options = { .address = address,
                                            .agent = "a",
                                            .sink = recorder_sink(recorder) };
    struct local_server *server = NULL;
    struct baton_status st = local_server_create(&options, &server);
    check(baton_ok(&st), st.message);
    struct client clients[CLIENTS_COUNT] = { 0 };
    pthread_t threads[CLIENTS_COUNT];
    for (unsigned i = 0; i < CLIENTS_COUNT; i++) {
        clients[i] = (struct client){ .address = address, .number = i };
        check(pthread_create(&threads[i], NULL, run_client, &clients[i]) == 0, "pthread_create");
    }
    if (stops) {
        check(recorder_wait(&recorder->begun, CLIENTS_COUNT), "no client came");
        local_server_destroy(server);
    }
    unsigned published = 0;
    for (unsigned i = 0; i < CLIENTS_COUNT; i++) {
        (void)pthread_join(threads[i], NULL);
        published += clients[i].published;
        check(stops || clients[i].stopped == 0, "a publish failed");
    }
    if (!stops) {
        local_server_destroy(server);
    }
    return published;
}

int main(void)
{
    char dir[] = "/tmp/baton-threads-XXXXXX";
    check(mkdtemp(dir) != NULL, "mkdtemp");
    char address[64];
    (void)snprintf(address, sizeof(address), "unix:%s/s", dir);
    struct recorder *recorder = recorder_create();
    unsigned published = run_world(address, recorder, false);
    check(published == CLIENTS_COUNT * ROUNDS / 4 * 3, "not all publishes succeeded");
    check(published == atomic_load(&recorder->committed), "client and source disagree");
    recorder_destroy(recorder);
    recorder = recorder_create();
    published = run_world(address, recorder, true);
    check(published <= atomic_load(&recorder->committed), "a success that the source did not see");
    recorder_destroy(recorder);
    char lock[80];
    (void)snprintf(lock, sizeof(lock), "%s/s.lock", dir);
    (void)unlink(lock);
    (void)rmdir(dir);
    return 0;
}
