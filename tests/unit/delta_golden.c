/* delta_golden.c -- what the format's other writers wrote, and what must come of it.
 *
 * usage: delta_golden DIR...    each holds cases: base/, delta/, target/, case.json.  A folder that
 * is not there is skipped, saying so.  Kinds of case.json: good and quirk give target/ (or say why
 * not), damaged is refused and leaves nothing, the rest are sequences, run by name. */
#include <dirent.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/checkpoint_maker.h"
#include "transport/delta/apply.h"

struct run {
    const char *name;
    char *dir;
    char *base;
    char *delta;
    char *target;
    char *scratch;
    uint64_t version;
};

static unsigned failures;

BATON_PRINTF(2, 3) static void fail(const struct run *run, const char *fmt, ...)
{
    va_list arguments;
    va_start(arguments, fmt);
    printf("not ok - %s: ", run->name);
    vprintf(fmt, arguments);
    printf("\n");
    va_end(arguments);
    failures++;
}

/* What we refuse although the format's readers take it, or damage; a part of the message. */
static const struct {
    const char *name;
    const char *message;
} refused[] = {
    { "names-needing-escapes", "control character" }, /* Of a name: no manifest may hold one. */
    { "quirk-garbage-after-frame", "16 bytes follow the zstd frame" },
    { "bad-base-version", "base_version: 5 is not the version before 1" },
    { "bad-checksum-digit", "of the new bytes is" },
    { "bad-compression-name", "compression_format: 'lz4' is unknown" },
    { "bad-encoding-name", "delta_encoding: 'xor_sparse' is unknown" },
    { "bad-frame-magic", "not a zstd frame" },
    { "bad-header-length", "header length" },
    { "bad-missing-index", "needs an index" },
    { "bad-missing-shard", "No such file" },
    { "bad-missing-version", "weight_v000002: No such file" },
    { "bad-payload-bit", "zstd frame" },
    { "bad-replicated-tensor-two-files", "tensor 'model.embed_tokens.weight'" },
    { "bad-truncated-10", "truncated" },
    { "bad-truncated-half", "truncated" },
    { "bad-wrong-base", "of the new bytes is" },
};

static const char *refusal_of(const char *name)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (strcmp(refused[i].name, name) == 0) {
            return refused[i].message;
        }
    }
    return NULL;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static bool ends_in_safetensors(const char *name)
{
    size_t length = strlen(name);
    return length > 12 && strcmp(name + length - 12, ".safetensors") == 0;
}

static bool same_file(const char *left, const char *right, const char *name)
{
    char *other = maker_join(right, name);
    bool is_there = exists(other);
    free(other);
    if (!is_there) {
        return false;
    }
    struct baton_bytes a = maker_read(left, name);
    struct baton_bytes b = maker_read(right, name);
    bool is_same = baton_bytes_equal(a, b);
    free((void *)(uintptr_t)a.data);
    free((void *)(uintptr_t)b.data);
    return is_same;
}

