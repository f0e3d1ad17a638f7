#include "agent/engine/answer.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

/* Log-probabilities are rounded; a hair above zero is still one. */
#define LOGPROB_MAX      1e-3
#define NO_SENTENCE_TEXT "no body"

static struct baton_status malformed(const char *what, const char *field)
{
    return baton_status_make(BATON_ABORTED, BATON_REASON_MALFORMED, "the engine's answer: %s: %s",
                             field, what);
}

static struct baton_status lied(uint32_t rank, const char *what)
{
    return baton_status_hint(
        baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_LIED,
                          "entry %" PRIu32 " of the ranks' answers %s: the engine's reply channel "
                          "is out of step",
                          rank, what),
        "recreate the engine");
}

static json_t *parse(struct baton_bytes body)
{
    return json_loadb((const char *)body.data, body.size, JSON_REJECT_DUPLICATES, NULL);
}

/* Parses an object; the caller releases it. */
static struct baton_status parse_object(struct baton_bytes body, json_t **out)
{
    json_t *root = parse(body);
    if (!json_is_object(root)) {
        json_decref(root);
        return malformed("is not a JSON object", "body");
    }
    *out = root;
    return baton_status_ok();
}

/* Copies what fits, printable, not cutting a character of UTF-8 in two. */
static void text_cut(const char *text, size_t length, char *out, size_t out_bytes)
{
    size_t size = length < out_bytes - 1 ? length : out_bytes - 1;
    while (size < length && size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80) {
        size--;
    }
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        out[i] = byte < ' ' || byte == 0x7f ? ' ' : text[i];
    }
    out[size] = '\0';
}

static const json_t *error_sentence(const json_t *root)
{
    const json_t *error = json_object_get(root, "error");
    if (json_is_string(error)) {
        return error;
    }
    if (json_is_object(error)) {
        return json_object_get(error, "message");
    }
    return json_object_get(root, "detail");
}

void answer_error_text(struct baton_bytes body, char *out, size_t out_bytes)
{
    json_t *root = parse(body);
    const json_t *sentence = error_sentence(root);
    if (json_is_string(sentence)) {
        text_cut(json_string_value(sentence), json_string_length(sentence), out, out_bytes);
    } else if (body.size > 0) {
        text_cut((const char *)body.data, body.size, out, out_bytes);
    } else {
        text_cut(NO_SENTENCE_TEXT, sizeof NO_SENTENCE_TEXT - 1, out, out_bytes);
    }
    json_decref(root);
}

struct code_row {
    uint32_t http;
    enum baton_code code;
    const char *hint;
};

static const struct code_row CODES[] = {
    { 400, BATON_INVALID_ARGUMENT, "" },
    { 401, BATON_PERMISSION_DENIED,
      "give the agent the token file that the engine was started with" },
    { 403, BATON_PERMISSION_DENIED,
      "give the agent the token file that the engine was started with" },
    { 404, BATON_UNIMPLEMENTED,
      "start the engine with VLLM_SERVER_DEV_MODE=1, or use a newer one" },
    { 405, BATON_UNIMPLEMENTED, "use a newer engine" },
    { 409, BATON_FAILED_PRECONDITION, "" },
    { 413, BATON_RESOURCE_EXHAUSTED, "" },
    { 422, BATON_INVALID_ARGUMENT, "" },
    { 429, BATON_RESOURCE_EXHAUSTED, "" },
    { 503, BATON_UNAVAILABLE, "" },
};

struct baton_status answer_error(uint32_t code, struct baton_bytes body)
{
    struct code_row row = { code, BATON_ABORTED, "" };
    char text[BATON_TEXT_BYTES];
    for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++) {
        if (CODES[i].http == code) {
            row = CODES[i];
        }
    }
    answer_error_text(body, text, sizeof text);
    struct baton_status st = baton_status_make(row.code, BATON_REASON_ENGINE_REFUSED,
                                               "answered %" PRIu32 ": %s", code, text);
    return row.hint[0] != '\0' ? baton_status_hint(st, "%s", row.hint) : st;
}

/* --- members of objects ------------------------------------------------------------------------ */

static bool u64_of(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static bool u32_of(const json_t *value, uint32_t *out)
{
    uint64_t wide = 0;
    if (!u64_of(value, &wide) || wide > UINT32_MAX) {
        return false;
    }
    *out = (uint32_t)wide;
    return true;
}

/* A string that fits whole. */
static bool text_of(const json_t *value, char *out, size_t out_bytes)
{
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value) &&
           baton_text_copy(out, out_bytes, json_string_value(value));
}

