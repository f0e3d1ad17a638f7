/* landing_test.c -- importing, landing through backends, resuming, refusing, removing. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/checkpoint_maker.h"
#include "transport/include/baton/transport.h"
#include "transport/landing/landing.h"
#include "transport/model/checkpoint.h"
#include "transport/model/manifest.h"

/* A checkpoint, a source root and a landing root in one temporary directory. */
struct world {
    char *dir;
    char *checkpoint;
    char *source_dir;
    char *landing_dir;
    struct landing_root *source;
    struct landing_root *landing;
    char config[1024];
    struct landing_source file; /* Version imported last, read through backend "file". */
};

static struct landing_root *open_root(const char *dir, uint64_t budget)
{
    struct landing_root *root = NULL;
    struct landing_root_options options = { dir, budget };
    struct baton_status st = landing_root_open(&options, &root);
    cr_assert(baton_ok(&st), "%s", st.message);
    return root;
}

static struct world world_open(void)
{
    struct world world = { .dir = maker_directory() };
    world.checkpoint = maker_join(world.dir, "checkpoint");
    world.source_dir = maker_join(world.dir, "source");
    world.landing_dir = maker_join(world.dir, "landing");
    cr_assert_eq(mkdir(world.checkpoint, 0755), 0);
    maker_checkpoint(world.checkpoint, 0);
    world.source = open_root(world.source_dir, 0);
    world.landing = open_root(world.landing_dir, 0);
    return world;
}

static void world_close(struct world *world)
{
    landing_root_close(world->source);
    landing_root_close(world->landing);
    free(world->checkpoint);
    free(world->source_dir);
    free(world->landing_dir);
    maker_remove(world->dir);
}

/* Imports the checkpoint into the source root; the manifest goes to the caller. */
static struct manifest *import(struct world *world)
{
    char path[BATON_PATH_BYTES];
    struct manifest *manifest = NULL;
    struct baton_status st =
        landing_import_directory(world->source, world->checkpoint, NULL, NULL, &manifest);
    cr_assert(baton_ok(&st), "%s", st.message);
    landing_path(world->source, manifest->digest, path);
    snprintf(world->config, sizeof(world->config), "{\"directory\":\"%s\"}", path);
    world->file = (struct landing_source){ "file", world->config, { NULL, 0 } };
    return manifest;
}

/* Names in the directory that are no dot and not the lock. */
static size_t count_entries(const char *dir)
{
    DIR *opened = opendir(dir);
    const struct dirent *entry;
    size_t count = 0;
    cr_assert_not_null(opened);
    while ((entry = readdir(opened)) != NULL) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                 strcmp(entry->d_name, ".lock") != 0;
    }
    closedir(opened);
    return count;
}

/* The digests of an import are those that Python computed for the committed checkpoints. */
Test(landing, imports_the_real_checkpoints)
{
    struct world world = world_open();
    FILE *file = fopen(BATON_TEST_DATA "/digest/vectors.txt", "r");
    char line[256];
    unsigned seen = 0;
    cr_assert_not_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        char folder[64];
        char wanted[64];
        char got[BATON_DIGEST_TEXT_BYTES];
        char path[512];
        struct manifest *manifest = NULL;
        if (sscanf(line, "checkpoint %63s %63s", folder, wanted) != 2) {
            continue;
        }
        snprintf(path, sizeof(path), "%s/%s", BATON_TEST_DATA, folder);
        struct baton_status st =
            landing_import_directory(world.source, path, NULL, NULL, &manifest);
        cr_assert(baton_ok(&st), "%s", st.message);
        digest_format(manifest->digest, got);
        cr_expect_str_eq(got, wanted, "%s", folder);
        manifest_destroy(manifest);
        seen++;
    }
    fclose(file);
    cr_expect_eq(seen, 3);
    world_close(&world);
}

