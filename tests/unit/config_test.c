/* config_test.c -- YAML errors name file, line and key; durations, sizes and names. */
#include "api/config/config.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct item {
    char *name;
    unsigned count;
};
struct file {
    struct item *items;
    unsigned items_count;
};

static const cyaml_schema_field_t item_fields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, struct item, name, 0, 63),
    CYAML_FIELD_UINT("maxCount", CYAML_FLAG_OPTIONAL, struct item, count), CYAML_FIELD_END
};
static const cyaml_schema_value_t item_schema = { CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT,
                                                                      struct item, item_fields) };
static const cyaml_schema_field_t file_fields[] = {
    CYAML_FIELD_SEQUENCE("items", CYAML_FLAG_POINTER, struct file, items, &item_schema, 0, 8),
    CYAML_FIELD_END
};
static const cyaml_schema_value_t file_schema = { CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER,
                                                                      struct file, file_fields) };

Test(config, reads_what_is_right)
{
    struct file *file = NULL;
    struct baton_status st =
        baton_config_parse("f", "items:\n- name: a\n  maxCount: 3\n", &file_schema, (void **)&file);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(file->items_count, 1);
    cr_assert_str_eq(file->items[0].name, "a");
    cr_assert_eq(file->items[0].count, 3);
    baton_config_free(&file_schema, file);
}

Test(config, says_file_line_and_key_of_what_is_wrong)
{
    static const struct {
        const char *text, *begins, *holds;
    } rows[] = {
        { "items:\n- name: a\n  maxCuont: 3\n", "f.yaml:3: ", "Unexpected key: maxCuont" },
        { "items:\n- name: a\n- name: b\n  maxCount: many\n",
          "f.yaml:4: items[1].maxCount: ", "many" },
        { "items:\n- maxCount: 1\n", "f.yaml:2: ", "name" },
        { "items: [a: {\n", "f.yaml:", "" },
        { "", "f.yaml: holds nothing", "" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        void *file = NULL;
        struct baton_status st = baton_config_parse("f.yaml", rows[i].text, &file_schema, &file);
        cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "row %zu", i);
        cr_assert_null(file);
        cr_assert(strncmp(st.message, rows[i].begins, strlen(rows[i].begins)) == 0, "row %zu: %s",
                  i, st.message);
        cr_assert_not_null(strstr(st.message, rows[i].holds), "row %zu: %s", i, st.message);
    }
}

/* What a schema cannot say is refused with its line, too; a key that is left out with its parent's. */
Test(config, faults_have_the_line_of_their_key)
{
    static const struct {
        const char *key, *place;
    } rows[] = { { "items", ":2: items: " },
                 { "items[0].name", ":3: items[0].name: " },
                 { "items[1].tags[1]", ":7: items[1].tags[1]: " },
                 { "items[1].missing", ":5: items[1].missing: " },
                 { "items[7]", ":2: items[7]: " },
                 { "other", ":2: other: " } };
    static const char text[] = "# a comment\nitems: [\n{name: a,\n count: 1},\n{name: b,\n tags: "
                               "[x,\n y]}]\n";
    char path[] = "/tmp/baton-fault-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, sizeof(text) - 1), (ssize_t)sizeof(text) - 1);
    (void)close(fd);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct baton_status st = baton_config_fault(path, rows[i].key, "is wrong");
        cr_assert_eq(st.reason, BATON_REASON_BAD_FIELD);
        const char *place = st.message + strlen(path);
        cr_assert(strncmp(place, rows[i].place, strlen(rows[i].place)) == 0, "%s", st.message);
    }
    (void)unlink(path);
}

Test(config, a_missing_file_is_not_found)
{
    void *file = NULL;
    struct baton_status st = baton_config_load("no/such/file.yaml", &file_schema, &file);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    cr_assert_not_null(strstr(st.message, "no/such/file.yaml"));
}

Test(config, durations)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = { { "250ms", 250000000 },
                 { "30s", 30000000000 },
                 { "1.5s", 1500000000 },
                 { "2h", 7200000000000 },
                 { "0s", 0 },
                 { NULL, 77 } };
    const char *bad[] = { "", "30", "s", "-1s", "1 s", "nan s", "1d", "99999999999999h" };
    uint64_t ns;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct baton_status st = baton_config_duration("lease", good[i].text, 77, &ns);
        cr_assert(baton_ok(&st), "%s", st.message);
        cr_assert_eq(ns, good[i].ns);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct baton_status st = baton_config_duration("lease", bad[i], 0, &ns);
        cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "'%s'", bad[i]);
        cr_assert(strncmp(st.message, "lease: ", 7) == 0);
    }
}

Test(config, sizes)
{
    uint64_t bytes;
    struct baton_status st = baton_config_bytes("budget", "8GiB", 0, &bytes);
    cr_assert(baton_ok(&st));
    cr_assert_eq(bytes, UINT64_C(8) << 30);
    st = baton_config_bytes("budget", "4096", 0, &bytes);
    cr_assert(baton_ok(&st));
    cr_assert_eq(bytes, 4096);
    st = baton_config_bytes("budget", "8 gigs", 0, &bytes);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
}

Test(config, names)
{
    cr_assert(baton_config_is_name("qwen3-8b.grpo"));
    cr_assert_not(baton_config_is_name(""));
    cr_assert_not(baton_config_is_name("-a"));
    cr_assert_not(baton_config_is_name("a."));
    cr_assert_not(baton_config_is_name("Upper"));
    cr_assert_not(baton_config_is_name("a/b"));
    cr_assert_not(
        baton_config_is_name("a12345678901234567890123456789012345678901234567890123456789012345"));
}
