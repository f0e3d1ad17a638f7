/* landing_tensors_test.c -- versions whose tensors come from memory. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/unit/checkpoint_maker.h"
#include "transport/landing/landing.h"
#include "transport/model/checkpoint.h"
#include "transport/model/manifest.h"

struct room {
    char *dir;
    char *checkpoint;
    char *root_dir;
    struct landing_root *root;
};

static struct room room_open(void)
{
    struct room room = { .dir = maker_directory() };
    room.checkpoint = maker_join(room.dir, "checkpoint");
    room.root_dir = maker_join(room.dir, "root");
    cr_assert_eq(mkdir(room.checkpoint, 0755), 0);
    maker_checkpoint(room.checkpoint, 0);
    struct landing_root_options options = { room.root_dir, 0 };
    struct baton_status st = landing_root_open(&options, &room.root);
    cr_assert(baton_ok(&st), "%s", st.message);
    return room;
}

static void room_close(struct room *room)
{
    landing_root_close(room->root);
    free(room->checkpoint);
    free(room->root_dir);
    maker_remove(room->dir);
}

static const struct landing_tensor all[] = {
    { "d.empty", NULL, TENSOR_DTYPE_I64, { 2, { 0, 4 } } },
    { "c.weight", NULL, TENSOR_DTYPE_F32, { 2, { 2, 5 } } },
    { "a.bias", "", TENSOR_DTYPE_U8, { 1, { 3 } } },
    { "b.weight", NULL, TENSOR_DTYPE_BF16, { 2, { 1152, 1024 } } },
};
/* Where the tensors of maker_checkpoint() lie in the pattern, in the order of 'all'. */
static const size_t begins[] = { 2359339, 2359299, 0, 3 };
static const size_t sizes[] = { 0, 40, 3, 2359296 };

/* Tensors from memory give the version that importing the same checkpoint gives. */
Test(landing_tensors, equals_an_import)
{
    struct room room = room_open();
    struct manifest *imported = NULL;
    struct manifest *handed = NULL;
    struct landing_session *session = NULL;
    struct landing_progress progress = { 0 };
    uint8_t *data = maker_bytes(2359339);
    struct landing_tensors tensors = { all, 4, NULL, room.checkpoint, 0 };
    struct baton_status st = landing_begin_tensors(room.root, &tensors, NULL, &session);
    cr_assert(baton_ok(&st), "%s", st.message);
    for (size_t i = 0; i < 4; i++) {
        st = landing_put_tensor(session, i, (struct baton_bytes){ data + begins[i], sizes[i] });
        cr_assert(baton_ok(&st), "%s", st.message);
    }
    st = landing_finish_tensors(session, &progress, &handed);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(atomic_load(&progress.bytes_done), atomic_load(&progress.bytes_total));
    st = landing_import_directory(room.root, room.checkpoint, NULL, NULL, &imported);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect(digest_equal(imported->digest, handed->digest));
    cr_expect_eq(landing_list(room.root, NULL, 0), 1);
    st = landing_verify(room.root, handed->digest, NULL);
    cr_expect(baton_ok(&st), "%s", st.message);
    manifest_destroy(imported);
    manifest_destroy(handed);
    free(data);
    room_close(&room);
}

/* Over a parent, only what changed is handed over; small shards do not change the digest. */
Test(landing_tensors, inherits_from_a_parent)
{
    struct room room = room_open();
    struct manifest *parent = NULL;
    struct manifest *handed = NULL;
    struct landing_session *session = NULL;
    char path[BATON_PATH_BYTES];
    uint8_t changed[40] = { 1, 2, 3 };
    struct baton_status st =
        landing_import_directory(room.root, room.checkpoint, NULL, NULL, &parent);
    cr_assert(baton_ok(&st), "%s", st.message);
    landing_path(room.root, parent->digest, path);
    struct landing_tensors tensors = { all + 1, 1, path, NULL, 0 };
    st = landing_begin_tensors(room.root, &tensors, NULL, &session);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = landing_put_tensor(session, 0, (struct baton_bytes){ changed, 40 });
    cr_assert(baton_ok(&st), "%s", st.message);
    st = landing_finish_tensors(session, NULL, &handed);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(handed->tensors_count, 4);
    cr_expect_eq(handed->files_count, 2);
    cr_expect(digest_equal(manifest_find_tensor(handed, "b.weight")->digest,
                           manifest_find_tensor(parent, "b.weight")->digest));
    cr_expect_not(digest_equal(manifest_find_tensor(handed, "c.weight")->digest,
                               manifest_find_tensor(parent, "c.weight")->digest));
    st = landing_verify(room.root, handed->digest, NULL);
    cr_expect(baton_ok(&st), "%s", st.message);
    manifest_destroy(parent);
    manifest_destroy(handed);
    room_close(&room);
}

