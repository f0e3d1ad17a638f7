/* etcd_address.c -- see etcd_address.h. */
#include "controller/store/etcd_address.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"

enum {
    TIMEOUT_MS_DEFAULT = 4000,
    TXN_OPS_DEFAULT = 128,
    REQUEST_BYTES_DEFAULT = 1 << 20,
    NAME_BYTES = 24,
    VALUE_BYTES = BATON_PATH_BYTES,
};

/* The names of the header.  A text has room for 'most' bytes; a number is from 'least' to 'most'. */
struct option {
    const char *name;
    size_t offset;
    bool number;
    unsigned long least;
    unsigned long most;
};

#define TEXT(name_, member_)                                                                       \
    {                                                                                              \
        name_, offsetof(struct etcd_address, member_), false, 0,                                   \
            sizeof(((struct etcd_address *)NULL)->member_)                                         \
    }
#define NUMBER(name_, member_, least_, most_)                                                      \
    {                                                                                              \
        name_, offsetof(struct etcd_address, member_), true, least_, most_                         \
    }

static const struct option options[] = {
    TEXT("ca", ca),
    TEXT("cert", cert),
    TEXT("key", key),
    TEXT("user", user),
    TEXT("passwordFile", password_file),
    NUMBER("timeoutMs", timeout_ms, 300, TIMEOUT_MS_DEFAULT), /* Twice it is within a lease. */
    NUMBER("maxTxnOps", max_txn_ops, 8, 100000),              /* etcd_find() takes 6. */
    /* The events of one commit are keys of 48 KiB and an event, 4/3 of that in base64. */
    NUMBER("maxRequestBytes", max_request_bytes, 128 << 10, 8 << 20),
};

static struct baton_status bad(const char *what, const char *value)
{
    return baton_status_hint(baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                               "store: etcd address: %s%s%.200s", what,
                                               value[0] == '\0' ? "" : ": ", value),
                             "write etcd:https://a:2379,https://b:2379/prefix?ca=FILE&user=NAME&"
                             "passwordFile=FILE (deploy/docs/etcd.md)");
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_loopback(const char *host)
{
    return starts(host, "127.") || starts(host, "localhost:") || starts(host, "[::1]:");
}

/* "host:port", the host perhaps in brackets. */
static bool has_port(const char *host)
{
    const char *colon = strrchr(host, ':');
    const char *bracket = strrchr(host, ']');
    if (colon == NULL || colon == host || (bracket != NULL && bracket > colon)) {
        return false;
    }
    size_t digits = strspn(colon + 1, "0123456789");
    return digits >= 1 && digits <= 5 && colon[1 + digits] == '\0';
}

static struct baton_status check_endpoint(const char *url, const char *first)
{
    bool plain = starts(url, "http://");
    if (!plain && !starts(url, "https://")) {
        return bad("an endpoint does not begin with http:// or https://", url);
    }
    if (plain != starts(first, "http://")) {
        return bad("endpoints are partly http and partly https", url);
    }
    if (!has_port(strstr(url, "://") + 3)) {
        return bad("an endpoint names no port", url);
    }
    return baton_status_ok();
}

static struct baton_status take_endpoint(struct etcd_address *out, const char *url, size_t bytes)
{
    if (out->endpoints_count == ETCD_ENDPOINTS_MAX || bytes >= ETCD_URL_BYTES) {
        return bad("more than 9 endpoints, or a longer one than 271 bytes", "");
    }
    char *place = out->endpoints[out->endpoints_count++];
    memcpy(place, url, bytes);
    place[bytes] = '\0';
    return check_endpoint(place, out->endpoints[0]);
}

/* All up to '?': the endpoints, and behind the last one the prefix. */
static struct baton_status take_head(struct etcd_address *out, const char *head)
{
    struct baton_status st = baton_status_ok();
    bool more = true;
    while (baton_ok(&st) && more) {
        const char *scheme = strstr(head, "://");
        const char *host = scheme == NULL ? head : scheme + 3;
        const char *end = host + strcspn(host, ",/?");
        st = take_endpoint(out, head, (size_t)(end - head));
        more = *end == ',';
        head = more ? end + 1 : end;
    }
    size_t bytes = strcspn(head, "?");
    while (bytes > 0 && head[bytes - 1] == '/') {
        bytes--;
    }
    if (baton_ok(&st) && bytes >= ETCD_PREFIX_BYTES) {
        return bad("the prefix is longer than 127 bytes", "");
    }
    if (bytes > 0) {
        memcpy(out->prefix, head, bytes);
        out->prefix[bytes] = '\0';
    }
    return st;
}