/* Every shard of 'left' is in 'right', byte for byte; returns how many, or -1. */
static int compare_shards(const char *left, const char *right)
{
    int count = 0;
    DIR *dir = opendir(left);
    const struct dirent *entry;
    while (dir != NULL && count >= 0 && (entry = readdir(dir)) != NULL) {
        if (ends_in_safetensors(entry->d_name)) {
            count = same_file(left, right, entry->d_name) ? count + 1 : -1;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return count;
}

static void check_same(const struct run *run, const char *found, const char *wanted)
{
    int count = compare_shards(wanted, found);
    if (count <= 0 || compare_shards(found, wanted) != count) {
        fail(run, "%s is not %s", found, wanted);
    }
}

static void check_marker(const struct run *run, const char *checkpoint, uint64_t version)
{
    struct delta_state state;
    struct baton_status st = delta_state_read(checkpoint, &state);
    if (!baton_ok(&st) || state.version != version || !state.has_digest) {
        fail(run, "%s is not marked as version %llu: %s", checkpoint, (unsigned long long)version,
             st.message);
    }
}

/* Applies to 'out', a new directory in the scratch folder whose path comes back. */
static struct baton_status apply(const struct run *run, const char *checkpoint, uint64_t version,
                                 const char *out, char **path)
{
    struct delta_applied applied;
    *path = maker_join(run->scratch, out);
    struct delta_apply_options options = { run->delta, checkpoint, version, *path, 3 };
    struct delta_apply_options only_verify = { run->delta, checkpoint, version, NULL, 0 };
    struct baton_status verified = delta_apply(&only_verify, &applied);
    struct baton_status st = delta_apply(&options, &applied);
    if (st.code != verified.code || strcmp(st.message, verified.message) != 0) {
        fail(run, "verify says '%s', apply '%s'", verified.message, st.message);
    }
    if (!baton_ok(&st) && exists(*path)) {
        fail(run, "refused, but %s is there", *path);
    }
    return st;
}

/* Applies and compares with a wanted checkpoint. */
static char *expect(const struct run *run, const char *checkpoint, uint64_t version,
                    const char *out, const char *wanted)
{
    char *path;
    struct baton_status st = apply(run, checkpoint, version, out, &path);
    if (!baton_ok(&st)) {
        fail(run, "%s: refused: %s", out, st.message);
        return path;
    }
    check_marker(run, path, version);
    if (wanted != NULL) {
        check_same(run, path, wanted);
    }
    return path;
}

static void expect_refused(const struct run *run, const char *checkpoint, uint64_t version,
                           const char *message)
{
    char *path;
    struct baton_status st = apply(run, checkpoint, version, "refused", &path);
    if (baton_ok(&st)) {
        fail(run, "was accepted");
    } else if (strstr(st.message, message) == NULL) {
        fail(run, "'%s' is not in: %s", message, st.message);
    }
    free(path);
}

static void run_good(const struct run *run)
{
    free(expect(run, run->base, run->version, "out", run->target));
}

/* The undamaged stream, which case.json names, still leads to the target. */
static void run_damaged(const struct run *run, const char *cases, const char *target_in)
{
    expect_refused(run, run->base, run->version, refusal_of(run->name));
    if (target_in == NULL) {
        return;
    }
    char *intact = maker_join(cases, target_in);
    *strrchr(intact, '/') = '\0';
    struct run again = *run;
    again.delta = maker_join(intact, "delta");
    char *base = maker_join(intact, "base");
    char *target = maker_join(intact, "target");
    free(expect(&again, base, run->version, "again", target));
    free(again.delta);
    free(base);
    free(target);
    free(intact);
}

static void run_full_from_1(const struct run *run)
{
    char *one = expect(run, run->base, 1, "one", NULL);
    free(expect(run, one, 3, "three", run->target));
    free(one);
}

static void run_older(const struct run *run)
{
    char *two = expect(run, run->base, 2, "two", run->target);
    expect_refused(run, two, 1, "past 1; nothing was done");
    expect_refused(run, two, 2, "at version 2 already");
    free(expect(run, run->base, 1, "one", NULL)); /* From the base, back is a way forward. */
    free(expect(run, run->base, 2, "again", run->target));
    free(two);
}

/* A marker behind the bytes: overwrite converges, xor would undo and is refused. */
static void run_reapply(const struct run *run, bool converges)
{
    char *two = expect(run, run->base, 2, "two", run->target);
    expect_refused(run, two, 2, "at version 2 already");
    maker_write_text(two, DELTA_STATE_NAME, "{\"version\": \"000001\"}");
    if (converges) {
        free(expect(run, two, 2, "again", run->target));
    } else {
        expect_refused(run, two, 2, "of the new bytes is");
    }
    check_same(run, two, run->target);
    free(expect(run, run->base, 2, "from-base", run->target));
    free(two);
}

static void run_kind(const struct run *run, const char *cases, const json_t *about)
{
    const char *kind = json_string_value(json_object_get(about, "kind"));
    const char *target_in = json_string_value(json_object_get(about, "target_in"));
    if (strcmp(run->name, "full-version-in-chain-from-1") == 0) {
        run_full_from_1(run);
    } else if (strcmp(run->name, "older-version-and-reset") == 0) {
        run_older(run);
    } else if (strncmp(run->name, "reapply-", 8) == 0) {
        run_reapply(run, strcmp(run->name, "reapply-overwrite") == 0);
    } else if (strcmp(kind, "damaged") == 0 || refusal_of(run->name) != NULL) {
        run_damaged(run, cases, strcmp(kind, "good") == 0 ? NULL : target_in);
    } else if (strcmp(kind, "quirk") == 0) {
        char *target = maker_join(cases, target_in);
        free(expect(run, run->base, run->version, "out", target));
        free(target);
    } else {
        run_good(run);
    }
}

static void run_case(const char *cases, const char *name)
{
    struct run run = { .name = name, .dir = maker_join(cases, name) };
    json_error_t error;
    char *path = maker_join(run.dir, "case.json");
    json_t *about = json_load_file(path, 0, &error);
    unsigned before = failures;
    run.base = maker_join(run.dir, "base");
    run.delta = maker_join(run.dir, "delta");
    run.target = maker_join(run.dir, "target");
    run.scratch = maker_directory();
    if (about == NULL) {
        fail(&run, "%s: %s", path, error.text);
    } else {
        run.version = (uint64_t)json_integer_value(json_object_get(about, "target_version"));
        run_kind(&run, cases, about);
    }
    if (failures == before) {
        printf("ok - %s\n", name);
    }
    json_decref(about);
    maker_remove(run.scratch);
    free(run.base);
    free(run.delta);
    free(run.target);
    free(run.dir);
    free(path);
}

static unsigned run_folder(const char *cases)
{
    unsigned count = 0;
    DIR *dir = opendir(cases);
    const struct dirent *entry;
    if (dir == NULL) {
        printf("skip - golden data of other writers: the folder %s is not there\n", cases);
        return 0;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.' && strchr(entry->d_name, '.') == NULL &&
            strcmp(entry->d_name, "SHA256SUMS") != 0) {
            run_case(cases, entry->d_name);
            count++;
        }
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    unsigned count = 0;
    for (int i = 1; i < argc; i++) {
        count += run_folder(argv[i]);
    }
    printf("%u cases, %u failures\n", count, failures);
    return failures == 0 && count > 0 ? 0 : 1;
}