/* A sealed version is a checkpoint like any other: imported again, it is the same version. */
Test(landing, seals_a_valid_checkpoint)
{
    struct world world = world_open();
    struct manifest *manifest = import(&world);
    struct manifest *again = NULL;
    char path[BATON_PATH_BYTES];
    landing_path(world.source, manifest->digest, path);
    struct baton_status st = landing_import_directory(world.landing, path, NULL, NULL, &again);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect(digest_equal(again->digest, manifest->digest));
    cr_expect_eq(again->files_count, 2);
    cr_expect_not_null(manifest_find_file(again, "config.json"));
    cr_expect_null(manifest_find_file(again, "README.md"));
    manifest_destroy(again);
    manifest_destroy(manifest);
    world_close(&world);
}

static void expect_same_files(const char *one, const char *other, const char *name)
{
    struct baton_bytes a = maker_read(one, name);
    struct baton_bytes b = maker_read(other, name);
    cr_expect(baton_bytes_equal(a, b), "%s differs", name);
    free((void *)a.data);
    free((void *)b.data);
}

/* Landing through "file" gives the same bytes, and verify agrees; landing again moves nothing. */
Test(landing, lands_through_file)
{
    struct world world = world_open();
    struct manifest *manifest = import(&world);
    struct landing_progress progress = { 0 };
    char from[BATON_PATH_BYTES];
    char to[BATON_PATH_BYTES];
    struct baton_status st = landing_land(world.landing, manifest, &world.file, NULL, &progress);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(atomic_load(&progress.bytes_total),
                 manifest->tensors_bytes + manifest->files_bytes);
    cr_expect_eq(atomic_load(&progress.bytes_done), atomic_load(&progress.bytes_total));
    landing_path(world.source, manifest->digest, from);
    landing_path(world.landing, manifest->digest, to);
    expect_same_files(from, to, "model.safetensors");
    expect_same_files(from, to, "config.json");
    expect_same_files(from, to, MANIFEST_FILE_NAME);
    expect_same_files(from, to, LANDING_CHUNKS_NAME);
    st = landing_verify(world.landing, manifest->digest, NULL);
    cr_expect(baton_ok(&st), "%s", st.message);
    struct landing_progress none = { 0 };
    st = landing_land(world.landing, manifest, &world.file, NULL, &none);
    cr_expect(baton_ok(&st) && atomic_load(&none.bytes_done) == 0);
    cr_expect_eq(count_entries(world.landing_dir), 1);
    manifest_destroy(manifest);
    world_close(&world);
}

/* Any number of workers gives the same version. */
Test(landing, lands_with_any_number_of_workers)
{
    struct world world = world_open();
    struct manifest *manifest = import(&world);
    for (uint32_t workers = 1; workers <= 8; workers *= 2) {
        struct landing_options options = { .workers = workers };
        struct baton_status st = landing_land(world.landing, manifest, &world.file, &options, NULL);
        cr_assert(baton_ok(&st), "%s", st.message);
        st = landing_verify(world.landing, manifest->digest, NULL);
        cr_assert(baton_ok(&st), "%s", st.message);
        st = landing_remove(world.landing, manifest->digest);
        cr_assert(baton_ok(&st), "%s", st.message);
    }
    manifest_destroy(manifest);
    world_close(&world);
}

/* The same through "memory": files of the sealed directory are named ranges of a peer. */
Test(landing, lands_through_memory)
{
    struct world world = world_open();
    struct manifest *manifest = import(&world);
    static const char *const names[] = { "model.safetensors", "config.json", "tokenizer.json",
                                         MANIFEST_FILE_NAME, LANDING_CHUNKS_NAME };
    struct baton_transport *peer = NULL;
    struct baton_bytes files[5];
    struct baton_tp_mem *mems[5];
    uint8_t address[BATON_TP_ADDRESS_BYTES_MAX];
    uint32_t address_bytes = 0;
    char path[BATON_PATH_BYTES];
    landing_path(world.source, manifest->digest, path);
    struct baton_status st = baton_transport_open("memory", "{}", &peer);
    cr_assert(baton_ok(&st), "%s", st.message);
    for (size_t i = 0; i < 5; i++) {
        files[i] = maker_read(path, names[i]);
        st = baton_transport_register(peer, (void *)files[i].data, files[i].size,
                                      baton_bytes_of(names[i]), BATON_TP_ACCESS_READ, &mems[i]);
        cr_assert(baton_ok(&st), "%s", st.message);
    }
    st = baton_transport_address(peer, address, &address_bytes);
    cr_assert(baton_ok(&st));
    struct landing_source source = { "memory", "{}", { address, address_bytes } };
    struct manifest *fetched = NULL;
    st = landing_fetch_manifest(&source, &manifest->digest, 0, &fetched);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = landing_land(world.landing, fetched, &source, NULL, NULL);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = landing_verify(world.landing, manifest->digest, NULL);
    cr_expect(baton_ok(&st), "%s", st.message);
    for (size_t i = 0; i < 5; i++) {
        baton_transport_release(peer, mems[i]);
        free((void *)files[i].data);
    }
    baton_transport_close(peer);
    manifest_destroy(fetched);
    manifest_destroy(manifest);
    world_close(&world);
}

