/* Pieces of the etcd store that need no etcd: addresses, base64, parts of a commit, fencing keys, answers. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "controller/store/etcd_address.h"
#include "controller/store/etcd_answer.h"
#include "controller/store/etcd_batch.h"
#include "controller/store/etcd_client.h"
#include "controller/store/etcd_state.h"
#include "controller/store/mirror.h"

Test(store_etcd, an_address_is_taken_apart)
{
    struct etcd_address address;
    struct baton_status st = etcd_address_parse(
        "https://a:2379,https://[::1]:2380/baton/prod/?ca=/c.pem&cert=/x&key=/y&user=u&"
        "passwordFile=/p&timeoutMs=900&maxTxnOps=64&cluster=cdf818194e3a8c32",
        &address);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(address.endpoints_count, 2);
    cr_assert_str_eq(address.endpoints[0], "https://a:2379");
    cr_assert_str_eq(address.endpoints[1], "https://[::1]:2380");
    cr_assert_str_eq(address.prefix, "/baton/prod");
    cr_assert_str_eq(address.ca, "/c.pem");
    cr_assert_str_eq(address.password_file, "/p");
    cr_assert_eq(address.timeout_ms, 900);
    cr_assert_eq(address.max_txn_ops, 64);
    cr_assert_eq(address.cluster, 0xcdf818194e3a8c32);
    st = etcd_address_parse("http://127.0.0.1:2379", &address);
    cr_assert(baton_ok(&st));
    cr_assert_str_eq(address.prefix, "/baton");
    cr_assert_eq(address.timeout_ms, 4000);
    cr_assert_eq(address.cluster, 0);
    st = etcd_address_parse("http://etcd.example:2379?insecure=true", &address);
    cr_assert(baton_ok(&st));
}

/* An operation of many calls may have used up its time between two of them. */
Test(store_etcd, a_call_without_time_says_what_to_look_at)
{
    struct etcd_address address;
    struct etcd_client *client = NULL;
    struct etcd_answer answer;
    struct baton_status st = etcd_address_parse("http://127.0.0.1:1", &address);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = etcd_client_open(&address, &client);
    cr_assert(baton_ok(&st), "%s", st.message);
    st =
        etcd_client_call(client, "kv/range", ETCD_CALL_READ, (struct baton_bytes){ 0 }, 0, &answer);
    cr_assert_eq(st.reason, BATON_REASON_STORE_UNAVAILABLE);
    cr_assert(strstr(st.message, "no time left") != NULL && st.hint[0] != '\0', "%s", st.message);
    etcd_answer_free(&answer);
    etcd_client_close(client);
}

