/* source_work.h -- what the files of the source share: its state, and one publish under way.
 *
 * A publish is worked on by a thread of its own, because it waits for disks and for the controller;
 * the thread of the client's connection meanwhile says how far it is and hears whether to stop.
 *
 *   source.c          life, the sink's functions, retention
 *   source_run.c      the working thread, its progress, the queue
 *   source_publish.c  the steps of a publish
 *   source_rpc.c      the controller's side of each step
 *   source_parent.c   which version is inherited from, and where its bytes are
 *   source_upload.c   tensors and files that come from a client's memory
 *
 * Private to agent/shell/source*.c.  Depends on: source.h, transport, api/rpc.
 * Threads: per member.  Ownership: a work belongs to the connection's thread; the working thread
 * writes it between start and join. */
#ifndef AGENT_SHELL_SOURCE_WORK_H
#define AGENT_SHELL_SOURCE_WORK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/shell/source.h"
#include "api/rpc/rpc.h"
#include "transport/landing/landing.h"
#include "transport/model/checkpoint.h"
#include "transport/model/manifest.h"

enum { SOURCE_PUBLISHES_MOST = 64 };

struct Baton__V1__Version;

/* A publish that runs or waits; the request id makes two tries of one publish follow each other. */
struct source_slot {
    bool is_used;
    char model[BATON_NAME_BYTES];
    char request_id[LOCAL_REQUEST_ID_BYTES];
};

struct source {
    /* Constant after creation. */
    char agent[BATON_NAME_BYTES];
    char controller[BATON_TEXT_BYTES];
    char directory[BATON_PATH_BYTES]; /* The store. */
    char root_directory[BATON_PATH_BYTES];
    struct rpc_client *client;
    struct landing_root *root;
    uint64_t snapshot_bytes_max;
    uint64_t controller_wait_ns;
    uint32_t retain_grace_s;
    uint32_t publishes_max;

    _Atomic bool is_connected;
    _Atomic uint32_t publishing;
    _Atomic uint64_t snapshot_bytes; /* In memory now, of all uploads. */

    pthread_mutex_t lock;   /* Guards what follows. */
    pthread_cond_t changed; /* A slot became free. */
    struct source_slot slots[SOURCE_PUBLISHES_MOST];
    uint32_t copying; /* Publishes between the copy and the pin of its result. */
};

/* The version that is inherited from. */
struct source_parent {
    uint64_t seq; /* 0: there is none. */
    char directory[BATON_PATH_BYTES];
    struct digest digest;
    bool is_pinned; /* In our own root. */
};

struct source_work {
    struct source *source;
    const struct local_publish *request;
    struct local_upload *upload; /* Null: request->directory. */

    /* Written by the working thread, read by the other. */
    _Atomic uint32_t phase;
    struct landing_progress progress; /* 'cancel' the other way. */
    _Atomic bool is_announced;        /* 'uid' counts. */

    /* The working thread's. */
    char uid[BATON_UID_TEXT_BYTES];
    struct source_parent parent; /* Of a partial version, or of one that brings no files. */
    struct source_parent base;   /* What its values are compared with. */
    bool refuses_non_finite;     /* The model's policy. */
    struct landing_survey survey;
    struct landing_options landing; /* With 'survey'. */
    uint64_t bytes_carried;
    struct manifest *manifest; /* Of the whole version. */
    bool is_pinned;            /* manifest->digest. */
    struct local_result result;
    struct baton_status status;

    pthread_mutex_t lock;
    pthread_cond_t done_changed;
    bool is_done; /* Guarded by 'lock'. */
};

/* --- source.c --- */

/* Removes a directory of plain files and links. */
void source_remove_directory(const char *path);

/* --- source_run.c --- */

typedef struct baton_status source_step_fn(struct source_work *work);

/* Runs 'step' on a thread of its own; reports through 'feedback' until it is done.  Returns its status
 * and, on success, fills 'out' (may be null). */
