/* handshakes.c -- see handshakes.h. */
#include "api/rpc/handshakes.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <grpc/support/sync.h>
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

enum { ADDRESS_BYTES = 64, WHY_BYTES = 160 };

/* What grpc_version_string() says of the one whose mutator this is. */
static const char KNOWN_CORE[] = "29.0.0";

/* From this OpenSSL on SSL_new() asks for ex data before the SSL has its method and before it takes the context's callbacks:
 * on_new() would call through a null pointer. */
enum { FIRST_OTHER_OPENSSL = 0x30200000 };

struct handshakes {
    atomic_uint references;
    pthread_mutex_t mutex;
    handshakes_fn *on_refused; /* Under the mutex; null: the server is gone. */
    void *context;
};

/* Of one connection, beside its SSL. */
struct handshake {
    struct handshakes *owner;
    char address[ADDRESS_BYTES];
    char name[RPC_IDENTITY_BYTES];
    char why[WHY_BYTES];
};

/* Where the connection comes from that the core accepted last on this thread; "": it was taken by begin(). */
static _Thread_local char accepted[ADDRESS_BYTES];
/* Whose handshake begins on this thread. */
static _Thread_local struct handshakes *beginning;

/* --- who holds it --- */

struct handshakes *handshakes_create(handshakes_fn *on_refused, void *context)
{
    if (on_refused == NULL) {
        return NULL;
    }
    struct handshakes *handshakes = calloc(1, sizeof(*handshakes));
    baton_assert(handshakes != NULL);
    atomic_init(&handshakes->references, 1);
    pthread_mutex_init(&handshakes->mutex, NULL);
    handshakes->on_refused = on_refused;
    handshakes->context = context;
    return handshakes;
}

static void release(struct handshakes *handshakes)
{
    if (atomic_fetch_sub_explicit(&handshakes->references, 1, memory_order_acq_rel) == 1) {
        pthread_mutex_destroy(&handshakes->mutex);
        free(handshakes);
    }
}

void handshakes_destroy(struct handshakes *handshakes)
{
    if (handshakes != NULL) {
        pthread_mutex_lock(&handshakes->mutex);
        handshakes->on_refused = NULL;
        pthread_mutex_unlock(&handshakes->mutex);
        release(handshakes);
    }
}

static void report(const struct handshake *handshake)
{
    struct handshakes *owner = handshake->owner;
    struct rpc_refused refused = { .address = handshake->address,
                                   .name = handshake->name,
                                   .why = handshake->why };
    pthread_mutex_lock(&owner->mutex);
    if (owner->on_refused != NULL) {
        owner->on_refused(&refused, owner->context);
    }
    pthread_mutex_unlock(&owner->mutex);
}

/* --- the core's socket mutator --- */

enum { USAGE_SERVER_CONNECTION = 2 };

struct mutated_socket {
    int fd;
    int usage;
};

struct mutator_methods {
    bool (*mutate)(int fd, grpc_socket_mutator *mutator);
    int (*compare)(grpc_socket_mutator *a, grpc_socket_mutator *b);
    void (*destroy)(grpc_socket_mutator *mutator);
    bool (*mutate_of_usage)(const struct mutated_socket *socket, grpc_socket_mutator *mutator);
};

struct grpc_socket_mutator {
    const struct mutator_methods *methods;
    gpr_refcount references;
};

static void write_address(const struct sockaddr *at, char out[ADDRESS_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "";
    if (at->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)at;
        (void)inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
        (void)snprintf(out, ADDRESS_BYTES, "ipv4:%s:%u", host, ntohs(v4->sin_port));
        return;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)at;
    (void)inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        (void)snprintf(out, ADDRESS_BYTES, "ipv4:%s:%u", host + strlen("::ffff:"),
                       ntohs(v6->sin6_port));
    } else {
        (void)snprintf(out, ADDRESS_BYTES, "ipv6:[%s]:%u", host, ntohs(v6->sin6_port));
    }
}

static bool note_socket(const struct mutated_socket *socket, grpc_socket_mutator *mutator)
{
    struct sockaddr_storage at = { .ss_family = AF_UNSPEC };
    socklen_t size = sizeof(at);
    (void)mutator;
    accepted[0] = '\0';
    if (socket->usage == USAGE_SERVER_CONNECTION &&
        getpeername(socket->fd, (struct sockaddr *)&at, &size) == 0 &&
        (at.ss_family == AF_INET || at.ss_family == AF_INET6)) {
        write_address((const struct sockaddr *)&at, accepted);
    }
    return true; /* Else the core gives the listener up. */
}

static int compare(grpc_socket_mutator *a, grpc_socket_mutator *b)
{
    return a == b ? 0 : a < b ? -1 : 1;
}

static void keep(grpc_socket_mutator *mutator)
{
    (void)mutator; /* Ours is static. */
}

static const struct mutator_methods methods = { .compare = compare,
                                                .destroy = keep,
                                                .mutate_of_usage = note_socket };

static struct grpc_socket_mutator mutator = { .methods = &methods, .references = { 1 } };

static void *copy_arg(void *pointer)
{
    return pointer;
}

static void drop_arg(void *pointer)
{
    (void)pointer;
}

static int compare_arg(void *a, void *b)
{
    return compare(a, b);
}

