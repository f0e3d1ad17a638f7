/* The table of faults: what is accepted, what matches, how often. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/miniengine/faults.h"

static struct faults faults;

static void setup(void)
{
    cr_assert(faults_create(&faults));
}

static void teardown(void)
{
    faults_destroy(&faults);
}

TestSuite(faults, .init = setup, .fini = teardown);

static bool add(const char *text)
{
    struct trouble why;
    json_t *wanted = json_loads(text, 0, NULL);
    bool added = faults_add(&faults, wanted, 2, &why);
    json_decref(wanted);
    return added;
}

static bool take(enum fault_kind kind, enum fault_phase phase, int32_t rank, int32_t tensor)
{
    struct fault_hit hit;
    return faults_take(&faults, kind, (struct fault_place){ phase, rank, tensor }, &hit);
}

Test(faults, one_shot_once_a_rank)
{
    cr_assert(add("{\"kind\":\"lose\"}"));
    cr_assert(take(FAULT_LOSE, FAULT_APPLY, 0, FAULTS_ANY));
    cr_assert_not(take(FAULT_LOSE, FAULT_APPLY, 0, FAULTS_ANY));
    cr_assert(take(FAULT_LOSE, FAULT_APPLY, 1, FAULTS_ANY));
    cr_assert_not(take(FAULT_LOSE, FAULT_APPLY, 1, FAULTS_ANY));
}

Test(faults, sticky_until_cleared)
{
    cr_assert(add("{\"kind\":\"lie\",\"phase\":\"reset\",\"sticky\":true}"));
    cr_assert(take(FAULT_LIE, FAULT_RESET, 0, FAULTS_ANY));
    cr_assert(take(FAULT_LIE, FAULT_RESET, 0, FAULTS_ANY));
    faults_clear(&faults);
    cr_assert_not(take(FAULT_LIE, FAULT_RESET, 0, FAULTS_ANY));
}

Test(faults, only_its_kind_phase_rank_and_tensor)
{
    cr_assert(add("{\"kind\":\"fail\",\"phase\":\"apply\",\"rank\":1,\"tensor\":4}"));
    cr_assert_not(take(FAULT_FAIL, FAULT_APPLY, 1, FAULTS_ANY));
    cr_assert_not(take(FAULT_FAIL, FAULT_APPLY, 1, 3));
    cr_assert_not(take(FAULT_FAIL, FAULT_APPLY, 0, 4));
    cr_assert_not(take(FAULT_FAIL, FAULT_STAGE, 1, 4));
    cr_assert_not(take(FAULT_DIE, FAULT_APPLY, 1, 4));
    cr_assert(take(FAULT_FAIL, FAULT_APPLY, 1, 4));
}

Test(faults, nonsense_is_refused_whole)
{
    static const char *const rows[] = {
        "{}",
        "[1]",
        "{\"kind\":\"hang\"}",
        "{\"kind\":\"hang\",\"phase\":\"never\"}",
        "{\"kind\":\"explode\",\"phase\":\"apply\"}",
        "{\"kind\":\"die\",\"rank\":2}",
        "{\"kind\":\"die\",\"rank\":-2}",
        "{\"kind\":\"die\",\"rank\":\"0\"}",
        "{\"kind\":\"hang\",\"phase\":\"resume\",\"rank\":1}",
        "{\"kind\":\"late\",\"rank\":0}",
        "{\"kind\":\"slow\",\"phase\":\"apply\",\"ms\":-1}",
        "[{\"kind\":\"lose\"},{\"kind\":\"explode\"}]",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_not(add(rows[i]), "%s", rows[i]);
    }
    json_t *list = faults_list(&faults);
    cr_assert_eq(json_array_size(json_object_get(list, "faults")), 0);
    json_decref(list);
}

Test(faults, a_full_table_says_so)
{
    for (int i = 0; i < FAULTS_MAX; i++) {
        cr_assert(add("{\"kind\":\"lose\"}"));
    }
    cr_assert_not(add("{\"kind\":\"lose\"}"));
    faults_clear(&faults);
    cr_assert(add("{\"kind\":\"lose\"}"));
}

/* Another process that maps the same memory sees it at once. */
Test(faults, ranks_share_the_table)
{
    struct faults other;
    memset(&other, 0, sizeof other);
    cr_assert(faults_attach(&other, faults.fd));
    cr_assert(add("{\"kind\":\"slow\",\"phase\":\"apply\",\"ms\":7}"));
    struct fault_hit hit;
    cr_assert(
        faults_take(&other, FAULT_SLOW, (struct fault_place){ FAULT_APPLY, 1, FAULTS_ANY }, &hit));
    cr_assert_eq(hit.ms, 7);
}
