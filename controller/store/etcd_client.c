/* etcd_client.c -- see etcd_client.h. */
#include "controller/store/etcd_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/base/log.h"
#include "controller/store/etcd_http.h"
#include "controller/store/etcd_text.h"

enum {
    TRIES_OF_TIMEOUT = 3, /* One try lasts at most this part of an operation; but see is_late(). */
    ROUND_PAUSE_MS = 50,  /* After all members failed. */
    AGAIN_MS_MIN = 20,    /* Less is no try: it would only hide why the one before failed. */
    LOGINS_MAX = 2,       /* In one call. */
    PASSWORD_BYTES = 1024,
};

struct etcd_client {
    const struct etcd_address *address;
    struct etcd_http *http;
    uint32_t endpoint; /* The one that is asked first. */
    bool logged_in;
    bool once;    /* One try at each member. */
    bool patient; /* A try may last as long as there is time: see is_late(). */
    uint64_t cluster_id;
};

/* One call under way. */
struct attempt {
    const char *path;
    enum etcd_call_kind kind;
    struct baton_bytes body;
    uint64_t deadline_ns;
    uint32_t logins;
    uint32_t failures;
    bool away;                /* A try failed otherwise than by what must be set right. */
    struct baton_status last; /* Why the last try failed. */
};

static struct baton_status check_file(const char *name, const char *path)
{
    FILE *file = path[0] == '\0' ? NULL : fopen(path, "re");
    if (file == NULL && path[0] != '\0') {
        return baton_status_hint(
            baton_status_in(baton_status_errno(errno, "open", path), "store: %s", name),
            "this process must be able to read what %s= of the store's address names", name);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return baton_status_ok();
}

static struct baton_status check_files(const struct etcd_address *address)
{
    struct baton_status st = check_file("ca", address->ca);
    st = baton_ok(&st) ? check_file("cert", address->cert) : st;
    st = baton_ok(&st) ? check_file("key", address->key) : st;
    return baton_ok(&st) ? check_file("passwordFile", address->password_file) : st;
}

struct baton_status etcd_client_open(const struct etcd_address *address, struct etcd_client **out)
{
    struct baton_status st = check_files(address);
    if (!baton_ok(&st)) {
        return st;
    }
    struct etcd_client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                 "store: out of memory");
    }
    client->address = address;
    client->cluster_id = address->cluster;
    st = etcd_http_open(address, &client->http);
    if (!baton_ok(&st)) {
        free(client);
        return st;
    }
    *out = client;
    return st;
}

void etcd_client_close(struct etcd_client *client)
{
    if (client != NULL) {
        etcd_http_close(client->http);
        free(client);
    }
}

void etcd_client_try_once(struct etcd_client *client, bool once)
{
    client->once = once;
}

uint64_t etcd_client_deadline_ns(const struct etcd_client *client)
{
    return baton_clock_monotonic_ns() + client->address->timeout_ms * BATON_NS_PER_MS;
}

void etcd_client_pin(struct etcd_client *client, uint64_t cluster)
{
    client->cluster_id = client->cluster_id == 0 ? cluster : client->cluster_id;
}

uint64_t etcd_client_cluster(const struct etcd_client *client)
{
    return client->cluster_id;
}

static uint64_t left_ms(uint64_t deadline_ns)
{
    uint64_t now = baton_clock_monotonic_ns();
    return now >= deadline_ns ? 0 : (deadline_ns - now) / BATON_NS_PER_MS;
}

static uint64_t part_ms(const struct etcd_client *client)
{
    return client->address->timeout_ms / TRIES_OF_TIMEOUT;
}

static uint64_t try_ms(const struct etcd_client *client, uint64_t deadline_ns)
{
    uint64_t left = left_ms(deadline_ns);
    uint64_t most = part_ms(client);
    return left < most || client->patient ? left : most;
}

/* --- login --- */

static struct baton_status read_password(const char *path, char out[PASSWORD_BYTES])
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return baton_status_in(baton_status_errno(errno, "open", path), "store: passwordFile");
    }
    (void)setvbuf(file, NULL, _IONBF, 0); /* No copy stays in a buffer. */
    bool ok = fgets(out, PASSWORD_BYTES, file) != NULL;
    (void)fclose(file);
    out[ok ? strcspn(out, "\r\n") : 0] = '\0';
    return ok && out[0] != '\0'
               ? baton_status_ok()
               : baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                   "store: passwordFile %s: its first line is empty", path);
}

/* JSON text of a word that people choose. */
static void add_quoted(struct etcd_text *text, const char *word)
{
    etcd_text_add(text, "\"");
    for (const char *at = word; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ') {
            etcd_text_format(text, "\\u%04x", (unsigned)(unsigned char)*at);
        } else {
            etcd_text_bytes(text, at, 1);
        }
    }
    etcd_text_add(text, "\"");
}