/* Several files, with an index, that any reader takes. */
Test(landing_tensors, spreads_over_shards)
{
    struct room room = room_open();
    struct manifest *handed = NULL;
    struct landing_session *session = NULL;
    struct checkpoint *read = NULL;
    char path[BATON_PATH_BYTES];
    uint8_t *data = maker_bytes(2359339);
    struct landing_tensors tensors = { all, 4, NULL, NULL, 1000 };
    struct baton_status st = landing_begin_tensors(room.root, &tensors, NULL, &session);
    cr_assert(baton_ok(&st), "%s", st.message);
    for (size_t i = 0; i < 4; i++) {
        st = landing_put_tensor(session, i, (struct baton_bytes){ data + begins[i], sizes[i] });
        cr_assert(baton_ok(&st), "%s", st.message);
    }
    st = landing_finish_tensors(session, NULL, &handed);
    cr_assert(baton_ok(&st), "%s", st.message);
    landing_path(room.root, handed->digest, path);
    st = checkpoint_open(path, CHECKPOINT_PARTIAL, &read);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(read->shards_count, 3);
    cr_expect_str_eq(read->shards[0].name, "model-00001-of-00003.safetensors");
    cr_expect_eq(read->tensors_count, 4);
    checkpoint_close(read);
    manifest_destroy(handed);
    free(data);
    room_close(&room);
}

static size_t count_versions(const struct room *room)
{
    return landing_list(room->root, NULL, 0);
}

/* Wrong size, twice, and not at all: each names the tensor; nothing is sealed. */
Test(landing_tensors, refuses_what_is_not_whole)
{
    struct room room = room_open();
    struct manifest *handed = NULL;
    struct landing_session *session = NULL;
    uint8_t bytes[40] = { 0 };
    struct landing_tensors tensors = { all, 4, NULL, NULL, 0 };
    struct baton_status st = landing_begin_tensors(room.root, &tensors, NULL, &session);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = landing_put_tensor(session, 1, (struct baton_bytes){ bytes, 39 });
    cr_expect_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(st.message, "c.weight"), "%s", st.message);
    st = landing_put_tensor(session, 1, (struct baton_bytes){ bytes, 40 });
    cr_expect(baton_ok(&st), "%s", st.message);
    st = landing_put_tensor(session, 1, (struct baton_bytes){ bytes, 40 });
    cr_expect_eq(st.code, BATON_FAILED_PRECONDITION);
    st = landing_finish_tensors(session, NULL, &handed);
    cr_expect_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_expect_not_null(strstr(st.message, "not handed over"), "%s", st.message);
    cr_expect_eq(count_versions(&room), 0);
    room_close(&room);
}

/* Refused at the start: no tensor, a name twice, a shape that overflows, not the parent's shape. */
Test(landing_tensors, refuses_a_bad_list)
{
    struct room room = room_open();
    struct manifest *parent = NULL;
    struct landing_session *session = NULL;
    char path[BATON_PATH_BYTES];
    struct landing_tensors none = { NULL, 0, NULL, NULL, 0 };
    struct landing_tensor twice[] = { all[1], all[1] };
    struct landing_tensors doubled = { twice, 2, NULL, NULL, 0 };
    struct landing_tensor huge = { "h", NULL, TENSOR_DTYPE_F32, { 2, { UINT64_MAX, 2 } } };
    struct landing_tensors overflowing = { &huge, 1, NULL, NULL, 0 };
    struct landing_tensor other = { "c.weight", NULL, TENSOR_DTYPE_F32, { 2, { 5, 2 } } };
    struct baton_status st = landing_begin_tensors(room.root, &none, NULL, &session);
    cr_expect_eq(st.code, BATON_INVALID_ARGUMENT);
    st = landing_begin_tensors(room.root, &doubled, NULL, &session);
    cr_expect_not_null(strstr(st.message, "twice"), "%s", st.message);
    st = landing_begin_tensors(room.root, &overflowing, NULL, &session);
    cr_expect_not_null(strstr(st.message, "overflows"), "%s", st.message);
    st = landing_import_directory(room.root, room.checkpoint, NULL, NULL, &parent);
    cr_assert(baton_ok(&st), "%s", st.message);
    landing_path(room.root, parent->digest, path);
    struct landing_tensors reshaped = { &other, 1, path, NULL, 0 };
    st = landing_begin_tensors(room.root, &reshaped, NULL, &session);
    cr_expect_eq(st.reason, BATON_REASON_INCOMPATIBLE);
    cr_expect_not_null(strstr(st.message, "[5, 2]"), "%s", st.message);
    cr_expect_eq(landing_used_bytes(room.root) > 0, true);
    manifest_destroy(parent);
    room_close(&room);
}