static bool seconds_of(const json_t *object, const char *key, double *out)
{
    const json_t *value = json_object_get(object, key);
    *out = 0;
    if (value == NULL || json_is_null(value)) {
        return true;
    }
    *out = json_number_value(value);
    return json_is_number(value) && isfinite(*out) && *out >= 0 && *out < 1e9;
}

struct baton_status answer_bool(struct baton_bytes body, const char *key, bool *out)
{
    json_t *root = NULL;
    struct baton_status st = parse_object(body, &root);
    if (!baton_ok(&st)) {
        return st;
    }
    const json_t *value = json_object_get(root, key);
    if (json_is_boolean(value)) {
        *out = json_is_true(value);
    } else {
        st = malformed("must be true or false", key);
    }
    json_decref(root);
    return st;
}

struct baton_status answer_count(struct baton_bytes body, const char *key, uint32_t *out)
{
    json_t *root = NULL;
    struct baton_status st = parse_object(body, &root);
    if (!baton_ok(&st)) {
        return st;
    }
    if (!u32_of(json_object_get(root, key), out)) {
        st = malformed("must be an unsigned number of 32 bits", key);
    }
    json_decref(root);
    return st;
}

struct baton_status answer_text(struct baton_bytes body, const char *key, char *out,
                                size_t out_bytes)
{
    json_t *root = NULL;
    struct baton_status st = parse_object(body, &root);
    if (!baton_ok(&st)) {
        return st;
    }
    if (!text_of(json_object_get(root, key), out, out_bytes)) {
        st = malformed("must be a text that is not too long", key);
    }
    json_decref(root);
    return st;
}

/* --- whole answers ----------------------------------------------------------------------------- */

static bool gate_of(const json_t *value, enum guard_gate *out)
{
    static const char *const NAMES[] = {
        [GUARD_GATE_SHUT] = "shut", [GUARD_GATE_OPEN] = "open", [GUARD_GATE_HOLD] = "hold"
    };
    const char *text = json_string_value(value);
    for (unsigned i = 0; text != NULL && i < sizeof NAMES / sizeof NAMES[0]; i++) {
        if (strcmp(text, NAMES[i]) == 0) {
            *out = (enum guard_gate)i;
            return true;
        }
    }
    return false;
}

static struct baton_status guard_fill(const json_t *root, struct answer_guard *out)
{
    uint64_t kind = 0;
    uint8_t id[BATON_UID_BYTES];
    if (!u64_of(json_object_get(root, "guard"), &kind) || kind != 1) {
        return malformed("must be 1", "guard");
    }
    if (!gate_of(json_object_get(root, "gate"), &out->gate)) {
        return malformed("must be open, hold or shut", "gate");
    }
    if (!u64_of(json_object_get(root, "boots"), &out->boots)) {
        return malformed("must be an unsigned number", "boots");
    }
    if (!text_of(json_object_get(root, "bootId"), out->incarnation, sizeof out->incarnation) ||
        !baton_hex_decode(out->incarnation, id, sizeof id)) {
        return malformed("must have 32 hexadecimal digits", "bootId");
    }
    if (!u64_of(json_object_get(root, "version"), &out->version) ||
        !u32_of(json_object_get(root, "held"), &out->held) ||
        !u32_of(json_object_get(root, "active"), &out->active)) {
        return malformed("must be unsigned numbers", "version, held, active");
    }
    out->salt = json_is_true(json_object_get(root, "salt"));
    return baton_status_ok();
}

struct baton_status answer_guard(struct baton_bytes body, struct answer_guard *out)
{
    json_t *root = NULL;
    struct answer_guard guard = { 0 };
    struct baton_status st = parse_object(body, &root);
    if (!baton_ok(&st)) {
        return st;
    }
    st = guard_fill(root, &guard);
    json_decref(root);
    if (baton_ok(&st)) {
        *out = guard;
    }
    return st;
}

/* What is not there is no error: an engine without weight transfer has no backend. */
static void text_or_empty(const json_t *value, char *out, size_t out_bytes)
{
    out[0] = '\0';
    if (json_is_string(value)) {
        text_cut(json_string_value(value), json_string_length(value), out, out_bytes);
    }
}

