/* pattern.c -- see pattern.h. */
#include "controller/shell/pattern.h"

#include <string.h>

static const char SPIFFE[] = "spiffe://";
static const char ACCOUNT[] = RPC_ACCOUNT_PREFIX;

/* A pattern or a text without its terminator, and how to compare. */
struct span {
    const char *text;
    size_t size;
};

/* "{1}" at 'at': the capture that it names; null: it is no such thing. */
static const struct pattern_text *capture_at(struct span pattern, size_t at,
                                             const struct pattern_captures *captures)
{
    if (captures == NULL || pattern.size - at < 3 || pattern.text[at] != '{' ||
        pattern.text[at + 2] != '}' || pattern.text[at + 1] < '1') {
        return NULL;
    }
    size_t index = (size_t)(pattern.text[at + 1] - '1');
    return index < captures->count ? &captures->items[index] : NULL;
}

/* Bytes that the pattern matches besides those of its '*'. */
static size_t fixed_bytes(struct span pattern, const struct pattern_captures *captures)
{
    size_t bytes = 0;
    for (size_t at = 0; at < pattern.size;) {
        const struct pattern_text *capture = capture_at(pattern, at, captures);
        bytes += capture != NULL ? capture->size : pattern.text[at] != '*';
        at += capture != NULL ? 3 : 1;
    }
    return bytes;
}

