/* authority.c -- see authority.h. */
#include "controller/cli/authority.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/limits.h"

enum {
    SERIAL_BITS = 127,
    CLOCKS_DIFFER_S = 300,
    NAMES_BYTES = 8192,
    PATH_BYTES = BATON_PATH_BYTES
};

/* --- words --- */

static bool is_word(const char *text)
{
    size_t size = strlen(text);
    return size > 0 && size <= 63 && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789") > 0 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == size;
}

static bool is_host(const char *text)
{
    size_t size = strlen(text);
    return size > 0 && size < 254 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") == size;
}

static bool is_address(const char *text)
{
    unsigned char address[16];
    return inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1;
}

static bool is_role(const char *text)
{
    static const char *const roles[] = { "controller", "agent",    "trainer",
                                         "router",     "operator", "viewer" };
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (strcmp(roles[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static struct baton_status bad(const char *what, const char *text, const char *must)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD, "%s: '%.80s' %s", what,
                             text, must);
}

static struct baton_status check_leaf(const struct authority_leaf *leaf)
{
    if (!is_word(leaf->name) || strcmp(leaf->name, "ca") == 0) {
        return bad("NAME", leaf->name, "must be 1 to 63 of a-z, 0-9, '-' and '.', and not 'ca'");
    }
    if (!is_role(leaf->role)) {
        return bad("--role", leaf->role,
                   "is none; say controller, agent, trainer, router, operator or viewer");
    }
    for (size_t i = 0; i < leaf->dns_count; i++) {
        if (!is_host(leaf->dns[i])) {
            return bad("--dns", leaf->dns[i], "is no host name");
        }
    }
    for (size_t i = 0; i < leaf->ip_count; i++) {
        if (!is_address(leaf->ip[i])) {
            return bad("--ip", leaf->ip[i], "is no address");
        }
    }
    return baton_status_ok();
}

/* --- OpenSSL --- */

static struct baton_status openssl_failed(const char *what)
{
    char text[160];
    ERR_error_string_n(ERR_get_error(), text, sizeof(text));
    return baton_status_make(BATON_INTERNAL, BATON_REASON_IO, "%s: %s", what, text);
}

static bool set_serial(X509 *certificate)
{
    BIGNUM *number = BN_new();
    bool done = number != NULL &&
                BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) &&
                BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;
    BN_free(number);
    return done;
}

static bool set_validity(X509 *certificate, uint64_t valid_s)
{
    int days = (int)(valid_s / 86400);
    return X509_gmtime_adj(X509_getm_notBefore(certificate), -CLOCKS_DIFFER_S) != NULL &&
           X509_time_adj_ex(X509_getm_notAfter(certificate), days, (long)(valid_s % 86400), NULL) !=
               NULL;
}

static bool add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    bool done = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return done;
}

/* What one certificate says. */
struct contents {
    const char *common_name;
    const char *names; /* "URI:...,DNS:..." */
    const char *basic; /* Basic constraints. */
    const char *usage;
    const char *purpose; /* Null: none. */
    uint64_t valid_s;
};

/* Signed by 'issuer'; null: by itself. */
static X509 *make_certificate(const struct contents *contents, EVP_PKEY *key, X509 *issuer,
                              EVP_PKEY *issuer_key)
{
    X509 *certificate = X509_new();
    X509_NAME *subject = certificate != NULL ? X509_get_subject_name(certificate) : NULL;
    X509 *signer = issuer != NULL ? issuer : certificate;
    bool done =
        subject != NULL && X509_set_version(certificate, 2) == 1 && set_serial(certificate) &&
        set_validity(certificate, contents->valid_s) && X509_set_pubkey(certificate, key) == 1 &&
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                   (const unsigned char *)contents->common_name, -1, -1, 0) == 1 &&
        X509_set_issuer_name(certificate, X509_get_subject_name(signer)) == 1 &&
        add_extension(certificate, signer, NID_basic_constraints, contents->basic) &&
        add_extension(certificate, signer, NID_key_usage, contents->usage) &&
        add_extension(certificate, signer, NID_subject_alt_name, contents->names) &&
        add_extension(certificate, signer, NID_subject_key_identifier, "hash") &&
        (issuer == NULL ||
         add_extension(certificate, signer, NID_authority_key_identifier, "keyid")) &&
        (contents->purpose == NULL ||
         add_extension(certificate, signer, NID_ext_key_usage, contents->purpose)) &&
        X509_sign(certificate, issuer_key, EVP_sha256()) > 0;
    if (!done) {
        X509_free(certificate);
        return NULL;
    }
    return certificate;
}