static void flags_fill(const json_t *config, struct answer_server *out)
{
    const json_t *model = json_object_get(config, "model_config");
    const char *path = json_string_value(json_object_get(model, "model"));
    const char *name = json_string_value(json_object_get(model, "served_model_name"));
    const char *device =
        json_string_value(json_object_get(json_object_get(config, "device_config"), "device"));
    out->sleep_mode = json_is_true(json_object_get(model, "enable_sleep_mode"));
    out->compiled_on_cpu = device != NULL && strcmp(device, "cpu") == 0 &&
                           json_is_false(json_object_get(model, "enforce_eager"));
    out->named_by_path = path != NULL && name != NULL && path[0] == '/' && strcmp(path, name) == 0;
}

struct baton_status answer_server(struct baton_bytes body, struct answer_server *out)
{
    json_t *root = NULL;
    struct baton_status st = parse_object(body, &root);
    if (!baton_ok(&st)) {
        return st;
    }
    const json_t *config = json_object_get(root, "vllm_config");
    const json_t *transfer = json_object_get(config, "weight_transfer_config");
    if (json_is_object(config)) {
        text_or_empty(json_object_get(transfer, "backend"), out->backend, sizeof out->backend);
        text_or_empty(json_object_get(config, "instance_id"), out->instance, sizeof out->instance);
        out->external_kv = json_is_object(json_object_get(config, "kv_transfer_config"));
        flags_fill(config, out);
    } else {
        st = malformed("must be an object", "vllm_config");
    }
    json_decref(root);
    return st;
}

struct baton_status answer_model(struct baton_bytes body, char *out, size_t out_bytes)
{
    json_t *root = NULL;
    struct baton_status st = parse_object(body, &root);
    if (!baton_ok(&st)) {
        return st;
    }
    const json_t *first = json_array_get(json_object_get(root, "data"), 0);
    if (!text_of(json_object_get(first, "id"), out, out_bytes)) {
        st = malformed("must be a text that is not too long", "data[0].id");
    }
    json_decref(root);
    return st;
}

static struct baton_status logprobs_sum(const json_t *list, struct engine_probe *out)
{
    size_t count = json_array_size(list);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *each = json_array_get(list, i);
        double value = json_number_value(each);
        if (!json_is_number(each) || !isfinite(value) || value > LOGPROB_MAX) {
            return malformed("must be numbers <= 0", "choices[0].logprobs.token_logprobs");
        }
        sum += value;
    }
    if (count == 0 || count > UINT32_MAX) {
        return malformed("has no token", "choices[0].logprobs.token_logprobs");
    }
    out->tokens_count = (uint32_t)count;
    out->logprob_sum = sum;
    return baton_status_ok();
}

struct baton_status answer_probe(struct baton_bytes body, struct engine_probe *out)
{
    json_t *root = NULL;
    struct baton_status st = parse_object(body, &root);
    if (!baton_ok(&st)) {
        return st;
    }
    const json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
    const json_t *logprobs = json_object_get(choice, "logprobs");
    text_or_empty(json_object_get(choice, "text"), out->text, sizeof out->text);
    st = logprobs_sum(json_object_get(logprobs, "token_logprobs"), out);
    out->ok = baton_ok(&st);
    json_decref(root);
    return st;
}

struct baton_status answer_logprobs(struct baton_bytes body, size_t count, double *out)
{
    json_t *root = NULL;
    struct baton_status st = parse_object(body, &root);
    if (!baton_ok(&st)) {
        return st;
    }
    const json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
    const json_t *list = json_object_get(json_object_get(choice, "logprobs"), "token_logprobs");
    for (size_t i = 0; baton_ok(&st) && i < count; i++) {
        const json_t *each = json_array_get(list, i);
        out[i] = json_number_value(each);
        if (!json_is_number(each) || !isfinite(out[i])) {
            st = malformed("has too few numbers", "choices[0].logprobs.token_logprobs");
        }
    }
    json_decref(root);
    return st;
}

struct baton_status answer_nulls(struct baton_bytes body, uint32_t ranks)
{
    json_t *root = NULL;
    struct baton_status st = parse_object(body, &root);
    if (!baton_ok(&st)) {
        return st;
    }
    const json_t *results = json_object_get(root, "results");
    if (json_array_size(results) != ranks) {
        st = malformed("must have one entry for each rank", "results");
    }
    for (uint32_t rank = 0; baton_ok(&st) && rank < ranks; rank++) {
        if (!json_is_null(json_array_get(results, rank))) {
            st = lied(rank, "is not empty");
        }
    }
    json_decref(root);
    return st;
}

/* --- reports ----------------------------------------------------------------------------------- */