static char folded(char c, bool fold)
{
    return fold && c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_same(const char *a, const char *b, size_t size, bool fold)
{
    for (size_t i = 0; i < size; i++) {
        if (folded(a[i], fold) != folded(b[i], fold)) {
            return false;
        }
    }
    return true;
}

/* One '*' at most, so its length is what the rest leaves over. */
static bool match(struct span pattern, struct span text, bool fold,
                  const struct pattern_captures *captures, struct pattern_text *star)
{
    size_t fixed = fixed_bytes(pattern, captures);
    bool has_star = memchr(pattern.text, '*', pattern.size) != NULL;
    if (has_star ? text.size <= fixed : text.size != fixed) {
        return false;
    }
    const char *at = text.text;
    for (size_t i = 0; i < pattern.size;) {
        const struct pattern_text *capture = capture_at(pattern, i, captures);
        const char *literal = capture != NULL ? capture->text : pattern.text + i;
        bool is_star = capture == NULL && pattern.text[i] == '*';
        size_t size = is_star ? text.size - fixed : capture != NULL ? capture->size : 1;
        if (is_star) {
            *star = (struct pattern_text){ at, size };
        } else if (!is_same(literal, at, size, fold)) {
            return false;
        }
        at += size;
        i += capture != NULL ? 3 : 1;
    }
    return true;
}

/* The part up to the next separator; moves '*at' behind it, or to null after the last one. */
static struct span next_part(const char **at, char separator)
{
    const char *begin = *at;
    const char *end = strchr(begin, separator);
    size_t size = end != NULL ? (size_t)(end - begin) : strlen(begin);
    *at = end != NULL ? end + 1 : NULL;
    return (struct span){ begin, size };
}

static enum rpc_name_kind kind_of(const char *pattern)
{
    return strncmp(pattern, SPIFFE, sizeof(SPIFFE) - 1) == 0     ? RPC_NAME_SPIFFE
           : strncmp(pattern, ACCOUNT, sizeof(ACCOUNT) - 1) == 0 ? RPC_NAME_ACCOUNT
                                                                 : RPC_NAME_DNS;
}

static const char SEPARATORS[] = {
    [RPC_NAME_DNS] = '.', [RPC_NAME_SPIFFE] = '/', [RPC_NAME_ACCOUNT] = ':'
};

bool pattern_match_identity(const char *pattern, enum rpc_name_kind kind, const char *identity,
                            struct pattern_captures *out)
{
    char separator = SEPARATORS[kind];
    out->count = 0;
    if (kind != kind_of(pattern)) {
        return false;
    }
    while (pattern != NULL && identity != NULL) {
        struct span part = next_part(&pattern, separator);
        struct pattern_text star = { NULL, 0 };
        if (!match(part, next_part(&identity, separator), kind == RPC_NAME_DNS, NULL, &star)) {
            return false;
        }
        if (star.text != NULL && out->count < PATTERN_STARS_MAX) {
            out->items[out->count++] = star;
        }
    }
    return pattern == NULL && identity == NULL;
}

static bool has_separator(struct pattern_text star, char c)
{
    return (c == '-' || c == '.') && memchr(star.text, c, star.size) != NULL;
}

/* What the '*' matched keeps off the separators next to captures: else "{1}-*" of "node" would match what belongs
 * to "node-7". */
static bool is_apart(struct span pattern, struct pattern_text star,
                     const struct pattern_captures *captures)
{
    const char *star_at = memchr(pattern.text, '*', pattern.size);
    for (size_t at = 0; at < pattern.size; at++) {
        bool is_before = pattern.text + at < star_at;
        if (capture_at(pattern, at, captures) != NULL &&
            has_separator(star, is_before ? pattern.text[at + 3] : pattern.text[at - 1])) {
            return false;
        }
    }
    return true;
}

bool pattern_match_name(const char *pattern, const char *name,
                        const struct pattern_captures *captures)
{
    struct pattern_text star = { NULL, 0 };
    struct span span = { pattern, strlen(pattern) };
    return match(span, (struct span){ name, strlen(name) }, false, captures, &star) &&
           (star.text == NULL || is_apart(span, star, captures));
}

size_t pattern_stars(const char *pattern)
{
    size_t count = 0;
    for (; *pattern != '\0'; pattern++) {
        count += *pattern == '*';
    }
    return count;
}

static bool has_strange_character(const char *pattern)
{
    for (; *pattern != '\0'; pattern++) {
        if (*pattern <= ' ' || *pattern > '~') {
            return true;
        }
    }
    return false;
}

static const char *spiffe_fault(const char *trust_domain)
{
    if (trust_domain[0] == '/' || strchr(trust_domain, '/') == NULL) {
        return "must have a trust domain and a path: spiffe://trust-domain/path";
    }
    if (memchr(trust_domain, '*', strcspn(trust_domain, "/")) != NULL) {
        return "its trust domain must be written out, without '*'";
    }
    return NULL;
}

static const char *account_fault(const char *space)
{
    const char *name = strchr(space, ':');
    bool is_one = name != NULL && name != space && name[1] != '\0' && strchr(name + 1, ':') == NULL;
    return is_one ? NULL : "must be system:serviceaccount:NAMESPACE:NAME";
}

/* Of the whole, by its kind. */
static const char *shape_fault(const char *pattern, enum rpc_name_kind kind)
{
    switch (kind) {
    case RPC_NAME_SPIFFE: return spiffe_fault(pattern + sizeof(SPIFFE) - 1);
    case RPC_NAME_ACCOUNT: return account_fault(pattern + sizeof(ACCOUNT) - 1);
    case RPC_NAME_DNS: break;
    }
    return strpbrk(pattern, "/:") == NULL ? NULL
                                          : "must be a SPIFFE id (spiffe://trust-domain/path), a "
                                            "DNS name or a service account "
                                            "(system:serviceaccount:NAMESPACE:NAME)";
}

const char *pattern_identity_fault(const char *pattern)
{
    static const char *const twice[] = { [RPC_NAME_DNS] = "has two '*' between two '.'",
                                         [RPC_NAME_SPIFFE] = "has two '*' between two '/'",
                                         [RPC_NAME_ACCOUNT] = "has two '*' between two ':'" };
    enum rpc_name_kind kind = kind_of(pattern);
    if (pattern[0] == '\0' || has_strange_character(pattern)) {
        return "must be printable ASCII without spaces";
    }
    const char *fault = shape_fault(pattern, kind);
    if (fault != NULL) {
        return fault;
    }
    if (pattern_stars(pattern) > PATTERN_STARS_MAX) {
        return "has more than 4 '*'";
    }
    for (const char *at = pattern; at != NULL;) {
        struct span part = next_part(&at, SEPARATORS[kind]);
        const char *star = memchr(part.text, '*', part.size);
        if (star != NULL &&
            memchr(star + 1, '*', part.size - (size_t)(star + 1 - part.text)) != NULL) {
            return twice[kind];
        }
    }
    return NULL;
}

const char *pattern_name_fault(const char *pattern, size_t stars)
{
    if (pattern[0] == '\0' || has_strange_character(pattern)) {
        return "must be printable ASCII without spaces";
    }
    if (pattern_stars(pattern) > 1) {
        return "has more than one '*'";
    }
    for (const char *at = strchr(pattern, '{'); at != NULL; at = strchr(at + 1, '{')) {
        if (at[1] < '1' || at[1] > '4' || at[2] != '}') {
            return "'{' begins {1} to {4}: what a '*' of the identity matched";
        }
        if ((size_t)(at[1] - '0') > stars) {
            return "names a '*' that the identity does not have";
        }
    }
    return NULL;
}