/* Given up, a session leaves nothing. */
Test(landing_tensors, can_be_abandoned)
{
    struct room room = room_open();
    struct landing_session *session = NULL;
    struct landing_tensors tensors = { all, 4, NULL, NULL, 0 };
    struct baton_status st = landing_begin_tensors(room.root, &tensors, NULL, &session);
    cr_assert(baton_ok(&st), "%s", st.message);
    landing_abandon_tensors(session);
    cr_expect_eq(landing_used_bytes(room.root), 0);
    cr_expect_eq(count_versions(&room), 0);
    room_close(&room);
}

/* The file system fills up while tensors come in: said in words, and nothing is left behind.  Needs
 * the right to mount. */
Test(landing_tensors, survives_a_disk_that_fills_up)
{
    char *dir = maker_directory();
    struct landing_root *root = NULL;
    struct landing_session *session = NULL;
    uint8_t *data = maker_bytes(2359296);
    struct landing_tensors tensors = { all + 3, 1, NULL, NULL, 0 };
    if (mount("none", dir, "tmpfs", 0, "size=4m") != 0) {
        free(data);
        maker_remove(dir);
        cr_skip("no right to mount a tmpfs");
    }
    struct landing_root_options options = { dir, 0 };
    struct baton_status st = landing_root_open(&options, &root);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = landing_begin_tensors(root, &tensors, NULL, &session);
    cr_assert(baton_ok(&st), "%s", st.message);
    maker_write(dir, "other", (struct baton_bytes){ data, 2359296 });
    st = landing_put_tensor(session, 0, (struct baton_bytes){ data, 2359296 });
    cr_expect_eq(st.reason, BATON_REASON_NO_SPACE, "%s", st.message);
    cr_expect_not_null(strstr(st.message, dir), "%s", st.message);
    landing_abandon_tensors(session);
    cr_expect_eq(landing_used_bytes(root), 0);
    cr_expect_eq(landing_list(root, NULL, 0), 0);
    landing_root_close(root);
    cr_assert_eq(umount(dir), 0);
    free(data);
    maker_remove(dir);
}

/* --- the survey --- */

/* Lands the pattern from 'shift' on as all four tensors; 'change', if any, is put over b.weight. */
static struct manifest *land_surveyed(struct room *room, size_t shift, const uint16_t *change,
                                      struct landing_survey *survey)
{
    struct landing_session *session = NULL;
    struct manifest *manifest = NULL;
    uint8_t *data = maker_bytes(2359339 + shift);
    /* The exponents' top bits are off: the pattern becomes ordinary numbers. */
    for (size_t i = shift; i < 2359339 + shift; i++) {
        data[i] &= 0x3f;
    }
    if (change != NULL) {
        memcpy(data + shift + begins[3] + 2000000, change, 4);
    }
    struct landing_options options = { .survey = survey };
    struct landing_tensors tensors = { all, 4, NULL, room->checkpoint, 0 };
    struct baton_status st = landing_begin_tensors(room->root, &tensors, &options, &session);
    for (size_t i = 0; baton_ok(&st) && i < 4; i++) {
        st = landing_put_tensor(session, i,
                                (struct baton_bytes){ data + shift + begins[i], sizes[i] });
    }
    cr_assert(baton_ok(&st), "%s", st.message);
    st = landing_finish_tensors(session, NULL, &manifest);
    cr_assert(baton_ok(&st), "%s", st.message);
    free(data);
    return manifest;
}

