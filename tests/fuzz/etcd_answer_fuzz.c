/* etcd_answer_fuzz.c -- whatever etcd answers, and whatever its keys hold, the store's parsers must survive
 * it.  The first byte picks the parser. */
#include <stdint.h>
#include <string.h>

#include "controller/store/etcd_answer.h"
#include "controller/store/etcd_state.h"
#include "controller/store/etcd_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PARSERS = 4, TEXT_BYTES = 4096 };

static void fuzz_answer(struct baton_bytes body)
{
    struct etcd_answer answer;
    struct baton_status why = baton_status_ok();
    struct baton_status st = etcd_answer_parse(body, &answer);
    baton_assert(answer.pairs_count <= ETCD_PAIRS_MAX);
    baton_assert(memchr(answer.message, '\0', sizeof(answer.message)) != NULL);
    baton_assert(memchr(answer.token, '\0', sizeof(answer.token)) != NULL);
    for (const char *at = answer.message; *at != '\0'; at++) {
        baton_assert((unsigned char)*at >= ' ' && *at != 0x7f);
    }
    for (size_t i = 0; baton_ok(&st) && i < answer.pairs_count; i++) {
        baton_assert(answer.pairs[i].key != NULL && answer.pairs[i].value != NULL);
        baton_assert(etcd_answer_find(&answer, answer.pairs[i].key) != NULL);
    }
    enum etcd_verdict verdict = etcd_answer_judge(&answer, 200, &why);
    baton_assert((verdict == ETCD_FINE) == (answer.error == 0));
    verdict = etcd_answer_judge(&answer, 503, &why);
    baton_assert(verdict != ETCD_FINE && !baton_ok(&why));
    etcd_answer_free(&answer);
}

/* What is accepted survives being written again. */
static void fuzz_state(const char *text)
{
    struct etcd_epoch epoch;
    struct etcd_revision revision;
    struct leader_record leader;
    char out[ETCD_LEADER_BYTES];
    char again[ETCD_LEADER_BYTES];
    struct baton_status st = etcd_epoch_parse(text, &epoch);
    if (baton_ok(&st)) {
        etcd_epoch_format(&epoch, out);
        st = etcd_epoch_parse(out, &epoch);
        etcd_epoch_format(&epoch, again);
        baton_assert(baton_ok(&st) && strcmp(out, again) == 0);
    }
    st = etcd_revision_parse(text, &revision);
    if (baton_ok(&st)) {
        etcd_revision_format(&revision, out);
        st = etcd_revision_parse(out, &revision);
        etcd_revision_format(&revision, again);
        baton_assert(baton_ok(&st) && strcmp(out, again) == 0);
    }
    st = etcd_leader_parse(text, &leader);
    if (baton_ok(&st)) {
        etcd_leader_format(&leader, out);
        st = etcd_leader_parse(out, &leader);
        etcd_leader_format(&leader, again);
        baton_assert(baton_ok(&st) && strcmp(out, again) == 0);
    }
}

static void fuzz_base64(const char *text, size_t size)
{
    char out[TEXT_BYTES];
    size_t out_size = 0;
    if (etcd_base64_decode(text, size, out, &out_size)) {
        baton_assert(out_size <= size / 4 * 3);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_BYTES];
    if (size == 0) {
        return 0;
    }
    struct baton_bytes body = { data + 1, size - 1 };
    size_t bytes = body.size < sizeof(text) - 1 ? body.size : sizeof(text) - 1;
    memcpy(text, body.data, bytes);
    text[bytes] = '\0';
    switch (data[0] % PARSERS) {
    case 0: fuzz_state(text); break;
    case 1: fuzz_base64(text, bytes); break;
    default: fuzz_answer(body); break;
    }
    return 0;
}