/* --- OpenSSL --- */

static int ex_index = -1;

/* Each message of the protocol, of which only fatal alerts matter: level and description. */
static void on_message(int is_written, int version, int type, const void *bytes, size_t size,
                       SSL *ssl, void *argument)
{
    struct handshake *handshake = SSL_get_ex_data(ssl, ex_index);
    const uint8_t *alert = bytes;
    (void)version;
    (void)argument;
    bool is_fatal = type == SSL3_RT_ALERT && size == 2 && alert[0] == SSL3_AL_FATAL;
    if (handshake == NULL || !is_fatal || handshake->why[0] != '\0') {
        return;
    }
    if (is_written == 0) {
        (void)snprintf(handshake->why, WHY_BYTES, "it does not accept our certificate or terms: %s",
                       SSL_alert_desc_string_long(alert[1]));
    } else if (alert[1] == TLS13_AD_CERTIFICATE_REQUIRED) {
        (void)snprintf(handshake->why, WHY_BYTES, "it shows no certificate");
    } else {
        (void)snprintf(handshake->why, WHY_BYTES, "its handshake is refused: %s",
                       SSL_alert_desc_string_long(alert[1]));
    }
}

static void copy_printable(const unsigned char *text, size_t size, char out[RPC_IDENTITY_BYTES])
{
    size = size < RPC_IDENTITY_BYTES ? size : RPC_IDENTITY_BYTES - 1;
    for (size_t i = 0; i < size; i++) {
        out[i] = text[i] > ' ' && text[i] <= '~' ? (char)text[i] : '?';
    }
    out[size] = '\0';
}

/* What a certificate that nobody vouches for says of its holder: its first URI, else its first DNS name. */
static void read_name(X509 *certificate, char out[RPC_IDENTITY_BYTES])
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) { /* -1 of null. */
        int type = 0;
        const ASN1_STRING *text = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
        if (type == GEN_URI || (type == GEN_DNS && out[0] == '\0')) {
            copy_printable(ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text), out);
        }
        if (type == GEN_URI) {
            break;
        }
    }
    GENERAL_NAMES_free(names);
}

/* Hears a verdict, and lets it be. */
static int on_verify(int is_good, X509_STORE_CTX *store)
{
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct handshake *handshake = ssl != NULL ? SSL_get_ex_data(ssl, ex_index) : NULL;
    if (is_good == 0 && handshake != NULL) {
        X509 *certificate = X509_STORE_CTX_get0_cert(store);
        (void)snprintf(handshake->why, WHY_BYTES, "its certificate is refused: %s",
                       X509_verify_cert_error_string(X509_STORE_CTX_get_error(store)));
        if (certificate != NULL) {
            handshake->name[0] = '\0';
            read_name(certificate, handshake->name);
        }
    }
    return is_good;
}

static void on_new(void *parent, void *pointer, CRYPTO_EX_DATA *data, int index, long number,
                   void *argument)
{
    SSL *ssl = parent;
    (void)pointer;
    (void)number;
    (void)argument;
    if (beginning == NULL) {
        return; /* Somebody else's. */
    }
    struct handshake *handshake = calloc(1, sizeof(*handshake));
    baton_assert(handshake != NULL);
    handshake->owner = beginning; /* With its reference. */
    beginning = NULL;
    memcpy(handshake->address, accepted, sizeof(handshake->address));
    accepted[0] = '\0';
    (void)CRYPTO_set_ex_data(data, index, handshake);
    SSL_set_msg_callback(ssl, on_message);
    if (SSL_get_verify_callback(ssl) == NULL) {
        SSL_set_verify(ssl, SSL_get_verify_mode(ssl), on_verify);
    }
}

static void on_free(void *parent, void *pointer, CRYPTO_EX_DATA *data, int index, long number,
                    void *argument)
{
    struct handshake *handshake = pointer;
    (void)data;
    (void)index;
    (void)number;
    (void)argument;
    if (handshake != NULL) {
        if (SSL_is_init_finished(parent) == 0) {
            report(handshake);
        }
        release(handshake->owner);
        free(handshake);
    }
}

static void register_index(void)
{
    ex_index = CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL, 0, NULL, on_new, NULL, on_free);
}

/* --- what the server calls --- */

grpc_arg handshakes_arg(void)
{
    static const grpc_arg_pointer_vtable arg_methods = { copy_arg, drop_arg, compare_arg };
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (strcmp(grpc_version_string(), KNOWN_CORE) != 0 ||
        OpenSSL_version_num() >= FIRST_OTHER_OPENSSL) {
        return (grpc_arg){ .key = NULL };
    }
    (void)pthread_once(&once, register_index);
    return (grpc_arg){ .type = GRPC_ARG_POINTER,
                       .key = (char *)(uintptr_t)GRPC_ARG_SOCKET_MUTATOR,
                       .value.pointer = { &mutator, &arg_methods } };
}

void handshakes_begin(struct handshakes *handshakes)
{
    if (handshakes != NULL && accepted[0] != '\0') {
        if (beginning != NULL) {
            release(beginning); /* The core made no SSL for it. */
        }
        atomic_fetch_add_explicit(&handshakes->references, 1, memory_order_relaxed);
        beginning = handshakes;
    }
}
