/* dashboard_fuzz.c -- what callers send the bridge: paths, hosts, origins, bodies of every request; what is accepted must be written
 * again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "controller/dashboard/bridge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds) {
        abort();
    }
}

static char *text_of(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    check(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

static void try_path(const char *path)
{
    char method[BRIDGE_METHOD_BYTES];
    struct rpc_shape shape;
    if (bridge_method_of(path, method)) {
        check(strncmp(method, "baton.v1.", 9) == 0 && strlen(method) < BRIDGE_METHOD_BYTES);
        (void)rpc_shape_find(method, &shape);
    }
}

/* No page of another origin is let in. */
static void try_origin(const char *text, bool is_local)
{
    const char *split = strchr(text, '\n');
    char *host =
        text_of((const uint8_t *)text, split != NULL ? (size_t)(split - text) : strlen(text));
    struct baton_status st = bridge_check_origin(host, split != NULL ? split + 1 : NULL, is_local);
    if (baton_ok(&st)) {
        check(split == NULL || strcmp(split + 1 + strlen("http://"), host) == 0);
    }
    free(host);
}

static void try_body(uint8_t kind, struct baton_bytes body)
{
    size_t count = 0;
    const ProtobufCMessageDescriptor *const *types = baton_wire_messages(&count);
    ProtobufCMessage *message = NULL;
    struct baton_status st = bridge_read_body(body, types[kind % count], &message);
    if (baton_ok(&st)) {
        char *text = bridge_event_text(message);
        size_t size = strlen(text);
        check(size > 2 && strcmp(text + size - 2, "\n\n") == 0); /* One event, and no more. */
        check(strstr(text, "\n\n") == text + size - 2);
        free(text);
        baton_wire_free(message);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    char *text = text_of(data + 2, size - 2);
    try_path(text);
    try_origin(text, data[1] % 2 == 0);
    try_body(data[1], (struct baton_bytes){ data + 2, size - 2 });
    free(text);
    return 0;
}
