/* handshakes.c -- see handshakes.h. */
#include "api/rpc/handshakes.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

enum { WHY_BYTES = 160 };

/* From this OpenSSL on SSL_new() asks for ex data before the SSL has its method and before it takes the context's callbacks:
 * on_new() would call through a null pointer. */
enum { FIRST_OTHER_OPENSSL = 0x30200000 };

/* Of one connection, beside its SSL. */
struct handshake {
    struct connections *owner;
    char address[CONNECTIONS_ADDRESS_BYTES];
    char name[RPC_IDENTITY_BYTES];
    char why[WHY_BYTES];
};

/* Whose handshake begins on this thread. */
static _Thread_local struct connections *beginning;

static void report(const struct handshake *handshake)
{
    struct rpc_refused refused = { .address = handshake->address,
                                   .name = handshake->name,
                                   .why = handshake->why };
    connections_refused(handshake->owner, &refused);
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
    connections_take_address(handshake->address);
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
        connections_unref(handshake->owner);
        free(handshake);
    }
}

static void register_index(void)
{
    ex_index = CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL, 0, NULL, on_new, NULL, on_free);
}

/* --- what the server calls --- */

bool rpc_sees_handshakes(void)
{
    return rpc_sees_connections() && OpenSSL_version_num() < FIRST_OTHER_OPENSSL;
}

void handshakes_begin(struct connections *connections)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!rpc_sees_handshakes() || !connections_is_beginning(connections)) {
        return;
    }
    (void)pthread_once(&once, register_index);
    if (beginning != NULL) {
        connections_unref(beginning); /* The core made no SSL for it. */
    }
    beginning = connections_ref(connections);
}