static enum etcd_verdict post(struct etcd_client *client, const char *path, struct baton_bytes body,
                              uint64_t deadline_ns, struct etcd_answer *out,
                              struct baton_status *why);

static enum etcd_verdict log_in(struct etcd_client *client, uint64_t deadline_ns,
                                struct baton_status *why)
{
    char password[PASSWORD_BYTES];
    struct etcd_text body = { 0 };
    struct etcd_answer answer = { 0 };
    *why = read_password(client->address->password_file, password);
    if (!baton_ok(why)) {
        return ETCD_REFUSED;
    }
    *why =
        etcd_http_set_token(client->http, ""); /* etcd refuses a login that carries an old one. */
    if (!baton_ok(why)) {
        explicit_bzero(password, sizeof(password));
        return ETCD_ELSEWHERE;
    }
    etcd_text_add(&body, "{\"name\":");
    add_quoted(&body, client->address->user);
    etcd_text_add(&body, ",\"password\":");
    add_quoted(&body, password);
    etcd_text_add(&body, "}");
    explicit_bzero(password, sizeof(password));
    enum etcd_verdict verdict = ETCD_ELSEWHERE;
    if (!body.failed) {
        struct baton_bytes bytes = { (const uint8_t *)body.data, body.size };
        verdict = post(client, "auth/authenticate", bytes, deadline_ns, &answer, why);
    }
    if (verdict == ETCD_FINE) {
        *why = etcd_http_set_token(client->http, answer.token);
        client->logged_in = baton_ok(why);
        verdict = client->logged_in ? ETCD_FINE : ETCD_ELSEWHERE;
    }
    etcd_answer_free(&answer);
    etcd_text_free(&body);
    return verdict == ETCD_DOUBT ? ETCD_ELSEWHERE : verdict;
}

/* --- one try --- */

/* A member that was set up anew is a cluster of its own, with other data. */
static bool is_ours(struct etcd_client *client, const struct etcd_answer *answer)
{
    if (client->cluster_id == 0) {
        client->cluster_id = answer->cluster_id;
    }
    return answer->cluster_id != 0 && answer->cluster_id == client->cluster_id;
}

static struct baton_status foreign(const struct etcd_client *client, const char *endpoint,
                                   const struct etcd_answer *answer)
{
    return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                                               "etcd %s belongs to another cluster, %llx, not to "
                                               "%llx",
                                               endpoint, (unsigned long long)answer->cluster_id,
                                               (unsigned long long)client->cluster_id),
                             "a replaced member must join with --initial-cluster-state=existing; "
                             "after a restore start the controller again (and take a cluster= out "
                             "of the store's address)");
}

static enum etcd_verdict judge(struct etcd_client *client, const char *endpoint,
                               const struct etcd_reply *reply, struct etcd_answer *out,
                               struct baton_status *why)
{
    *why = etcd_answer_parse(reply->body, out);
    if (!baton_ok(why)) {
        *why = baton_status_in(*why, "etcd %s: HTTP %ld", endpoint, reply->code);
        return reply->code == 404 ? ETCD_REFUSED : ETCD_DOUBT;
    }
    enum etcd_verdict verdict = etcd_answer_judge(out, reply->code, why);
    if (verdict == ETCD_FINE && !is_ours(client, out)) {
        *why = foreign(client, endpoint, out);
        return ETCD_ELSEWHERE; /* Nothing was done to ours. */
    }
    if (verdict != ETCD_FINE) {
        *why = baton_status_in(*why, "%s", endpoint);
    }
    return verdict;
}

static enum etcd_verdict post(struct etcd_client *client, const char *path, struct baton_bytes body,
                              uint64_t deadline_ns, struct etcd_answer *out,
                              struct baton_status *why)
{
    struct etcd_reply reply;
    *why = etcd_http_post(client->http, client->endpoint, path, body, try_ms(client, deadline_ns),
                          &reply);
    switch (reply.sent) {
    case ETCD_NOT_SENT: return ETCD_ELSEWHERE;
    case ETCD_NO_ANSWER: return ETCD_DOUBT;
    case ETCD_TOO_LONG: return ETCD_REFUSED;
    case ETCD_ANSWERED: break;
    }
    return judge(client, client->address->endpoints[client->endpoint], &reply, out, why);
}

static enum etcd_verdict try_once(struct etcd_client *client, struct attempt *attempt,
                                  struct etcd_answer *out)
{
    if (client->address->user[0] != '\0' && !client->logged_in) {
        if (attempt->logins == LOGINS_MAX) {
            return ETCD_REFUSED; /* With what 'last' says. */
        }
        enum etcd_verdict verdict = log_in(client, attempt->deadline_ns, &attempt->last);
        if (verdict != ETCD_ELSEWHERE) { /* Members that do not serve are passed over. */
            attempt->logins++;
        }
        if (verdict != ETCD_FINE) {
            return verdict;
        }
    }
    return post(client, attempt->path, attempt->body, attempt->deadline_ns, out, &attempt->last);
}