static char *source_path(const struct world *world, const struct manifest *manifest)
{
    char path[BATON_PATH_BYTES];
    landing_path(world->source, manifest->digest, path);
    return strdup(path);
}

/* A damaged chunk at the source is named, nothing appears, and nothing stays behind. */
Test(landing, refuses_damaged_bytes)
{
    struct world world = world_open();
    struct manifest *manifest = import(&world);
    char *path = source_path(&world, manifest);
    maker_damage(path, "model.safetensors", 2000000);
    struct baton_status st = landing_land(world.landing, manifest, &world.file, NULL, NULL);
    cr_expect_eq(st.code, BATON_DATA_LOSS);
    cr_expect_eq(st.reason, BATON_REASON_DIGEST_MISMATCH);
    cr_expect_not_null(strstr(st.message, "b.weight"), "%s", st.message);
    cr_expect_not_null(strstr(st.message, "chunk 1 of 3"), "%s", st.message);
    cr_expect_eq(count_entries(world.landing_dir), 0);
    st = landing_verify(world.source, manifest->digest, NULL);
    cr_expect_eq(st.reason, BATON_REASON_DIGEST_MISMATCH);
    cr_expect_not_null(strstr(st.message, "b.weight"), "%s", st.message);
    free(path);
    manifest_destroy(manifest);
    world_close(&world);
}

/* Without a chunk table damage is still found, at the tensor. */
Test(landing, refuses_damaged_bytes_without_a_chunk_table)
{
    struct world world = world_open();
    struct manifest *manifest = import(&world);
    char *path = source_path(&world, manifest);
    maker_damage(path, LANDING_CHUNKS_NAME, 3);
    maker_damage(path, "model.safetensors", 2000000);
    struct baton_status st = landing_land(world.landing, manifest, &world.file, NULL, NULL);
    cr_expect_eq(st.reason, BATON_REASON_DIGEST_MISMATCH);
    cr_expect_not_null(strstr(st.message, "b.weight"), "%s", st.message);
    cr_expect_eq(count_entries(world.landing_dir), 0);
    free(path);
    manifest_destroy(manifest);
    world_close(&world);
}

/* A damaged config file is found too. */
Test(landing, refuses_a_damaged_file)
{
    struct world world = world_open();
    struct manifest *manifest = import(&world);
    char *path = source_path(&world, manifest);
    maker_damage(path, "config.json", 5);
    struct baton_status st = landing_land(world.landing, manifest, &world.file, NULL, NULL);
    cr_expect_eq(st.reason, BATON_REASON_DIGEST_MISMATCH);
    cr_expect_not_null(strstr(st.message, "config.json"), "%s", st.message);
    free(path);
    manifest_destroy(manifest);
    world_close(&world);
}

/* A truncated source, a missing one, and one with another version's manifest. */
Test(landing, refuses_a_source_that_is_not_whole)
{
    struct world world = world_open();
    struct manifest *manifest = import(&world);
    struct manifest *fetched = NULL;
    char *path = source_path(&world, manifest);
    char *model = maker_join(path, "model.safetensors");
    struct digest other = { { 1 } };
    struct baton_status st = landing_fetch_manifest(&world.file, &other, 0, &fetched);
    cr_expect_eq(st.reason, BATON_REASON_DIGEST_MISMATCH);
    cr_assert_eq(truncate(model, 1500000), 0);
    st = landing_land(world.landing, manifest, &world.file, NULL, NULL);
    cr_expect_eq(st.reason, BATON_REASON_CHECKPOINT_INVALID, "%s", st.message);
    cr_assert_eq(unlink(model), 0);
    st = landing_land(world.landing, manifest, &world.file, NULL, NULL);
    cr_expect_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    struct landing_source gone = { "file", "{\"directory\":\"/nonexistent/dir\"}", { NULL, 0 } };
    st = landing_land(world.landing, manifest, &gone, NULL, NULL);
    cr_expect_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    free(model);
    free(path);
    manifest_destroy(manifest);
    world_close(&world);
}