BATON_MUST_USE struct baton_status source_run(struct source_work *work, source_step_fn *step,
                                              const struct local_feedback *feedback,
                                              struct local_result *out);
/* CANCELLED once the client gave up. */
BATON_MUST_USE struct baton_status source_check_cancel(const struct source_work *work);
/* Waits until no other publish has this request id and a place is free. */
BATON_MUST_USE struct baton_status source_enter(struct source_work *work);
void source_leave(struct source_work *work);
void source_set_phase(struct source_work *work, uint32_t phase);

/* --- source_publish.c --- */

/* All of a publish, from a directory or from an upload. */
BATON_MUST_USE struct baton_status source_publish(struct source_work *work);

/* --- source_rpc.c: each is tried again while the controller is away --- */

/* Also reads what the model's policy says to a publish. */
BATON_MUST_USE struct baton_status source_find_model(struct source_work *work);
/* The version 'seq' of the model (0: its newest); NOT_FOUND.  baton_wire_free() the result. */
BATON_MUST_USE struct baton_status source_find_version(struct source_work *work, uint64_t seq,
                                                       struct Baton__V1__Version **out);
/* How our version, work->uid, stands now. */
BATON_MUST_USE struct baton_status source_get_version(struct source_work *work,
                                                      struct Baton__V1__Version **out);
/* Announces the version and returns how it stands: a request id that came before may be sealed or
 * published already.  Sets work->uid. */
BATON_MUST_USE struct baton_status source_open_version(struct source_work *work,
                                                       struct Baton__V1__Version **out);
BATON_MUST_USE struct baton_status source_send_manifest(struct source_work *work);
BATON_MUST_USE struct baton_status source_seal(struct source_work *work);
BATON_MUST_USE struct baton_status source_publish_version(struct source_work *work,
                                                          struct Baton__V1__Version **out);
/* Tells how far the copy is; does not wait. */
void source_report_progress(struct source *source, const char *uid, uint64_t bytes_done,
                            uint64_t bytes_total);

/* --- source_parent.c --- */

/* Finds version 'seq' (0: the newest) as the parent and pins it if it is ours.  Without 'is_required'
 * a model that has no version yet is fine: parent.seq stays 0. */
BATON_MUST_USE struct baton_status source_find_parent(struct source_work *work, uint64_t seq,
                                                      bool is_required);
void source_release_parent(struct source_work *work);
/* Finds what the values are compared with: the parent, if this agent can read it.  base.seq stays 0
 * where there is none; that is no failure. */
void source_find_base(struct source_work *work);
void source_release_base(struct source_work *work);
BATON_MUST_USE struct baton_status source_load_parent(const struct source_parent *parent,
                                                      struct manifest **out);

/* --- source_upload.c --- */

BATON_MUST_USE struct baton_status source_upload_begin(void *context,
                                                       const struct local_publish *request,
                                                       const struct local_feedback *feedback,
                                                       struct local_upload **out);
BATON_MUST_USE struct baton_status source_upload_segment(struct local_upload *upload, int fd,
                                                         uint64_t bytes);
BATON_MUST_USE struct baton_status source_upload_entry(struct local_upload *upload,
                                                       const struct local_entry *entry);
BATON_MUST_USE struct baton_status source_upload_data(struct local_upload *upload,
                                                      struct baton_bytes bytes);
BATON_MUST_USE struct baton_status source_upload_commit(struct local_upload *upload,
                                                        const struct local_feedback *feedback,
                                                        struct local_result *out);
void source_upload_drop(struct local_upload *upload);
/* Fails, before anything is copied, for an upload that cannot become a version. */
BATON_MUST_USE struct baton_status source_upload_check(struct source_work *work);
/* Makes the version in the root. */
BATON_MUST_USE struct baton_status source_upload_land(struct source_work *work);

#endif /* source_work.h */