/* --- files --- */

static void path_of(const char *folder, const char *name, const char *ending, char out[PATH_BYTES])
{
    (void)snprintf(out, PATH_BYTES, "%.300s/%.63s.%s", folder, name, ending);
}

/* A new file for its owner alone, never one that is there. */
static struct baton_status write_key(const char *path, EVP_PKEY *key)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return baton_status_errno(errno, "create", path);
    }
    FILE *file = fdopen(fd, "w");
    bool done =
        file != NULL && PEM_write_PKCS8PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1;
    done = file != NULL ? (fclose(file) == 0 && done) : (close(fd) == 0 && false);
    if (!done) {
        (void)unlink(path);
        return openssl_failed(path);
    }
    return baton_status_ok();
}

/* Beside its place first: who reads it sees the old one or the new one. */
static struct baton_status write_certificate(const char *path, X509 *certificate)
{
    char next[PATH_BYTES + 8];
    (void)snprintf(next, sizeof(next), "%s.next", path);
    FILE *file = fopen(next, "we");
    if (file == NULL) {
        return baton_status_errno(errno, "create", next);
    }
    bool done = PEM_write_X509(file, certificate) == 1;
    if (fclose(file) != 0 || !done) {
        (void)unlink(next);
        return openssl_failed(next);
    }
    return rename(next, path) == 0 ? baton_status_ok() : baton_status_errno(errno, "rename", path);
}

static struct baton_status read_key(const char *path, EVP_PKEY **out)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return baton_status_errno(errno, "open", path);
    }
    *out = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    (void)fclose(file);
    return *out != NULL ? baton_status_ok()
                        : baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                            "%s: holds no key", path);
}

static struct baton_status read_certificate(const char *path, X509 **out)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return baton_status_errno(errno, "open", path);
    }
    *out = PEM_read_X509(file, NULL, NULL, NULL);
    (void)fclose(file);
    return *out != NULL ? baton_status_ok()
                        : baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                            "%s: holds no certificate", path);
}

/* --- the authority --- */

struct baton_status authority_create(const char *folder, const char *trust_domain, uint64_t valid_s)
{
    char key_path[PATH_BYTES];
    char path[PATH_BYTES];
    char names[128];
    if (!is_word(trust_domain)) {
        return bad("--trust-domain", trust_domain, "must be 1 to 63 of a-z, 0-9, '-' and '.'");
    }
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return baton_status_errno(errno, "mkdir", folder);
    }
    path_of(folder, "ca", "key", key_path);
    path_of(folder, "ca", "crt", path);
    (void)snprintf(names, sizeof(names), "URI:spiffe://%s", trust_domain);
    const struct contents contents = { .common_name = "baton lab authority",
                                       .names = names,
                                       .basic = "critical,CA:TRUE,pathlen:0",
                                       .usage = "critical,keyCertSign,cRLSign",
                                       .valid_s = valid_s };
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = key != NULL ? make_certificate(&contents, key, NULL, key) : NULL;
    struct baton_status st =
        certificate != NULL ? write_key(key_path, key) : openssl_failed("certificate");
    if (baton_ok(&st)) {
        st = write_certificate(path, certificate);
    }
    X509_free(certificate);
    EVP_PKEY_free(key);
    return st.code == BATON_ALREADY_EXISTS
               ? baton_status_hint(st, "there is an authority; `batonctl certs issue` uses it")
               : st;
}