/* Cancelled in the middle, the landing goes on where it was, also after a new start, and a chunk
 * that was damaged meanwhile is fetched again. */
Test(landing, goes_on_after_an_interruption)
{
    struct world world = world_open();
    struct manifest *manifest = import(&world);
    char *path = source_path(&world, manifest);
    char *model = maker_join(path, "model.safetensors");
    char *aside = maker_join(path, "aside");
    /* All but the last file arrives: the source loses "tokenizer.json". */
    char *tokenizer = maker_join(path, "tokenizer.json");
    struct landing_options one = { .workers = 1 };
    cr_assert_eq(rename(tokenizer, aside), 0);
    struct baton_status st = landing_land(world.landing, manifest, &world.file, &one, NULL);
    cr_expect_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    cr_expect_not(landing_has(world.landing, manifest->digest));
    cr_assert_eq(rename(aside, tokenizer), 0);
    landing_root_close(world.landing);
    world.landing = open_root(world.landing_dir, 0);
    cr_expect_eq(landing_list(world.landing, NULL, 0), 0);
    struct landing_progress progress = { 0 };
    st = landing_land(world.landing, manifest, &world.file, &one, &progress);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_gt(atomic_load(&progress.bytes_resumed), manifest->tensors_bytes - 1);
    cr_expect_eq(atomic_load(&progress.bytes_done), atomic_load(&progress.bytes_total));
    st = landing_verify(world.landing, manifest->digest, NULL);
    cr_expect(baton_ok(&st), "%s", st.message);
    free(tokenizer);
    free(aside);
    free(model);
    free(path);
    manifest_destroy(manifest);
    world_close(&world);
}

Test(landing, fetches_again_what_was_damaged_in_between)
{
    struct world world = world_open();
    struct manifest *manifest = import(&world);
    char *path = source_path(&world, manifest);
    char *aside = maker_join(path, "aside");
    char *tokenizer = maker_join(path, "tokenizer.json");
    char text[BATON_DIGEST_TEXT_BYTES];
    char hidden[64];
    cr_assert_eq(rename(tokenizer, aside), 0);
    struct baton_status st = landing_land(world.landing, manifest, &world.file, NULL, NULL);
    cr_expect_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    cr_assert_eq(rename(aside, tokenizer), 0);
    digest_format(manifest->digest, text);
    snprintf(hidden, sizeof(hidden), ".landing-%s", text);
    char *left = maker_join(world.landing_dir, hidden);
    maker_damage(left, "model.safetensors", 2000000);
    struct landing_progress progress = { 0 };
    st = landing_land(world.landing, manifest, &world.file, NULL, &progress);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = landing_verify(world.landing, manifest->digest, NULL);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_lt(atomic_load(&progress.bytes_resumed), manifest->tensors_bytes);
    free(left);
    free(tokenizer);
    free(aside);
    free(path);
    manifest_destroy(manifest);
    world_close(&world);
}

/* Asked to stop, a landing stops and shows nothing. */
Test(landing, can_be_cancelled)
{
    struct world world = world_open();
    struct manifest *manifest = import(&world);
    struct landing_progress progress = { 0 };
    atomic_store(&progress.cancel, true);
    struct baton_status st = landing_land(world.landing, manifest, &world.file, NULL, &progress);
    cr_expect_eq(st.code, BATON_CANCELLED);
    cr_expect_not(landing_has(world.landing, manifest->digest));
    landing_discard_unfinished(world.landing, NULL);
    cr_expect_eq(count_entries(world.landing_dir), 0);
    manifest_destroy(manifest);
    world_close(&world);
}