static const struct option *find_option(const char *name)
{
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (strcmp(options[i].name, name) == 0) {
            return &options[i];
        }
    }
    return NULL;
}

static struct baton_status take_number(const struct option *option, const char *value,
                                       struct etcd_address *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long number = strtoul(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || number < option->least ||
        number > option->most) {
        return baton_status_in(bad("not a number that it may be", value), "%s", option->name);
    }
    uint32_t small = (uint32_t)number;
    memcpy((char *)out + option->offset, &small, sizeof(small));
    return baton_status_ok();
}

static struct baton_status take_cluster(const char *value, struct etcd_address *out)
{
    size_t digits = strspn(value, "0123456789abcdef");
    bool ok = digits >= 1 && digits <= 16 && value[digits] == '\0';
    out->cluster = ok ? strtoull(value, NULL, 16) : 0;
    return out->cluster != 0 ? baton_status_ok()
                             : bad("cluster is no id of etcd, up to 16 hexadecimal digits", value);
}

static struct baton_status take_option(const char *name, const char *value,
                                       struct etcd_address *out)
{
    if (strcmp(name, "insecure") == 0) {
        out->insecure = strcmp(value, "true") == 0;
        return out->insecure || strcmp(value, "false") == 0
                   ? baton_status_ok()
                   : bad("insecure is neither true nor false", value);
    }
    if (strcmp(name, "cluster") == 0) {
        return take_cluster(value, out);
    }
    const struct option *option = find_option(name);
    if (option == NULL) {
        return bad("there is no option of this name", name);
    }
    if (option->number) {
        return take_number(option, value, out);
    }
    return value[0] != '\0' && baton_text_copy((char *)out + option->offset, option->most, value)
               ? baton_status_ok()
               : bad("an option's value is empty or too long", name);
}

static struct baton_status take_options(const char *text, struct etcd_address *out)
{
    struct baton_status st = baton_status_ok();
    while (baton_ok(&st) && *text != '\0') {
        char name[NAME_BYTES] = "";
        char value[VALUE_BYTES] = "";
        size_t bytes = strcspn(text, "&");
        size_t name_bytes = strcspn(text, "=&");
        if (name_bytes == bytes || name_bytes >= sizeof(name) ||
            bytes - name_bytes > sizeof(value)) {
            return bad("an option is not NAME=VALUE, or is too long", "");
        }
        memcpy(name, text, name_bytes);
        memcpy(value, text + name_bytes + 1, bytes - name_bytes - 1);
        st = take_option(name, value, out);
        text += bytes + (text[bytes] == '&');
    }
    return st;
}

/* What only makes sense together. */
static struct baton_status check_whole(const struct etcd_address *address)
{
    bool plain = starts(address->endpoints[0], "http://");
    for (uint32_t i = 0; plain && !address->insecure && i < address->endpoints_count; i++) {
        if (!is_loopback(address->endpoints[i] + strlen("http://"))) {
            return bad("plain http leaves the machine; use https, or say insecure=true",
                       address->endpoints[i]);
        }
    }
    if ((address->cert[0] == '\0') != (address->key[0] == '\0')) {
        return bad("cert and key go together", "");
    }
    if ((address->user[0] == '\0') != (address->password_file[0] == '\0')) {
        return bad("user and passwordFile go together", "");
    }
    if (plain && (address->ca[0] != '\0' || address->cert[0] != '\0')) {
        return bad("ca and cert need https", "");
    }
    return baton_status_ok();
}

struct baton_status etcd_address_parse(const char *text, struct etcd_address *out)
{
    *out = (struct etcd_address){ .prefix = "/baton",
                                  .timeout_ms = TIMEOUT_MS_DEFAULT,
                                  .max_txn_ops = TXN_OPS_DEFAULT,
                                  .max_request_bytes = REQUEST_BYTES_DEFAULT };
    size_t head = strcspn(text, "?");
    if (memchr(text, '@', head) != NULL) {
        return bad("no user information belongs into it; use user= and passwordFile=", "");
    }
    struct baton_status st = take_head(out, text);
    if (baton_ok(&st) && text[head] == '?') {
        st = take_options(text + head + 1, out);
    }
    return baton_ok(&st) ? check_whole(out) : st;
}