static struct baton_status bad_member(uint32_t rank, const char *part, const char *key)
{
    return baton_status_make(BATON_ABORTED, BATON_REASON_MALFORMED,
                             "the engine's report: rank %" PRIu32 ": %s.%s is missing or wrong",
                             rank, part, key);
}

static bool fence_of(const json_t *value, struct engine_fence *out)
{
    return json_array_size(value) == 5 && u64_of(json_array_get(value, 0), &out->generation) &&
           u64_of(json_array_get(value, 1), &out->n) &&
           u64_of(json_array_get(value, 2), &out->owner_term) &&
           u64_of(json_array_get(value, 3), &out->ticket) &&
           u64_of(json_array_get(value, 4), &out->step);
}

static bool level_of(const json_t *value, enum engine_level *out)
{
    static const char *const NAMES[] = { [ENGINE_LEVEL_NONE] = "none",
                                         [ENGINE_LEVEL_LANDED] = "landed",
                                         [ENGINE_LEVEL_COPIED] = "copied",
                                         [ENGINE_LEVEL_RESIDENT] = "resident" };
    const char *text = json_string_value(value);
    for (unsigned i = 0; text != NULL && i < sizeof NAMES / sizeof NAMES[0]; i++) {
        if (strcmp(text, NAMES[i]) == 0) {
            *out = (enum engine_level)i;
            return true;
        }
    }
    return false;
}

static bool digest_of(const json_t *value, char out[BATON_DIGEST_TEXT_BYTES])
{
    uint8_t digest[BATON_DIGEST_BYTES];
    return text_of(value, out, BATON_DIGEST_TEXT_BYTES) &&
           baton_hex_decode(out, digest, sizeof digest);
}

/* 'error' of a part: null, or code, message, and where it was. */
static bool error_of(const json_t *error, uint32_t rank, struct answer_part *out)
{
    out->error_rank = -1;
    if (error == NULL || json_is_null(error)) {
        return true;
    }
    if (!text_of(json_object_get(error, "code"), out->error_code, sizeof out->error_code)) {
        return false;
    }
    const json_t *where = json_object_get(error, "rank");
    text_or_empty(json_object_get(error, "message"), out->error_message, sizeof out->error_message);
    text_or_empty(json_object_get(error, "tensor"), out->error_tensor, sizeof out->error_tensor);
    uint32_t named = rank;
    if (json_is_integer(where) && (!u32_of(where, &named) || named >= ANSWER_RANKS_MAX)) {
        return false;
    }
    out->error_rank = (int32_t)named;
    return true;
}

/* Only for the reader of a failure: 'ok' says whether there are any. */
static void mismatched_fill(const json_t *names, struct answer_part *out)
{
    out->mismatched = (uint32_t)json_array_size(names);
    text_or_empty(json_array_get(names, 0), out->mismatched_first, sizeof out->mismatched_first);
}

static struct baton_status part_fill(const json_t *value, const char *name, uint32_t rank,
                                     struct answer_part *out)
{
    bool fenced = strcmp(name, "readback") != 0;
    const json_t *level = json_object_get(value, "level");
    const json_t *digest = json_object_get(value, "version_digest");
    out->error_rank = -1;
    if (value == NULL || json_is_null(value)) {
        return baton_status_ok();
    }
    if (!json_is_boolean(json_object_get(value, "ok"))) {
        return bad_member(rank, name, "ok");
    }
    out->present = true;
    out->ok = json_is_true(json_object_get(value, "ok"));
    out->restored = json_is_true(json_object_get(value, "restored"));
    /* Only a refusal may lack a digest: it may not even have understood the request. */
    if (!digest_of(digest, out->digest) && (out->ok || json_is_string(digest))) {
        return bad_member(rank, name, "version_digest");
    }
    if (fenced && !fence_of(json_object_get(value, "fence"), &out->fence) && out->ok) {
        return bad_member(rank, name, "fence");
    }
    if (!fenced && !level_of(level, &out->level) && out->ok) {
        return bad_member(rank, name, "level");
    }
    if (!error_of(json_object_get(value, "error"), rank, out)) {
        return bad_member(rank, name, "error");
    }
    mismatched_fill(json_object_get(value, "mismatched"), out);
    return baton_status_ok();
}

static struct baton_status resident_fill(const json_t *value, uint32_t rank,
                                         struct answer_rank *out)
{
    if (value == NULL || json_is_null(value)) {
        return baton_status_ok();
    }
    if (!digest_of(json_object_get(value, "version_digest"), out->resident_digest)) {
        return bad_member(rank, "resident", "version_digest");
    }
    if (!level_of(json_object_get(value, "level"), &out->resident_level)) {
        return bad_member(rank, "resident", "level");
    }
    return baton_status_ok();
}