/* The budget refuses before the first byte, in words that name directory, need and room. */
Test(landing, keeps_to_its_budget)
{
    struct world world = world_open();
    struct manifest *manifest = import(&world);
    landing_root_close(world.landing);
    world.landing = open_root(world.landing_dir, 1000000);
    struct baton_status st = landing_land(world.landing, manifest, &world.file, NULL, NULL);
    cr_expect_eq(st.code, BATON_RESOURCE_EXHAUSTED);
    cr_expect_eq(st.reason, BATON_REASON_NO_SPACE);
    cr_expect_not_null(strstr(st.message, world.landing_dir), "%s", st.message);
    cr_expect_not_null(strstr(st.message, "1000000 are free (budget)"), "%s", st.message);
    cr_expect_neq(st.hint[0], '\0');
    cr_expect_eq(count_entries(world.landing_dir), 0);
    cr_expect_eq(landing_used_bytes(world.landing), 0);
    manifest_destroy(manifest);
    world_close(&world);
}

/* A full tmpfs: refused with words, nothing half-made is left.  Needs the right to mount. */
Test(landing, survives_a_full_tmpfs)
{
    struct world world = world_open();
    char *small = maker_join(world.dir, "small");
    struct manifest *manifest = NULL;
    cr_assert_eq(mkdir(small, 0755), 0);
    if (mount("none", small, "tmpfs", 0, "size=1m") == 0) {
        struct landing_root *root = open_root(small, 0);
        struct baton_status st =
            landing_import_directory(root, world.checkpoint, NULL, NULL, &manifest);
        cr_expect_eq(st.reason, BATON_REASON_NO_SPACE, "%s", st.message);
        cr_expect_not_null(strstr(st.message, small), "%s", st.message);
        cr_expect_eq(count_entries(small), 0);
        landing_root_close(root);
        umount(small);
    } else {
        printf("skip landing::survives_a_full_tmpfs: needs the right to mount\n");
    }
    free(small);
    world_close(&world);
}

/* Pinned versions stay; removed ones are gone at once; the room comes back. */
Test(landing, removes_what_is_not_pinned)
{
    struct world world = world_open();
    struct manifest *manifest = import(&world);
    struct landing_version listed[2];
    uint64_t used = landing_used_bytes(world.source);
    cr_expect_gt(used, manifest->tensors_bytes);
    struct baton_status st = landing_pin(world.source, manifest->digest);
    cr_assert(baton_ok(&st));
    cr_expect_eq(landing_list(world.source, listed, 2), 1);
    cr_expect_eq(listed[0].pins, 1);
    st = landing_remove(world.source, manifest->digest);
    cr_expect_eq(st.reason, BATON_REASON_HELD);
    landing_unpin(world.source, manifest->digest);
    st = landing_remove(world.source, manifest->digest);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_eq(landing_used_bytes(world.source), 0);
    cr_expect_eq(count_entries(world.source_dir), 0);
    st = landing_remove(world.source, manifest->digest);
    cr_expect_eq(st.code, BATON_NOT_FOUND);
    st = landing_pin(world.source, manifest->digest);
    cr_expect_eq(st.code, BATON_NOT_FOUND);
    manifest_destroy(manifest);
    world_close(&world);
}

/* At start: sealed versions are listed, leftovers removed, foreign files left alone. */
Test(landing, takes_stock_at_start)
{
    struct world world = world_open();
    struct manifest *manifest = import(&world);
    landing_root_close(world.source);
    static const char *const leftovers[] = { ".import-00000000000000000000000000000000",
                                             ".trash-00000000000000000000000000000000",
                                             ".landing-00000000000000000000000000000000" };
    for (size_t i = 0; i < 3; i++) {
        char *path = maker_join(world.source_dir, leftovers[i]);
        cr_assert_eq(mkdir(path, 0755), 0);
        maker_write_text(path, "model.safetensors", "x");
        free(path);
    }
    maker_write_text(world.source_dir, "notes.txt", "mine");
    world.source = open_root(world.source_dir, 0);
    cr_expect_eq(landing_list(world.source, NULL, 0), 1);
    cr_expect(landing_has(world.source, manifest->digest));
    cr_expect_eq(count_entries(world.source_dir), 2);
    manifest_destroy(manifest);
    world_close(&world);
}

