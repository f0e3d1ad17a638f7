/* landing_faults_test.c -- a landing whose n-th transfer goes wrong, for every n until it
 * succeeds. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/base/clock.h"
#include "tests/unit/checkpoint_maker.h"
#include "transport/include/baton/transport_plugin.h"
#include "transport/landing/landing.h"
#include "transport/model/manifest.h"

struct rig {
    char *dir;
    char *landing_dir;
    struct landing_root *source;
    struct landing_root *landing;
    struct manifest *manifest;
    char sealed[BATON_PATH_BYTES];
    char config[2048];
};

static struct landing_root *open_root(const char *dir)
{
    struct landing_root *root = NULL;
    struct landing_root_options options = { dir, 0 };
    struct baton_status st = landing_root_open(&options, &root);
    cr_assert(baton_ok(&st), "%s", st.message);
    return root;
}

static struct rig rig_open(void)
{
    struct rig rig = { .dir = maker_directory() };
    char *checkpoint = maker_join(rig.dir, "checkpoint");
    char *source_dir = maker_join(rig.dir, "source");
    rig.landing_dir = maker_join(rig.dir, "landing");
    cr_assert_eq(mkdir(checkpoint, 0755), 0);
    maker_checkpoint(checkpoint, 0);
    rig.source = open_root(source_dir);
    rig.landing = open_root(rig.landing_dir);
    struct baton_status st =
        landing_import_directory(rig.source, checkpoint, NULL, NULL, &rig.manifest);
    cr_assert(baton_ok(&st), "%s", st.message);
    landing_path(rig.source, rig.manifest->digest, rig.sealed);
    free(checkpoint);
    free(source_dir);
    return rig;
}

static void rig_close(struct rig *rig)
{
    manifest_destroy(rig->manifest);
    landing_root_close(rig->source);
    landing_root_close(rig->landing);
    free(rig->landing_dir);
    maker_remove(rig->dir);
}

/* A landing by one worker through the hook. */
static struct baton_status land(struct rig *rig, const char *fault, unsigned at, int result)
{
    struct landing_options options = { .workers = 1, .timeout_ns = 20 * BATON_NS_PER_MS };
    snprintf(rig->config, sizeof(rig->config),
             "{\"backend\":\"file\",\"config\":{\"directory\":\"%s\"},\"fault\":\"%s\",\"at\":%u,"
             "\"result\":%d}",
             rig->sealed, fault, at, result);
    struct landing_source source = { BATON_FAULT_HOOK, rig->config, { NULL, 0 } };
    return landing_land(rig->landing, rig->manifest, &source, &options, NULL);
}

static bool is_visible(const struct rig *rig)
{
    DIR *dir = opendir(rig->landing_dir);
    const struct dirent *entry;
    bool visible = false;
    cr_assert_not_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        visible = visible || entry->d_name[0] != '.';
    }
    closedir(dir);
    return visible;
}

/* Raises n until the landing succeeds; each failure must have 'code' and show nothing.  Returns how
 * many failed. */
static unsigned sweep(struct rig *rig, const char *fault, int result, enum baton_code code)
{
    for (unsigned at = 1; at < 100; at++) {
        struct baton_status st = land(rig, fault, at, result);
        if (baton_ok(&st)) {
            cr_expect(landing_has(rig->landing, rig->manifest->digest));
            st = landing_verify(rig->landing, rig->manifest->digest, NULL);
            cr_expect(baton_ok(&st), "%s", st.message);
            return at - 1;
        }
        cr_expect_eq(st.code, code, "%s at %u: %s", fault, at, st.message);
        cr_expect_not(is_visible(rig));
        landing_discard_unfinished(rig->landing, NULL);
        cr_expect_eq(landing_used_bytes(rig->landing), 0);
    }
    return 100;
}

/* The peer is lost in the n-th transfer. */
Test(landing_faults, loses_its_peer)
{
    struct rig rig = rig_open();
    cr_expect_geq(sweep(&rig, "fail", BATON_TP_E_PEER_LOST, BATON_UNAVAILABLE), 7);
    rig_close(&rig);
}

/* The n-th transfer comes short. */
Test(landing_faults, gets_too_little)
{
    struct rig rig = rig_open();
    cr_expect_geq(sweep(&rig, "fail", BATON_TP_E_CORRUPT, BATON_DATA_LOSS), 7);
    rig_close(&rig);
}

/* The n-th transfer never ends: the landing gives up at its own deadline. */
Test(landing_faults, meets_silence, .timeout = 60)
{
    struct rig rig = rig_open();
    cr_expect_geq(sweep(&rig, "hang", 0, BATON_DEADLINE_EXCEEDED), 7);
    rig_close(&rig);
}

/* One bit flips in the n-th transfer.  Headers and the chunk table may be hit too: then the landing
 * either refuses or succeeds without them, but never seals a wrong byte. */
Test(landing_faults, gets_a_flipped_bit)
{
    struct rig rig = rig_open();
    unsigned refused = 0;
    for (unsigned at = 1; at < 12; at++) {
        struct baton_status st = land(&rig, "damage", at, 0);
        if (baton_ok(&st)) {
            st = landing_verify(rig.landing, rig.manifest->digest, NULL);
            cr_expect(baton_ok(&st), "at %u: %s", at, st.message);
            st = landing_remove(rig.landing, rig.manifest->digest);
            cr_expect(baton_ok(&st));
        } else {
            cr_expect_not(is_visible(&rig));
            refused++;
        }
    }
    cr_expect_geq(refused, 7);
    rig_close(&rig);
}

/* Interrupted at every transfer in turn, and each time continued: it gets there. */
Test(landing_faults, goes_on_from_every_interruption)
{
    struct rig rig = rig_open();
    struct baton_status st = baton_status_ok();
    unsigned tries = 0;
    /* Looking at the source takes three transfers of a transport of its own; of the worker's, the
     * fourth fails: a try moves three of the seven chunks. */
    do {
        st = land(&rig, "fail", 4, BATON_TP_E_PEER_LOST);
        tries++;
    } while (!baton_ok(&st) && tries < 50);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_eq(tries, 3);
    st = landing_verify(rig.landing, rig.manifest->digest, &(struct landing_progress){ 0 });
    cr_expect(baton_ok(&st), "%s", st.message);
    rig_close(&rig);
}
