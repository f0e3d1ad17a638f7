/* controller_shell_watch_test.c -- watches of a real controller: nothing is lost between a list, a watch and a
 * resumed one; wrong requests are refused. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/wire/wire.h"
#include "tests/unit/controller_shell_fixture.h"

enum {
    ADDED = BATON__V1__WATCH_EVENT_TYPE__WATCH_EVENT_TYPE_ADDED,
    MODIFIED = BATON__V1__WATCH_EVENT_TYPE__WATCH_EVENT_TYPE_MODIFIED,
    BOOKMARK = BATON__V1__WATCH_EVENT_TYPE__WATCH_EVENT_TYPE_BOOKMARK,
};

static struct rpc_stream *watch_models(struct controller_fixture *fixture, uint64_t from,
                                       const char *name)
{
    Baton__V1__WatchModelsRequest *request =
        baton_wire_new(&baton__v1__watch_models_request__descriptor);
    request->from_revision = from;
    request->name = baton_wire_text(request, name);
    return controller_fixture_open(fixture, "baton.v1.Models/Watch", request);
}

/* The next message must be of this type and model ("" for a bookmark); gives its revision. */
static uint64_t expect_model(struct rpc_stream *stream, int type, const char *name)
{
    Baton__V1__WatchModelsResponse *response = controller_fixture_next(stream);
    const char *got = response->model != NULL ? response->model->meta->name : "";
    cr_assert_eq((int)response->type, type, "type %d of %s", (int)response->type, got);
    cr_assert_str_eq(got, name);
    uint64_t revision = response->revision;
    baton_wire_free(response);
    return revision;
}

Test(controller_shell_watch, begins_with_all_objects_and_goes_on)
{
    struct controller_fixture fixture;
    controller_fixture_start(&fixture);
    controller_fixture_apply(&fixture, "a");
    controller_fixture_apply(&fixture, "b");
    struct rpc_stream *stream = watch_models(&fixture, 0, "");
    cr_assert_eq(expect_model(stream, ADDED, "a"), 0, "who breaks off here begins anew");
    cr_assert_eq(expect_model(stream, ADDED, "b"), 0);
    uint64_t bookmark = expect_model(stream, BOOKMARK, "");
    cr_assert_gt(bookmark, 0);
    controller_fixture_apply(&fixture, "c");
    cr_assert_gt(expect_model(stream, ADDED, "c"), bookmark);
    rpc_stream_unref(stream);
    controller_fixture_stop(&fixture);
}

/* Every message's revision is one to resume from: what came after it comes, and nothing before. */
Test(controller_shell_watch, resumes_after_any_message)
{
    struct controller_fixture fixture;
    controller_fixture_start(&fixture);
    struct rpc_stream *stream = watch_models(&fixture, 0, "");
    uint64_t start = expect_model(stream, BOOKMARK, "");
    rpc_stream_unref(stream);
    controller_fixture_apply(&fixture, "a");
    controller_fixture_apply(&fixture, "b");
    controller_fixture_apply(&fixture, "c");
    stream = watch_models(&fixture, start, "");
    uint64_t after_a = expect_model(stream, ADDED, "a");
    rpc_stream_unref(stream); /* Broken off in the middle of the replay. */
    stream = watch_models(&fixture, after_a, "");
    (void)expect_model(stream, ADDED, "b");
    uint64_t after_c = expect_model(stream, ADDED, "c");
    (void)expect_model(stream, BOOKMARK, "");
    rpc_stream_unref(stream);
    stream = watch_models(&fixture, after_c, "");
    (void)expect_model(stream, BOOKMARK, "");
    rpc_stream_unref(stream);
    stream = watch_models(&fixture, start, "b");
    (void)expect_model(stream, ADDED, "b");
    (void)expect_model(stream, BOOKMARK, "");
    rpc_stream_unref(stream);
    controller_fixture_stop(&fixture);
}

Test(controller_shell_watch, resumes_from_a_lists_revision)
{
    struct controller_fixture fixture;
    controller_fixture_start(&fixture);
    controller_fixture_apply(&fixture, "a");
    Baton__V1__ListModelsResponse *list =
        controller_fixture_call(&fixture, "baton.v1.Models/List",
                                baton_wire_new(&baton__v1__list_models_request__descriptor));
    cr_assert_eq(list->n_models, 1);
    controller_fixture_apply(&fixture, "b");
    struct rpc_stream *stream = watch_models(&fixture, list->revision, "");
    (void)expect_model(stream, ADDED, "b");
    (void)expect_model(stream, BOOKMARK, "");
    baton_wire_free(list);
    rpc_stream_unref(stream);
    controller_fixture_stop(&fixture);
}

