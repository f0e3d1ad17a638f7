/* engine_check.h -- `batonctl engine check`: one engine, asked before any agent drives it.
 *
 * Each step adds findings; none ends the check but that nobody answers.  All but the self-update change
 * nothing at the engine.  One file a subject: engine_check (the command, attach, probe), _guard (page, token,
 * routes without the token), _weights (read-back and self-update), _sealed (a checkpoint as the engine
 * takes it), _view (what is printed).
 *
 * Depends on: cli.h, agent/engine, api/http.  Threads: one.  Ownership: 'struct check' is the command's. */
#ifndef CONTROLLER_CLI_ENGINE_CHECK_H
#define CONTROLLER_CLI_ENGINE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/engine/engine.h"
#include "controller/cli/cli.h"

enum check_verdict { CHECK_OK, CHECK_WARN, CHECK_FAIL };
enum { CHECK_FINDINGS_MAX = 16, CHECK_MESSAGE_BYTES = 512 };

struct check_finding {
    enum check_verdict verdict;
    const char *name; /* What was checked: a literal. */
    char message[CHECK_MESSAGE_BYTES];
    char fix[CHECK_MESSAGE_BYTES]; /* Empty where nothing is to be done. */
};

struct check {
    const struct cli *cli;
    struct engine_options options;
    const char *weights_dir; /* Null: the directory that the engine names, if it is there. */
    bool weights_skipped;    /* --no-weights */
    const char *self_update; /* Null: no self-update. */

    const struct engine_adapter *adapter;
    struct engine *engine; /* Null before it is attached to. */
    struct engine_facts facts;
    bool
        routes_refuse; /* Some control route refused a caller without the token, and none answered. */
    bool speaks;       /* The guard, if there is one, takes our token. */
    struct engine_probe before;
    bool probed; /* 'before' holds. */

    struct check_finding findings[CHECK_FINDINGS_MAX];
    unsigned findings_count;
};

/* Adds a finding; 'fix' may be null. */
BATON_PRINTF(5, 6)
void check_add(struct check *check, const char *name, enum check_verdict verdict, const char *fix,
               const char *fmt, ...);
/* One that failed as 'st' says, its hint as the fix if it has one, else 'fix'. */
void check_add_failed(struct check *check, const char *name, const struct baton_status *st,
                      const char *fix);
bool check_holds(const struct check *check);
/* A finding of this name failed. */
bool check_has_failed(const struct check *check, const char *name);

/* Monotonic deadlines: of a short call, and of one that moves all weights. */
uint64_t check_soon(const struct check *check);
uint64_t check_late(const struct check *check);

/* Page and token, as files: what is missing is not made here, and left out of the options. */
void check_guard_files(struct check *check);
/* Asks control routes that change nothing, without a token and with a wrong one.  Fails where nobody
 * answers at all. */
BATON_MUST_USE struct baton_status check_guard_routes(struct check *check);
/* After attach: is the guard that answers the one of our page and token? */
void check_guard_found(struct check *check);

/* Two probes, each with a long prompt with and without the prefix cache; must agree. */
void check_probe(struct check *check);
/* Says whether two probes found the same, up to what batching changes in the last bits. */
bool check_same_output(const struct engine_probe *a, const struct engine_probe *b);

/* Compares resident weights with a directory's. */
void check_weights(struct check *check);
/* Pause, load, verify, invalidate, resume: the output must be the one before. */
void check_self_update(struct check *check);

/* A directory with baton.manifest.json, for the engine to read. */
struct check_sealed {
    char path[BATON_PATH_BYTES];
    char digest[BATON_DIGEST_TEXT_BYTES];
    bool made; /* A folder of links with a manifest: check_sealed_close() removes it. */
};
/* 'dir': a landing, or any Hugging Face checkpoint directory, whose bytes are then digested once.  It is
 * only read. */
BATON_MUST_USE struct baton_status check_sealed_open(const char *dir, struct check_sealed *out);
void check_sealed_close(struct check_sealed *sealed);

void check_print(const struct check *check);

#endif /* engine_check.h */