static struct baton_status times_fill(const json_t *value, uint32_t rank, struct answer_rank *out)
{
    if (!seconds_of(value, "stage", &out->stage_s) || !seconds_of(value, "load", &out->load_s) ||
        !seconds_of(value, "finalize", &out->finalize_s) ||
        !seconds_of(value, "verify", &out->verify_s)) {
        return bad_member(rank, "seconds", "stage, load, finalize or verify");
    }
    return baton_status_ok();
}

/* An answer to something else, or of somebody else, is the sign of a channel out of step. */
static struct baton_status identity_check(const json_t *value, uint32_t rank, uint32_t ranks)
{
    uint32_t protocol = 0;
    uint32_t named = 0;
    uint32_t world = 0;
    if (!json_is_object(value) || !u32_of(json_object_get(value, "protocol"), &protocol)) {
        return lied(rank, "is no report");
    }
    if (protocol != ANSWER_PROTOCOL) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                              "the engine's plug-in speaks protocol %" PRIu32 ", not %d", protocol,
                              ANSWER_PROTOCOL),
            "install the plug-in of this release");
    }
    if (!u32_of(json_object_get(value, "rank"), &named) || named != rank) {
        return lied(rank, "is another rank's");
    }
    if (!u32_of(json_object_get(value, "world_size"), &world) || world != ranks) {
        return bad_member(rank, "report", "world_size");
    }
    return baton_status_ok();
}

/* A plug-in of before does not tell. */
static struct baton_status live_fill(const json_t *value, uint32_t rank, struct answer_rank *out)
{
    static const char older[] = "the engine's plug-in is older than live swaps";
    const json_t *live = json_object_get(value, "live");
    out->live = json_is_true(live);
    memcpy(out->live_why, older, sizeof older);
    if (live == NULL) {
        return baton_status_ok();
    }
    text_or_empty(json_object_get(value, "live_why"), out->live_why, sizeof out->live_why);
    return json_is_boolean(live) ? baton_status_ok() : bad_member(rank, "report", "live");
}

static struct baton_status rank_fill(const json_t *value, uint32_t rank, uint32_t ranks,
                                     struct answer_rank *out)
{
    struct baton_status st = identity_check(value, rank, ranks);
    if (!baton_ok(&st)) {
        return st;
    }
    if (!json_is_boolean(json_object_get(value, "session"))) {
        return bad_member(rank, "report", "session");
    }
    out->session = json_is_true(json_object_get(value, "session"));
    /* Null: it has seen none yet. */
    const json_t *fence = json_object_get(value, "fence");
    if (!json_is_null(fence) && !fence_of(fence, &out->fence)) {
        return bad_member(rank, "report", "fence");
    }
    st = part_fill(json_object_get(value, "staged"), "staged", rank, &out->staged);
    if (baton_ok(&st)) {
        st = part_fill(json_object_get(value, "applied"), "applied", rank, &out->applied);
    }
    if (baton_ok(&st)) {
        st = part_fill(json_object_get(value, "readback"), "readback", rank, &out->readback);
    }
    if (baton_ok(&st)) {
        st = resident_fill(json_object_get(value, "resident"), rank, out);
    }
    if (baton_ok(&st)) {
        st = live_fill(value, rank, out);
    }
    if (baton_ok(&st)) {
        st = times_fill(json_object_get(value, "seconds"), rank, out);
    }
    return st;
}

struct baton_status answer_report(struct baton_bytes body, uint32_t ranks,
                                  struct answer_report *out)
{
    json_t *root = NULL;
    if (ranks == 0 || ranks > ANSWER_RANKS_MAX) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "an engine of %" PRIu32 " ranks; the limit is %d", ranks,
                                 ANSWER_RANKS_MAX);
    }
    struct baton_status st = parse_object(body, &root);
    if (!baton_ok(&st)) {
        return st;
    }
    const json_t *results = json_object_get(root, "results");
    memset(out, 0, sizeof *out);
    if (json_array_size(results) != ranks) {
        st = malformed("must have one entry for each rank", "results");
    }
    for (uint32_t rank = 0; baton_ok(&st) && rank < ranks; rank++) {
        st = rank_fill(json_array_get(results, rank), rank, ranks, &out->ranks[rank]);
    }
    json_decref(root);
    if (baton_ok(&st)) {
        out->ranks_count = ranks;
    }
    return st;
}