/* The trust domain stands in the authority's own certificate. */
static struct baton_status find_trust_domain(X509 *certificate, const char *path, char out[64])
{
    static const char SPIFFE[] = "spiffe://";
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    out[0] = '\0';
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        const char *uri =
            name->type == GEN_URI
                ? (const char *)ASN1_STRING_get0_data(name->d.uniformResourceIdentifier)
                : "";
        if (strncmp(uri, SPIFFE, sizeof(SPIFFE) - 1) == 0) {
            (void)snprintf(out, 64, "%s", uri + sizeof(SPIFFE) - 1);
        }
    }
    GENERAL_NAMES_free(names);
    return is_word(out) ? baton_status_ok()
                        : baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                            "%s: is no authority of `batonctl certs init`", path);
}

static void write_names(const struct authority_leaf *leaf, const char *identity,
                        char out[NAMES_BYTES])
{
    size_t size = (size_t)snprintf(out, NAMES_BYTES, "URI:%s", identity);
    for (size_t i = 0; i < leaf->dns_count; i++) {
        size += (size_t)snprintf(out + size, NAMES_BYTES - size, ",DNS:%s", leaf->dns[i]);
    }
    for (size_t i = 0; i < leaf->ip_count; i++) {
        size += (size_t)snprintf(out + size, NAMES_BYTES - size, ",IP:%s", leaf->ip[i]);
    }
}

/* The leaf's key: a new file, or, to renew, the one that is there. */
static struct baton_status take_key(const struct authority_leaf *leaf, const char *folder,
                                    EVP_PKEY **out)
{
    char path[PATH_BYTES];
    path_of(folder, leaf->name, "key", path);
    if (leaf->renew) {
        return read_key(path, out);
    }
    *out = EVP_EC_gen("P-256");
    struct baton_status st = *out != NULL ? write_key(path, *out) : openssl_failed("key");
    return st.code == BATON_ALREADY_EXISTS
               ? baton_status_hint(st, "--renew gives this key a new certificate")
               : st;
}

static struct baton_status sign(const struct authority_leaf *leaf, const char *folder,
                                const char *identity, X509 *ca, EVP_PKEY *ca_key)
{
    char names[NAMES_BYTES];
    char path[PATH_BYTES];
    EVP_PKEY *key = NULL;
    write_names(leaf, identity, names);
    path_of(folder, leaf->name, "crt", path);
    const struct contents contents = { .common_name = leaf->name,
                                       .names = names,
                                       .basic = "critical,CA:FALSE",
                                       .usage = "critical,digitalSignature",
                                       .purpose = "serverAuth,clientAuth",
                                       .valid_s = leaf->valid_s };
    struct baton_status st = take_key(leaf, folder, &key);
    if (baton_ok(&st)) {
        X509 *certificate = make_certificate(&contents, key, ca, ca_key);
        st = certificate != NULL ? write_certificate(path, certificate)
                                 : openssl_failed("certificate");
        X509_free(certificate);
    }
    EVP_PKEY_free(key);
    return st;
}

struct baton_status authority_issue(const char *folder, const struct authority_leaf *leaf,
                                    char identity[AUTHORITY_IDENTITY_BYTES])
{
    char path[PATH_BYTES];
    char trust_domain[64];
    X509 *ca = NULL;
    EVP_PKEY *ca_key = NULL;
    struct baton_status st = check_leaf(leaf);
    path_of(folder, "ca", "crt", path);
    if (baton_ok(&st)) {
        st = read_certificate(path, &ca);
    }
    if (baton_ok(&st)) {
        st = find_trust_domain(ca, path, trust_domain);
    }
    path_of(folder, "ca", "key", path);
    if (baton_ok(&st)) {
        st = read_key(path, &ca_key);
    }
    if (baton_ok(&st)) {
        (void)snprintf(identity, AUTHORITY_IDENTITY_BYTES, "spiffe://%s/%s/%s", trust_domain,
                       leaf->role, leaf->name);
        st = sign(leaf, folder, identity, ca, ca_key);
    }
    X509_free(ca);
    EVP_PKEY_free(ca_key);
    return st;
}