/* One holder at a time. */
Test(landing, refuses_a_second_holder)
{
    struct world world = world_open();
    struct landing_root *second = NULL;
    struct landing_root_options options = { world.landing_dir, 0 };
    struct baton_status st = landing_root_open(&options, &second);
    cr_expect_eq(st.reason, BATON_REASON_IN_USE);
    cr_expect_not_null(strstr(st.message, world.landing_dir));
    world_close(&world);
}

/* A partial version over its parent is the version that the whole directory would be. */
Test(landing, composes_a_partial_version)
{
    struct world world = world_open();
    struct manifest *parent = import(&world);
    struct manifest *composed = NULL;
    struct manifest *whole = NULL;
    char *path = source_path(&world, parent);
    char *partial = maker_join(world.dir, "partial");
    cr_assert_eq(mkdir(partial, 0755), 0);
    maker_safetensors(partial, "model.safetensors",
                      "{\"c.weight\":{\"dtype\":\"F32\",\"shape\":[2,5],\"data_offsets\":[0,40]}}",
                      40);
    maker_write_text(partial, "tokenizer.json", "{\"new\":1}");
    struct baton_status st = landing_compose(world.source, path, partial, NULL, NULL, &composed);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_not(digest_equal(composed->digest, parent->digest));
    st = landing_verify(world.source, composed->digest, NULL);
    cr_expect(baton_ok(&st), "%s", st.message);
    /* By another way: write the same whole checkpoint and import it. */
    struct baton_bytes model = maker_read(path, "model.safetensors");
    uint8_t *c = maker_bytes(40);
    struct checkpoint *layout = NULL;
    st = checkpoint_open(path, CHECKPOINT_WHOLE, &layout);
    cr_assert(baton_ok(&st));
    memcpy((uint8_t *)model.data + checkpoint_find(layout, "c.weight")->offset, c, 40);
    checkpoint_close(layout);
    maker_write(world.checkpoint, "model.safetensors", model);
    maker_write_text(world.checkpoint, "tokenizer.json", "{\"new\":1}");
    st = landing_import_directory(world.landing, world.checkpoint, NULL, NULL, &whole);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect(digest_equal(whole->digest, composed->digest));
    free((void *)model.data);
    free(c);
    free(partial);
    free(path);
    manifest_destroy(whole);
    manifest_destroy(composed);
    manifest_destroy(parent);
    world_close(&world);
}

/* What is inherited is verified: a parent that rotted does not pass. */
Test(landing, composes_only_over_a_sound_parent)
{
    struct world world = world_open();
    struct manifest *parent = import(&world);
    struct manifest *composed = NULL;
    char *path = source_path(&world, parent);
    char *partial = maker_join(world.dir, "partial");
    cr_assert_eq(mkdir(partial, 0755), 0);
    maker_safetensors(partial, "model.safetensors",
                      "{\"x.new\":{\"dtype\":\"F32\",\"shape\":[10],\"data_offsets\":[0,40]}}", 40);
    struct baton_status st = landing_compose(world.source, path, partial, NULL, NULL, &composed);
    cr_expect_eq(st.reason, BATON_REASON_INCOMPATIBLE);
    cr_expect_not_null(strstr(st.message, "x.new"), "%s", st.message);
    maker_safetensors(partial, "model.safetensors",
                      "{\"c.weight\":{\"dtype\":\"F32\",\"shape\":[2,5],\"data_offsets\":[0,40]}}",
                      40);
    maker_damage(path, "model.safetensors", 1000000);
    st = landing_compose(world.source, path, partial, NULL, NULL, &composed);
    cr_expect_eq(st.reason, BATON_REASON_DIGEST_MISMATCH);
    cr_expect_not_null(strstr(st.message, "b.weight"), "%s", st.message);
    cr_expect_eq(landing_list(world.source, NULL, 0), 1);
    free(partial);
    free(path);
    manifest_destroy(parent);
    world_close(&world);
}