/* The tensor with NaN and infinity is named, wherever in its chunks they lie. */
Test(landing_tensors, survey_names_the_tensor_that_is_not_finite)
{
    static const uint16_t bad[2] = { 0x7fc1, 0xff80 };
    struct room room = room_open();
    struct landing_survey clean = { 0 };
    struct landing_survey broken = { 0 };
    manifest_destroy(land_surveyed(&room, 0, NULL, &clean));
    manifest_destroy(land_surveyed(&room, 0, bad, &broken));
    cr_expect(clean.nans == 0 && clean.infs == 0 && clean.bad_tensors == 0);
    cr_expect_eq(broken.nans, 1);
    cr_expect_eq(broken.infs, 1);
    cr_expect_eq(broken.bad_tensors, 1);
    cr_expect_str_eq(broken.first_bad, "b.weight");
    cr_expect_not(broken.compared, "no base was given");
    room_close(&room);
}

/* Against its parent: equal tensors are counted by their digest, others measured, largest first. */
Test(landing_tensors, survey_measures_the_change)
{
    struct room room = room_open();
    char parent[BATON_PATH_BYTES];
    struct landing_survey none = { 0 };
    struct manifest *first = land_surveyed(&room, 0, NULL, &none);
    landing_path(room.root, first->digest, parent);

    struct landing_survey same = { .base_dir = parent };
    manifest_destroy(land_surveyed(&room, 0, NULL, &same));
    cr_expect(same.compared && same.changed == 0 && same.unchanged == 4 && same.added == 0);
    cr_expect_eq(same.largest_count, 0);

    static const uint16_t huge[2] = { 0x5000, 0x5000 };
    struct landing_survey exploded = { .base_dir = parent };
    manifest_destroy(land_surveyed(&room, 0, huge, &exploded));
    cr_expect(exploded.compared && exploded.changed == 1 && exploded.unchanged == 3);
    cr_assert_eq(exploded.largest_count, 1);
    cr_expect_str_eq(exploded.largest[0].name, "b.weight");
    cr_expect_gt(exploded.largest[0].change, 1e6);

    struct landing_survey other = { .base_dir = parent };
    manifest_destroy(land_surveyed(&room, 1, NULL, &other));
    cr_expect_eq(other.changed, 3);
    cr_expect_eq(other.unchanged, 1, "the empty tensor");
    cr_assert_eq(other.largest_count, 2, "integers have no measure");
    cr_expect_geq(other.largest[0].change, other.largest[1].change);
    cr_expect(other.largest[1].change > 0 && other.largest[0].change < 1e3);

    struct landing_survey lost = { .base_dir = room.dir };
    manifest_destroy(land_surveyed(&room, 2, NULL, &lost));
    cr_expect_not(lost.compared, "a base that is no sealed directory costs the comparison only");
    manifest_destroy(first);
    room_close(&room);
}

/* A partial version: what is inherited counts as unchanged. */
Test(landing_tensors, survey_of_a_partial_version)
{
    struct room room = room_open();
    char parent[BATON_PATH_BYTES];
    struct landing_survey survey = { .base_dir = parent };
    struct manifest *first = NULL;
    struct manifest *second = NULL;
    struct landing_session *session = NULL;
    struct baton_status st =
        landing_import_directory(room.root, room.checkpoint, NULL, NULL, &first);
    cr_assert(baton_ok(&st), "%s", st.message);
    landing_path(room.root, first->digest, parent);
    struct landing_tensors tensors = { &all[1], 1, parent, NULL, 0 };
    struct landing_options options = { .survey = &survey };
    st = landing_begin_tensors(room.root, &tensors, &options, &session);
    cr_assert(baton_ok(&st), "%s", st.message);
    static const float one[10] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    st = landing_put_tensor(session, 0, (struct baton_bytes){ (const uint8_t *)one, 40 });
    cr_assert(baton_ok(&st), "%s", st.message);
    st = landing_finish_tensors(session, NULL, &second);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect(survey.compared && survey.changed == 1 && survey.unchanged == 3);
    cr_expect_str_eq(survey.largest[0].name, "c.weight");
    cr_expect_gt(survey.nans, 0, "what is inherited was looked at too");
    manifest_destroy(first);
    manifest_destroy(second);
    room_close(&room);
}