Test(controller_shell_watch, refuses_what_it_cannot_keep)
{
    struct controller_fixture fixture;
    char name[BATON_NAME_BYTES + 1];
    controller_fixture_start(&fixture);
    struct rpc_stream *stream = watch_models(&fixture, 1, "");
    struct baton_status st = controller_fixture_end(stream);
    cr_assert_eq(st.code, BATON_OUT_OF_RANGE, "%s", st.message);
    cr_assert_eq(st.reason, BATON_REASON_COMPACTED);
    rpc_stream_unref(stream);
    stream = watch_models(&fixture, UINT64_MAX / 2, ""); /* Of a store that is gone. */
    st = controller_fixture_end(stream);
    cr_assert_eq(st.code, BATON_OUT_OF_RANGE, "%s", st.message);
    rpc_stream_unref(stream);
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    stream = watch_models(&fixture, 0, name); /* Must not become a watch of everything. */
    st = controller_fixture_end(stream);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "%s", st.message);
    rpc_stream_unref(stream);
    Baton__V1__EventsRequest *events = baton_wire_new(&baton__v1__events_request__descriptor);
    events->object = baton_wire_textf(events, "group/%0200d", 1);
    events->follow = true;
    stream = controller_fixture_open(&fixture, "baton.v1.Fleet/Events", events);
    st = controller_fixture_end(stream);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "%s", st.message);
    rpc_stream_unref(stream);
    controller_fixture_stop(&fixture);
}

static struct rpc_stream *watch_rolls(struct controller_fixture *fixture, uint64_t from)
{
    Baton__V1__WatchRollsRequest *request =
        baton_wire_new(&baton__v1__watch_rolls_request__descriptor);
    request->from_revision = from;
    return controller_fixture_open(fixture, "baton.v1.Rolls/Watch", request);
}

/* Reads up to the bookmark; gives how many rolls came and the state of the last one's first group. */
static unsigned read_rolls(struct rpc_stream *stream, int *state, uint64_t *revision)
{
    unsigned count = 0;
    for (bool over = false; !over;) {
        Baton__V1__WatchRollsResponse *response = controller_fixture_next(stream);
        over = (int)response->type == BOOKMARK;
        *revision = response->revision;
        count += !over;
        if (!over && response->roll->n_groups > 0) {
            *state = (int)response->roll->groups[0]->state;
        }
        baton_wire_free(response);
    }
    return count;
}

/* A roll shows its groups: a change of one is a change of the roll, also for a watch that was away. */
Test(controller_shell_watch, resumed_watch_of_rolls_hears_of_their_groups)
{
    struct controller_fixture fixture;
    uint64_t revision = 0;
    int state = 0;
    controller_fixture_start(&fixture);
    controller_fixture_apply(&fixture, "m");
    struct rpc_stream *session =
        controller_fixture_hello(&fixture, "a", 1, BATON__V1__GROUP_STATE__GROUP_STATE_SERVING);
    cr_assert_eq(controller_fixture_publish(&fixture, "m"), 1);
    struct rpc_stream *stream = watch_rolls(&fixture, 0);
    cr_assert_eq(read_rolls(stream, &state, &revision), 1);
    rpc_stream_unref(stream);
    controller_fixture_report(session, "a", BATON__V1__GROUP_STATE__GROUP_STATE_OUT);
    unsigned count = 0;
    uint64_t now = revision;
    for (int i = 0; i < 1000 && count == 0; i++) { /* Until the report has arrived. */
        stream = watch_rolls(&fixture, revision);
        count = read_rolls(stream, &state, &now);
        rpc_stream_unref(stream);
    }
    cr_assert_gt(count, 0, "the roll did not change");
    cr_assert_eq(state, (int)BATON__V1__ROLL_GROUP_STATE__ROLL_GROUP_STATE_OUT);
    cr_assert_gt(now, revision);
    rpc_stream_unref(session);
    controller_fixture_stop(&fixture);
}

/* A roll that runs changes with each report: a reader hears of fewer changes, but always of the last one. */
Test(controller_shell_watch, rolls_that_run_are_gathered)
{
    enum { REPORTS = 60 };
    struct controller_fixture fixture;
    int state = 0;
    unsigned messages = 0;
    controller_fixture_start(&fixture);
    controller_fixture_apply(&fixture, "m");
    struct rpc_stream *session =
        controller_fixture_hello(&fixture, "a", 1, BATON__V1__GROUP_STATE__GROUP_STATE_SERVING);
    cr_assert_eq(controller_fixture_publish(&fixture, "m"), 1);
    struct rpc_stream *stream = watch_rolls(&fixture, 0);
    for (int i = 0; i < REPORTS; i++) {
        controller_fixture_report(session, "a",
                                  i % 2 == 0 ? BATON__V1__GROUP_STATE__GROUP_STATE_STAGING
                                             : BATON__V1__GROUP_STATE__GROUP_STATE_SERVING);
    }
    controller_fixture_report(session, "a", BATON__V1__GROUP_STATE__GROUP_STATE_OUT);
    while (state != (int)BATON__V1__ROLL_GROUP_STATE__ROLL_GROUP_STATE_OUT) {
        Baton__V1__WatchRollsResponse *response = controller_fixture_next(stream);
        if (response->roll != NULL && response->roll->n_groups > 0) {
            state = (int)response->roll->groups[0]->state;
        }
        messages++;
        baton_wire_free(response);
    }
    cr_assert_lt(messages, REPORTS);
    rpc_stream_unref(stream);
    rpc_stream_unref(session);
    controller_fixture_stop(&fixture);
}