/* --- all members --- */

static void next_endpoint(struct etcd_client *client, struct attempt *attempt)
{
    baton_log_status(BATON_LOG_DEBUG, "store", "a member of etcd does not serve", &attempt->last);
    client->endpoint = (client->endpoint + 1) % client->address->endpoints_count;
    attempt->failures++;
    attempt->away = attempt->away || attempt->last.code != BATON_FAILED_PRECONDITION;
    if (!client->once && attempt->failures % client->address->endpoints_count == 0) {
        uint64_t left = left_ms(attempt->deadline_ns);
        baton_clock_sleep_ns((left < ROUND_PAUSE_MS ? left : ROUND_PAUSE_MS) * BATON_NS_PER_MS);
    }
}

static struct baton_status in_doubt(struct attempt *attempt)
{
    struct baton_status st = attempt->last;
    st.code = BATON_DEADLINE_EXCEEDED;
    st.reason = BATON_REASON_STORE_UNAVAILABLE;
    return st;
}

static bool may_try(const struct etcd_client *client, const struct attempt *attempt)
{
    return !client->once || attempt->failures < client->address->endpoints_count;
}

/* Time is up, or each had its try, and nothing was done. */
static struct baton_status nobody_serves(const struct etcd_client *client, struct attempt *attempt)
{
    struct baton_status st = attempt->last;
    if (baton_ok(&st)) {
        st = baton_status_hint(baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                                 "etcd: no time left to ask"),
                               "etcd answers, but slowly: look at its disk's fsync times");
    } else if (st.code != BATON_FAILED_PRECONDITION || (client->once && attempt->away)) {
        st.code = BATON_UNAVAILABLE;
        st.reason = BATON_REASON_STORE_UNAVAILABLE;
    }
    if (client->once) {
        return baton_status_in(st, "etcd: no endpoint served, of %u; the last",
                               client->address->endpoints_count);
    }
    return baton_status_in(st, "none of %u endpoints serves within %u ms; the last",
                           client->address->endpoints_count, client->address->timeout_ms);
}

/* Tries are short so that a member that is silent costs little. Where all are slow, short tries would never see an answer: after an
 * operation without one the next one waits as long as it may, and so does each after a late answer. Failures take turns, so that of
 * two operations one at least passes over silent members. */
static bool is_late(const struct etcd_client *client, uint64_t sent_ns)
{
    return baton_clock_monotonic_ns() - sent_ns > part_ms(client) * BATON_NS_PER_MS;
}

struct baton_status etcd_client_call(struct etcd_client *client, const char *path,
                                     enum etcd_call_kind kind, struct baton_bytes body,
                                     uint64_t deadline_ns, struct etcd_answer *out)
{
    struct attempt attempt = {
        .path = path, .kind = kind, .body = body, .deadline_ns = deadline_ns
    };
    attempt.last = baton_status_ok();
    *out = (struct etcd_answer){ 0 };
    while (left_ms(deadline_ns) > (attempt.failures > 0 ? AGAIN_MS_MIN : 0) &&
           may_try(client, &attempt)) {
        etcd_answer_free(out);
        uint64_t sent_ns = baton_clock_monotonic_ns();
        switch (try_once(client, &attempt, out)) {
        case ETCD_FINE: client->patient = is_late(client, sent_ns); return baton_status_ok();
        case ETCD_REFUSED: return attempt.last;
        case ETCD_LOGIN:
            client->logged_in = false;
            if (client->address->user[0] == '\0') {
                return attempt.last;
            }
            break;
        case ETCD_DOUBT:
            next_endpoint(client, &attempt);
            if (kind == ETCD_CALL_WRITE) {
                client->patient = !client->patient;
                return in_doubt(&attempt);
            }
            break;
        case ETCD_ELSEWHERE: next_endpoint(client, &attempt); break;
        }
    }
    client->patient = !client->patient;
    return nobody_serves(client, &attempt);
}

struct baton_status etcd_client_watch(struct etcd_client *client, uint32_t endpoint,
                                      struct baton_bytes body, struct etcd_stream **out)
{
    struct baton_status st = baton_status_ok();
    if (client->address->user[0] != '\0') { /* What ended the last watch may have been its token. */
        client->logged_in = false;
        if (log_in(client, etcd_client_deadline_ns(client), &st) != ETCD_FINE) {
            client->endpoint = (client->endpoint + 1) % client->address->endpoints_count;
            return st;
        }
    }
    return etcd_stream_open(client->http, endpoint, "watch", body, out);
}