/* Each is refused by name, with a hint. */
Test(store_etcd, wrong_addresses_are_refused)
{
    static const char *const wrong[][2] = {
        { "", "http://" },
        { "a:2379", "http://" },
        { "http://a", "port" },
        { "http://:1", "port" },
        { "http://127.0.0.1:2379,https://127.0.0.1:2379", "partly" },
        { "http://10.0.0.1:2379", "insecure" },
        { "http://127.0.0.1:2379,", "http://" },
        { "http://127.0.0.1:2379?ca=/x", "https" },
        { "https://a:1?cert=/x", "cert and key" },
        { "https://a:1?user=u", "passwordFile" },
        { "https://a:1?pasword=u", "no option" },
        { "https://a:1?ca=", "empty" },
        { "https://a:1?ca", "NAME=VALUE" },
        { "https://a:1?cluster=0", "cluster" },
        { "https://a:1?cluster=0xab", "cluster" },
        { "https://a:1?cluster=12345678901234567", "cluster" },
        { "https://a:1?timeoutMs=1x", "timeoutMs" },
        { "https://a:1?timeoutMs=10", "timeoutMs" },
        { "https://a:1?timeoutMs=4001", "timeoutMs" },
        { "https://a:1?maxTxnOps=7", "maxTxnOps" },
        { "https://a:1?maxRequestBytes=131071", "maxRequestBytes" },
        { "https://a:1?insecure=yes", "insecure" },
        { "http://127.0.0.1:1,http://127.0.0.1:1,http://127.0.0.1:1,http://127.0.0.1:1,"
          "http://127.0.0.1:1,http://127.0.0.1:1,http://127.0.0.1:1,http://127.0.0.1:1,"
          "http://127.0.0.1:1,http://127.0.0.1:1",
          "more than 9" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct etcd_address address;
        struct baton_status st = etcd_address_parse(wrong[i][0], &address);
        cr_expect(st.code == BATON_INVALID_ARGUMENT && st.hint[0] != '\0', "%s", wrong[i][0]);
        cr_expect(strstr(st.message, wrong[i][1]) != NULL, "%s: %s", wrong[i][0], st.message);
    }
}

/* A password in an address is refused and not repeated. */
Test(store_etcd, user_information_is_not_printed)
{
    struct etcd_address address;
    struct baton_status st = etcd_address_parse("https://root:hunter2@a:2379", &address);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_null(strstr(st.message, "hunter2"));
    cr_assert_null(strstr(st.hint, "hunter2"));
}

Test(store_etcd, base64_round_trips)
{
    char bytes[67];
    for (size_t size = 0; size < sizeof(bytes); size++) {
        struct etcd_text text = { 0 };
        char back[72];
        size_t back_size = 999;
        for (size_t i = 0; i < size; i++) {
            bytes[i] = (char)(i * 41 + size);
        }
        etcd_text_base64(&text, bytes, size);
        cr_assert_eq(text.size, etcd_base64_size(size) + 2);
        cr_assert(etcd_base64_decode(text.data + 1, text.size - 2, back, &back_size));
        cr_assert(back_size == size && memcmp(back, bytes, size) == 0);
        etcd_text_free(&text);
    }
}

Test(store_etcd, what_is_no_base64_is_refused)
{
    static const char *const wrong[] = { "A", "AA", "AAA", "A===", "AA=A", "====", "AA-A", "AA A" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char out[16];
        size_t size = 0;
        cr_expect_not(etcd_base64_decode(wrong[i], strlen(wrong[i]), out, &size), "%s", wrong[i]);
    }
}

/* At most so many operations a part, so many bytes, and no key twice: etcd refuses each. */
Test(store_etcd, a_commit_is_cut_into_parts)
{
    struct etcd_batch batch = etcd_batch_of(3, 400);
    etcd_batch_put(&batch, "a", "1");
    etcd_batch_put(&batch, "b", "1");
    etcd_batch_put(&batch, "c", "1");
    cr_assert_eq(batch.parts_count, 1);
    etcd_batch_put(&batch, "d", "1");
    cr_assert_eq(batch.parts_count, 2);
    etcd_batch_remove(&batch, "d", NULL);
    cr_assert_eq(batch.parts_count, 3, "one key twice in a part");
    char big[150];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    etcd_batch_put(&batch, "e", big);
    etcd_batch_put(&batch, "f", big);
    cr_assert_eq(batch.parts_count, 4);
    for (size_t i = 0; i < batch.parts_count; i++) {
        cr_assert_leq(batch.parts[i].size, 400);
    }
    cr_assert(baton_ok(&batch.status));
    char huge[400];
    memset(huge, 'x', sizeof(huge) - 1);
    huge[sizeof(huge) - 1] = '\0';
    etcd_batch_put(&batch, "g", huge);
    cr_assert_eq(batch.status.reason, BATON_REASON_LIMIT);
    cr_assert_not_null(strstr(batch.status.hint, "maxRequestBytes"));
    etcd_batch_free(&batch);
}

Test(store_etcd, fencing_keys_round_trip)
{
    struct etcd_epoch epoch = {
        .epoch = { UINT64_MAX, 7 }, .cluster = 3, .fence = 4, .writer = "00ff"
    };
    struct etcd_revision revision = { .revision = UINT64_MAX, .write = 9, .writer = "ab" };
    struct etcd_epoch epoch_back;
    struct etcd_revision revision_back;
    char text[ETCD_STATE_BYTES];
    char again[ETCD_STATE_BYTES];
    etcd_epoch_format(&epoch, text);
    struct baton_status st = etcd_epoch_parse(text, &epoch_back);
    etcd_epoch_format(&epoch_back, again);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_str_eq(text, again);
    etcd_revision_format(&revision, text);
    st = etcd_revision_parse(text, &revision_back);
    etcd_revision_format(&revision_back, again);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_str_eq(text, again);
    st = etcd_epoch_parse(text, &epoch_back);
    cr_assert_eq(st.code, BATON_DATA_LOSS);
    st = etcd_epoch_parse("{\"format\":2}", &epoch_back);
    cr_assert_eq(st.reason, BATON_REASON_INCOMPATIBLE);
    st = etcd_revision_parse("nonsense", &revision_back);
    cr_assert_eq(st.code, BATON_DATA_LOSS);
}

Test(store_etcd, the_leaders_record_round_trips)
{
    struct leader_record record = {
        .holder = "00ff", .address = "[::1]:7070", .count = UINT64_MAX, .lease_ms = 2000, .place = 5
    };
    struct leader_record back;
    char text[ETCD_LEADER_BYTES];
    char again[ETCD_LEADER_BYTES];
    etcd_leader_format(&record, text);
    struct baton_status st = etcd_leader_parse(text, &back);
    cr_assert(baton_ok(&st), "%s", st.message);
    etcd_leader_format(&back, again);
    cr_assert_str_eq(text, again);
    cr_assert_str_eq(back.address, "[::1]:7070");
    cr_assert_eq(back.place, 0);
    static const char *const wrong[] = {
        "nonsense",
        "{\"format\":1}",
        "{\"format\":1,\"holder\":\"xyz\",\"address\":\"a:1\",\"count\":\"1\",\"leaseMs\":\"1\"}",
        "{\"format\":1,\"holder\":\"ab\",\"address\":\"a\\\"\",\"count\":\"1\",\"leaseMs\":\"1\"}",
        "{\"format\":1,\"holder\":\"ab\",\"address\":\"a:1\",\"count\":\"-1\",\"leaseMs\":\"1\"}",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        st = etcd_leader_parse(wrong[i], &back);
        cr_assert_eq(st.code, BATON_DATA_LOSS, "%s", wrong[i]);
    }
}

struct judged {
    const char *body;
    long http;
    enum etcd_verdict verdict;
    enum baton_code code;
};

/* What etcd 3.4 says, and 3.5's and 3.6's other forms of it. */
static const struct judged judged[] = {
    { "{\"header\":{\"cluster_id\":\"1\",\"revision\":\"2\"}}", 200, ETCD_FINE, BATON_OK },
    { "{\"error\":\"etcdserver: mvcc: database space exceeded\",\"code\":8,"
      "\"message\":\"etcdserver: mvcc: database space exceeded\"}",
      429, ETCD_REFUSED, BATON_RESOURCE_EXHAUSTED },
    { "{\"code\":8,\"message\":\"etcdserver: mvcc: database space exceeded\",\"details\":[]}", 429,
      ETCD_REFUSED, BATON_RESOURCE_EXHAUSTED },
    { "{\"error\":\"etcdserver: no leader\",\"code\":14}", 503, ETCD_ELSEWHERE, BATON_UNAVAILABLE },
    { "{\"error\":\"etcdserver: request timed out\",\"code\":14}", 503, ETCD_DOUBT,
      BATON_UNAVAILABLE },
    { "{\"error\":\"etcdserver: invalid auth token\",\"code\":16}", 401, ETCD_LOGIN,
      BATON_UNAUTHENTICATED },
    { "{\"error\":\"etcdserver: permission denied\",\"code\":7}", 403, ETCD_REFUSED,
      BATON_PERMISSION_DENIED },
    { "{\"error\":\"etcdserver: mvcc: required revision has been compacted\",\"code\":11}", 400,
      ETCD_REFUSED, BATON_OUT_OF_RANGE },
    { "{\"error\":{\"grpc_code\":14,\"message\":\"etcdserver: no leader\"}}", 200, ETCD_ELSEWHERE,
      BATON_UNAVAILABLE },
    { "{}", 404, ETCD_REFUSED, BATON_FAILED_PRECONDITION },
    { "{}", 500, ETCD_DOUBT, BATON_UNAVAILABLE },
};

Test(store_etcd, answers_are_judged)
{
    for (size_t i = 0; i < sizeof(judged) / sizeof(judged[0]); i++) {
        struct etcd_answer answer;
        struct baton_status why = baton_status_ok();
        struct baton_status st = etcd_answer_parse(baton_bytes_of(judged[i].body), &answer);
        cr_assert(baton_ok(&st));
        cr_expect_eq(etcd_answer_judge(&answer, judged[i].http, &why), judged[i].verdict, "%s",
                     judged[i].body);
        cr_expect_eq(why.code, judged[i].code, "%s", judged[i].body);
        cr_expect((why.hint[0] != '\0') == !baton_ok(&why));
        etcd_answer_free(&answer);
    }
}

/* The pairs of a transaction's ranges come in one list; a failed comparison is not "succeeded". */
Test(store_etcd, pairs_of_all_ranges_are_found)
{
    struct etcd_answer answer;
    struct baton_status st = etcd_answer_parse(
        baton_bytes_of(
            "{\"header\":{\"cluster_id\":\"18446744073709551615\",\"revision\":\"7\"},"
            "\"responses\":[{\"response_put\":{}},{\"response_range\":{\"kvs\":[{\"key\":"
            "\"YQ==\",\"mod_revision\":\"5\",\"value\":\"eA==\"}]}},{\"response_range\":{"
            "\"kvs\":[{\"key\":\"Yg==\"}],\"more\":true}}]}"),
        &answer);
    cr_assert(baton_ok(&st));
    cr_assert(answer.cluster_id == UINT64_MAX && answer.revision == 7 && !answer.succeeded);
    const struct etcd_pair *pair = etcd_answer_find(&answer, "a");
    cr_assert(pair != NULL && pair->mod_revision == 5);
    cr_assert_str_eq(pair->value, "x");
    cr_assert_str_eq(etcd_answer_find(&answer, "b")->value, "");
    cr_assert_null(etcd_answer_find(&answer, "c"));
    etcd_answer_free(&answer);
}

/* The lines of a watch: its beginning, events, a notice of progress, a compaction, an error of the stream. */
Test(store_etcd, lines_of_a_watch)
{
    struct etcd_answer answer;
    struct baton_status st =
        etcd_answer_parse(baton_bytes_of("{\"result\":{\"header\":{\"cluster_id\":\"17\","
                                         "\"revision\":\"7\"},\"created\":true}}"),
                          &answer);
    cr_assert(baton_ok(&st) && answer.created && !answer.canceled && answer.pairs_count == 0);
    cr_assert(answer.cluster_id == 17 && answer.revision == 7);
    etcd_answer_free(&answer);
    st = etcd_answer_parse(
        baton_bytes_of(
            "{\"result\":{\"header\":{\"cluster_id\":\"17\",\"revision\":\"9\"},\"events\":["
            "{\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"8\",\"value\":\"eA==\"}},"
            "{\"type\":\"DELETE\",\"kv\":{\"key\":\"Yg==\",\"mod_revision\":\"9\"}}]}}"),
        &answer);
    cr_assert(baton_ok(&st) && answer.pairs_count == 2 && !answer.created && !answer.canceled);
    cr_assert(!answer.pairs[0].removed && answer.pairs[0].mod_revision == 8);
    cr_assert_str_eq(answer.pairs[0].value, "x");
    cr_assert(answer.pairs[1].removed && answer.pairs[1].mod_revision == 9);
    cr_assert_str_eq(answer.pairs[1].key, "b");
    etcd_answer_free(&answer);
    st = etcd_answer_parse(
        baton_bytes_of("{\"result\":{\"header\":{\"cluster_id\":\"17\"},\"canceled\":true,"
                       "\"compact_revision\":\"5\",\"cancel_reason\":\"why\"}}"),
        &answer);
    cr_assert(baton_ok(&st) && answer.canceled && answer.compacted == 5);
    cr_assert_str_eq(answer.message, "why");
    etcd_answer_free(&answer);
    st = etcd_answer_parse(
        baton_bytes_of("{\"error\":{\"grpc_code\":14,\"message\":\"no leader\"}}"), &answer);
    cr_assert(baton_ok(&st) && answer.error == 14);
    etcd_answer_free(&answer);
    st = etcd_answer_parse(baton_bytes_of("{\"result\":{\"events\":[{\"kv\":{\"key\":\"!\"}}]}}"),
                           &answer);
    cr_assert(!baton_ok(&st));
    etcd_answer_free(&answer);
}

static struct baton_status join(void *context, const char *name, const char *text)
{
    char *joined = context;
    size_t used = strlen(joined);
    (void)snprintf(joined + used, 64 - used, "%s=%s ", name, text);
    return strcmp(name, "stop") == 0 ? baton_status_make(BATON_CANCELLED, BATON_REASON_NONE, "stop")
                                     : baton_status_ok();
}

/* Put, put again, removed; in the order of the names; a visitor's failure ends it. */
Test(store_etcd, a_mirror_keeps_the_last_text_of_each_name)
{
    struct mirror mirror = { 0 };
    char joined[64] = "";
    static const char *const pairs[][2] = {
        { "b", "1" }, { "a", "2" }, { "c", "3" }, { "b", "44" }
    };
    for (size_t i = 0; i < 4; i++) {
        struct baton_status st = mirror_put(&mirror, pairs[i][0], pairs[i][1]);
        cr_assert(baton_ok(&st));
    }
    cr_assert(mirror.count == 3 && mirror.bytes == 7);
    mirror_remove(&mirror, "c");
    mirror_remove(&mirror, "never");
    cr_assert(mirror.count == 2 && mirror.bytes == 5);
    struct baton_status st = mirror_visit(&mirror, join, joined);
    cr_assert(baton_ok(&st));
    cr_assert_str_eq(joined, "a=2 b=44 ");
    st = mirror_put(&mirror, "stop", "");
    st = mirror_put(&mirror, "z", "");
    cr_assert(baton_ok(&st));
    joined[0] = '\0';
    st = mirror_visit(&mirror, join, joined);
    cr_assert_eq(st.code, BATON_CANCELLED);
    cr_assert_str_eq(joined, "a=2 b=44 stop= ");
    mirror_free(&mirror);
    cr_assert(mirror.root == NULL && mirror.count == 0);
}
