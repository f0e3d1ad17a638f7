/* store_codec_test.c -- records as text: every member survives, and what is wrong is named. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "controller/store/record_codec.h"
#include "controller/store/record_fields.h"
#include "tests/unit/record_filler.h"

/* Every kind, with every member filled, comes back byte for byte. */
Test(codec, round_trip_of_each_kind)
{
    for (int kind = 1; kind < RECORD_KINDS_END; kind++) {
        union record_body body;
        union record_body back;
        record_fill((enum record_kind)kind, &body);
        char *text = record_encode((struct record_ref){ (enum record_kind)kind, &body });
        cr_assert_not_null(text);
        struct baton_status st = record_decode((enum record_kind)kind, "k", text, &back);
        cr_assert(baton_ok(&st), "%s", st.message);
        cr_assert_eq(memcmp(&body, &back, sizeof(body)), 0, "kind %d: %s", kind, text);
        free(text);
    }
}

/* Rows of one table have different names and do not overlap. */
static void check_rows(const struct field_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        for (size_t k = 0; k < i; k++) {
            cr_assert_str_neq(table->rows[i].name, table->rows[k].name);
            cr_assert_neq(table->rows[i].offset, table->rows[k].offset, "%s and %s",
                          table->rows[i].name, table->rows[k].name);
        }
        if (table->rows[i].fields != NULL) {
            check_rows(table->rows[i].fields);
        }
    }
}

Test(codec, tables_are_sound)
{
    for (int kind = 1; kind < RECORD_KINDS_END; kind++) {
        check_rows(record_fields((enum record_kind)kind));
    }
    check_rows(&log_entry_fields);
}

struct bad_text {
    enum record_kind kind;
    const char *text;
    const char *says;
};

/* What cannot be taken over is refused, naming record and field. */
Test(codec, refusals_name_record_and_field)
{
    static const struct bad_text rows[] = {
        { RECORD_MODEL, "", "body" },
        { RECORD_MODEL, "{", "body" },
        { RECORD_MODEL, "[]", "body" },
        { RECORD_MODEL, "{}", "format" },
        { RECORD_MODEL, "{\"format\":-1}", "format" },
        { RECORD_MODEL, "{\"format\":1,\"format\":1}", "body" },
        { RECORD_MODEL, "{\"format\":1,\"name\":7}", "name: not a string" },
        { RECORD_MODEL, "{\"format\":1,\"newestSeq\":-1}", "newestSeq" },
        { RECORD_MODEL, "{\"format\":1,\"newestSeq\":1.5}", "newestSeq" },
        { RECORD_MODEL, "{\"format\":1,\"newestSeq\":\"12x\"}", "newestSeq" },
        { RECORD_MODEL, "{\"format\":1,\"newestSeq\":\"99999999999999999999\"}", "newestSeq" },
        { RECORD_MODEL, "{\"format\":1,\"held\":1}", "held" },
        { RECORD_MODEL, "{\"format\":1,\"policy\":1}", "policy" },
        { RECORD_ROLL, "{\"format\":1,\"groupsDone\":4294967296}", "groupsDone" },
        { RECORD_GROUP, "{\"format\":1,\"lastSwap\":{\"probeLogprob\":\"x\"}}", "probeLogprob" },
        { RECORD_VERSION, "{\"format\":1,\"sources\":[{},{},{},{},{},{},{},{},{}]}", "sources" },
        { RECORD_VERSION, "{\"format\":1,\"sources\":[{\"agent\":true}]}", "agent" },
        { RECORD_VERSION, "{\"format\":1,\"uid\":\"0123456789012345678901234567890123\"}", "uid" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        union record_body body;
        struct baton_status st = record_decode(rows[i].kind, "the-key", rows[i].text, &body);
        cr_assert_eq(st.code, BATON_DATA_LOSS, "row %zu", i);
        cr_assert_not_null(strstr(st.message, rows[i].says), "row %zu: %s", i, st.message);
        cr_assert_not_null(strstr(st.message, "the-key"), "row %zu: %s", i, st.message);
    }
}

/* What a later release wrote is not damaged: the refusal says so, and which one to start. */
Test(codec, later_formats_and_words_are_no_damage)
{
    static const struct bad_text rows[] = {
        { RECORD_MODEL, "{\"format\":2,\"name\":\"m\"}", "format: 2, this release knows up to 1" },
        { RECORD_MODEL, "{\"format\":1,\"policy\":{\"trigger\":\"Sometimes\"}}", "trigger" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        union record_body body;
        struct baton_status st = record_decode(rows[i].kind, "the-key", rows[i].text, &body);
        cr_assert_eq(st.code, BATON_FAILED_PRECONDITION, "row %zu", i);
        cr_assert_eq(st.reason, BATON_REASON_INCOMPATIBLE, "row %zu", i);
        cr_assert_not_null(strstr(st.message, rows[i].says), "row %zu: %s", i, st.message);
        cr_assert_not_null(strstr(st.hint, "start the release that wrote"), "row %zu", i);
    }
}

/* A newer build's extra members are ignored; missing ones are zero. */
Test(codec, unknown_members_are_ignored)
{
    union record_body body;
    struct baton_status st = record_decode(
        RECORD_MODEL, "m", "{\"format\":1,\"name\":\"m\",\"later\":{\"a\":[1]}}", &body);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_str_eq(body.model.name, "m");
    cr_assert_eq(body.model.newest_seq, 0);
}

/* Texts and numbers that JSON cannot hold do not make a record impossible to store. */
Test(codec, foreign_bytes_and_infinities)
{
    struct group_record group = { .swapped = true };
    strcpy(group.last_swap.probe_text, "caf\xe9 \xff");
    group.last_swap.probe_logprob = -INFINITY;
    group.last_swap.bytes = UINT64_MAX;
    char *text = record_encode((struct record_ref){ RECORD_GROUP, &group });
    cr_assert_not_null(text);
    union record_body body;
    struct baton_status st = record_decode(RECORD_GROUP, "g", text, &body);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_str_eq(body.group.last_swap.probe_text, "caf? ?");
    cr_assert_eq(body.group.last_swap.bytes, UINT64_MAX);
    cr_assert_eq(body.group.last_swap.probe_logprob, 0);
    free(text);
}

Test(codec, log_entries)
{
    struct log_entry entry = { .number = 9, .wall_ns = 10, .warning = true };
    strcpy(entry.object, "group/g0");
    strcpy(entry.message, "a \"b\"\n");
    char *text = log_entry_encode(&entry);
    struct log_entry back;
    struct baton_status st = log_entry_decode(text, &back);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(memcmp(&entry, &back, sizeof(entry)), 0);
    free(text);
}
