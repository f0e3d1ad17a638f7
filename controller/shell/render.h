/* render.h -- the core's view as messages of the API.
 *
 * Every function gives a part of 'root' (a wire root; null makes a new root, which the caller frees
 * with baton_wire_free()).
 *
 * Depends on: controller/core/view.h, api/wire.  Threads: the loop's.  Ownership: as above. */
#ifndef CONTROLLER_SHELL_RENDER_H
#define CONTROLLER_SHELL_RENDER_H

#include <stdint.h>

#include "baton/v1/fleet.pb-c.h"
#include "baton/v1/models.pb-c.h"
#include "baton/v1/rolls.pb-c.h"
#include "baton/v1/versions.pb-c.h"
#include "controller/core/action.h"
#include "controller/core/view.h"

Baton__V1__Model *render_model(const struct controller *core, const struct model_record *model,
                               void *root);
Baton__V1__Version *render_version(const struct controller *core,
                                   const struct version_record *version, void *root);
/* 'with_groups': also every group's part, while the roll runs; of very many groups without texts and
 * phases, so that the message stays below its limit. */
Baton__V1__Roll *render_roll(const struct controller *core, const struct roll_record *roll,
                             bool with_groups, void *root);
Baton__V1__Group *render_group(const struct controller *core, const struct group_record *group,
                               void *root);
Baton__V1__Engine *render_engine(const struct group_record *group, const struct engine_info *engine,
                                 void *root);
Baton__V1__Agent *render_agent(const struct controller *core, const struct agent_record *agent,
                               void *root);
/* 'count' of them, in memory of 'root'. */
/* "pause" or "live"; an older store says neither, and meant the first. */
const char *render_mode(enum policy_mode mode);
Baton__V1__RouterHook **render_hooks(const struct swap_policy *policy, size_t *count, void *root);
Baton__V1__Ticket *render_ticket(const char *group, const struct ticket_record *ticket, void *root);
Baton__V1__SwapRecord *render_swap(const struct swap_record *swap, void *root);
Baton__V1__Event *render_event(const struct log_entry *entry, void *root);
Baton__V1__Epoch *render_epoch(struct epoch epoch, void *root);
Baton__V1__Source *render_source(const struct version_source *source, void *root);

/* Parts of other messages: a policy's keys about rolls; a roll's canary, checks and history. */
void render_policy_roll(const struct roll_policy *policy, Baton__V1__UpdatePolicy *message,
                        void *root);
void render_roll_course(const struct roll_record *roll, const struct roll_status *status,
                        Baton__V1__Roll *message, void *root);

/* Absent where nothing was measured. */
struct Google__Protobuf__Duration *render_measured(void *root, uint64_t ns);
void render_convergence(const struct convergence *convergence, Baton__V1__ModelStatus *message,
                        void *root);

/* A new root for the object that a reply names; null if there is no such object. */
void *render_object(const struct controller *core, const struct object_ref *object);
/* A new root with all that is left of a deleted object: its names. */
void *render_gone(const struct object_ref *object, const char *model);

/* --- shared by the renderers --- */

/* A part of 'root', or a new root. */
void *render_new(void *root, const ProtobufCMessageDescriptor *type);

/* What ObjectMeta says. */
struct render_meta_facts {
    const char *name;
    const char *uid;
    uint64_t revision;
    uint64_t generation;
    uint64_t created_wall_ns;
};
Baton__V1__ObjectMeta *render_meta(const struct render_meta_facts *facts, void *root);
/* The three conditions; '*count' gets 3. */
Baton__V1__Condition **render_conditions(const struct conditions *conditions, size_t *count,
                                         void *root);

#endif /* render.h */
