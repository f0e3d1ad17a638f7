/* rpc_accounts_test.c -- tokens of Kubernetes service accounts, signed here as an API server signs them; see accounts.h. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include "api/rpc/accounts.h"
#include "api/wire/json.h"

enum { TEXT = 8192, NOW = 1800000000 };

#define ISSUER "https://kubernetes.default.svc.cluster.local"
#define GOOD                                                                                       \
    "{\"iss\":\"" ISSUER "\",\"aud\":[\"other\",\"baton\"],\"exp\":1800000600,"                    \
    "\"nbf\":1799999000,\"iat\":1799999000,\"sub\":\"system:serviceaccount:rl:ppo\","              \
    "\"kubernetes.io\":{\"namespace\":\"rl\",\"pod\":{\"name\":\"ppo-0\"}}}"

/* A cluster: its keys, and the file that has them. */
struct cluster {
    EVP_PKEY *rsa;
    EVP_PKEY *ec;
    char file[40];
    struct rpc_accounts *accounts;
};

static void url64(const uint8_t *data, size_t size, char *out)
{
    char *text = wire_json_base64(data, size);
    char *at = out;
    cr_assert_not_null(text);
    for (const char *c = text; *c != '\0' && *c != '='; c++) {
        *at++ = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    }
    *at = '\0';
    free(text);
}

static void write_number(EVP_PKEY *key, const char *param, size_t size, char *out)
{
    BIGNUM *number = NULL;
    uint8_t bytes[1024];
    cr_assert_eq(EVP_PKEY_get_bn_param(key, param, &number), 1);
    size = size != 0 ? size : (size_t)BN_num_bytes(number);
    cr_assert_eq(BN_bn2binpad(number, bytes, (int)size), (int)size);
    url64(bytes, size, out);
    BN_free(number);
}

static void write_rsa(EVP_PKEY *key, const char *id, char *out)
{
    char n[TEXT / 4];
    char e[64];
    write_number(key, OSSL_PKEY_PARAM_RSA_N, 0, n);
    write_number(key, OSSL_PKEY_PARAM_RSA_E, 0, e);
    (void)snprintf(out, TEXT / 2,
                   "{\"use\":\"sig\",\"kty\":\"RSA\",\"kid\":\"%s\",\"alg\":\"RS256\",\"n\":\"%s\","
                   "\"e\":\"%s\"}",
                   id, n, e);
}

static void write_ec(EVP_PKEY *key, const char *id, char *out)
{
    char x[64];
    char y[64];
    write_number(key, OSSL_PKEY_PARAM_EC_PUB_X, 32, x);
    write_number(key, OSSL_PKEY_PARAM_EC_PUB_Y, 32, y);
    (void)snprintf(out, TEXT / 2,
                   "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"%s\",\"x\":\"%s\",\"y\":\"%s\"}",
                   id, x, y);
}

/* Replaces the file in one step. */
static void put_file(const struct cluster *cluster, const char *text)
{
    char next[64];
    (void)snprintf(next, sizeof(next), "%s.next", cluster->file);
    FILE *stream = fopen(next, "we");
    cr_assert_not_null(stream);
    cr_assert_eq(fputs(text, stream) >= 0, 1);
    cr_assert_eq(fclose(stream), 0);
    cr_assert_eq(rename(next, cluster->file), 0);
}

static void put_keys(const struct cluster *cluster)
{
    char rsa[TEXT / 2];
    char ec[TEXT / 2];
    char text[TEXT * 2];
    write_rsa(cluster->rsa, "one", rsa);
    write_ec(cluster->ec, "two", ec);
    (void)snprintf(text, sizeof(text), "{\"keys\":[{\"kty\":\"oct\",\"kid\":\"no\"},%s,%s]}", rsa,
                   ec);
    put_file(cluster, text);
}

static struct baton_status open_accounts(struct cluster *cluster)
{
    struct rpc_accounts_options options = { cluster->file, ISSUER, "baton" };
    return rpc_accounts_open(&options, &cluster->accounts);
}

static struct cluster start(void)
{
    struct cluster cluster = { EVP_RSA_gen(2048), EVP_EC_gen("P-256"), "/tmp/baton-jwks-XXXXXX",
                               NULL };
    int fd = mkstemp(cluster.file);
    cr_assert_geq(fd, 0);
    (void)close(fd);
    put_keys(&cluster);
    struct baton_status st = open_accounts(&cluster);
    cr_assert(baton_ok(&st), "%s", st.message);
    return cluster;
}

static void stop(struct cluster *cluster)
{
    rpc_accounts_close(cluster->accounts);
    EVP_PKEY_free(cluster->rsa);
    EVP_PKEY_free(cluster->ec);
    (void)unlink(cluster->file);
}

static size_t sign(EVP_PKEY *key, const char *text, uint8_t out[1024])
{
    size_t size = 1024;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    cr_assert_eq(EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key), 1);
    cr_assert_eq(EVP_DigestSign(context, out, &size, (const uint8_t *)text, strlen(text)), 1);
    EVP_MD_CTX_free(context);
    if (EVP_PKEY_get_base_id(key) == EVP_PKEY_EC) { /* Two plain numbers, not DER. */
        const uint8_t *der = out;
        ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &der, (long)size);
        uint8_t plain[64];
        (void)BN_bn2binpad(ECDSA_SIG_get0_r(pair), plain, 32);
        (void)BN_bn2binpad(ECDSA_SIG_get0_s(pair), plain + 32, 32);
        memcpy(out, plain, sizeof(plain));
        size = sizeof(plain);
        ECDSA_SIG_free(pair);
    }
    return size;
}

static void make_token(EVP_PKEY *key, const char *header, const char *claims, char out[TEXT])
{
    uint8_t signature[1024];
    url64((const uint8_t *)header, strlen(header), out);
    strcat(out, ".");
    url64((const uint8_t *)claims, strlen(claims), out + strlen(out));
    size_t size = sign(key, out, signature);
    strcat(out, ".");
    url64(signature, size, out + strlen(out));
}

static struct baton_status find(struct cluster *cluster, const char *token,
                                struct rpc_peer_name *name)
{
    *name = (struct rpc_peer_name){ RPC_NAME_DNS, "nobody" };
    return rpc_accounts_find(cluster->accounts,
                             (struct baton_bytes){ (const uint8_t *)token, strlen(token) }, NOW,
                             name);
}

static const char RS256[] = "{\"alg\":\"RS256\",\"kid\":\"one\",\"typ\":\"JWT\"}";
static const char ES256[] = "{\"alg\":\"ES256\",\"kid\":\"two\"}";

static void expect_found(struct cluster *cluster, EVP_PKEY *key, const char *header)
{
    char token[TEXT];
    struct rpc_peer_name name;
    make_token(key, header, GOOD, token);
    struct baton_status st = find(cluster, token, &name);
    cr_assert(baton_ok(&st), "%s: %s", header, st.message);
    cr_assert_str_eq(name.text, "system:serviceaccount:rl:ppo");
    cr_assert_eq(name.kind, RPC_NAME_ACCOUNT);
}

static void expect_refused(struct cluster *cluster, const char *token, const char *why)
{
    struct rpc_peer_name name;
    struct baton_status st = find(cluster, token, &name);
    cr_assert_eq(st.code, BATON_UNAUTHENTICATED, "%s", why);
    cr_assert_not_null(strstr(st.message, why), "%s, not: %s", st.message, why);
    cr_assert_str_eq(name.text, "nobody");
    char part[24];
    (void)snprintf(part, sizeof(part), "%.16s", token);
    cr_assert(strlen(part) < 16 || strstr(st.message, part) == NULL, "the token is told");
}

Test(rpc_accounts, who_it_is)
{
    struct cluster cluster = start();
    expect_found(&cluster, cluster.rsa, RS256);
    expect_found(&cluster, cluster.ec, ES256);
    stop(&cluster);
}

/* Signed rightly, by what they say. */
Test(rpc_accounts, what_is_claimed_must_be_right)
{
    static const struct {
        const char *from;
        const char *to;
        const char *why;
    } rows[] = {
        { ISSUER, "https://elsewhere", "another issuer" },
        { "[\"other\",\"baton\"]", "[\"other\"]", "another audience" },
        { "[\"other\",\"baton\"]", "\"bato\"", "another audience" },
        { "\"exp\":1800000600", "\"exp\":1799999990", "has expired" },
        { "\"exp\":1800000600,", "", "has no end" },
        { "\"exp\":1800000600", "\"exp\":\"never\"", "has no end" },
        { "\"exp\":1800000600", "\"exp\":1e300", "has no end" },
        { "\"nbf\":1799999000", "\"nbf\":1800000011", "does not hold yet" },
        { "\"nbf\":1799999000", "\"nbf\":-1", "a time that is none" },
        { "serviceaccount:rl:ppo", "node:rl:ppo", "no service account" },
        { "serviceaccount:rl:ppo", "serviceaccount:rl", "no service account" },
        { "serviceaccount:rl:ppo", "serviceaccount::ppo", "no service account" },
        { "serviceaccount:rl:ppo", "serviceaccount:rl:p:o", "no service account" },
        { "serviceaccount:rl:ppo", "serviceaccount:rl:p*o", "no service account" },
        { "serviceaccount:rl:ppo", "serviceaccount:Rl:ppo", "no service account" },
        { "rl:ppo\"", "rl:ppo\\u0000\"", "no JSON object" },
        { "\"iat\":", "\"iss\":\"x\",\"iat\":", "no JSON object" },
    };
    struct cluster cluster = start();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char claims[1024];
        char token[TEXT];
        const char *at = strstr(GOOD, rows[i].from);
        cr_assert_not_null(at, "%s", rows[i].from);
        (void)snprintf(claims, sizeof(claims), "%.*s%s%s", (int)(at - GOOD), GOOD, rows[i].to,
                       at + strlen(rows[i].from));
        make_token(cluster.rsa, RS256, claims, token);
        expect_refused(&cluster, token, rows[i].why);
    }
    stop(&cluster);
}

/* Says the right things, and nobody who may has signed it. */
Test(rpc_accounts, what_is_signed_by_nobody_is_nobodys)
{
    struct cluster cluster = start();
    EVP_PKEY *other = EVP_RSA_gen(2048);
    char token[TEXT];
    make_token(other, RS256, GOOD, token);
    expect_refused(&cluster, token, "has signed it");
    make_token(cluster.rsa, "{\"alg\":\"RS256\",\"kid\":\"two\"}", GOOD, token);
    expect_refused(&cluster, token, "has signed it");
    make_token(cluster.ec, RS256, GOOD, token);
    expect_refused(&cluster, token, "has signed it");
    make_token(cluster.rsa, ES256, GOOD, token);
    expect_refused(&cluster, token, "has signed it");
    make_token(cluster.rsa, "{\"alg\":\"none\",\"kid\":\"one\"}", GOOD, token);
    expect_refused(&cluster, token, "neither by RS256 nor by ES256");
    make_token(cluster.rsa, "{\"alg\":\"HS256\",\"kid\":\"one\"}", GOOD, token);
    expect_refused(&cluster, token, "neither by RS256 nor by ES256");
    make_token(cluster.rsa, "{\"alg\":\"RS256\"}", GOOD, token);
    expect_refused(&cluster, token, "names no key");
    make_token(cluster.rsa, "{\"alg\":\"RS256\",\"kid\":\"one\",\"crit\":[\"b64\"]}", GOOD, token);
    expect_refused(&cluster, token, "crit");
    make_token(cluster.rsa, RS256, GOOD, token);
    token[strlen(token) / 2] =
        token[strlen(token) / 2] == 'A' ? 'B' : 'A'; /* In its claims or its signature. */
    struct rpc_peer_name name;
    struct baton_status st = find(&cluster, token, &name);
    cr_assert_eq(st.code, BATON_UNAUTHENTICATED);
    EVP_PKEY_free(other);
    stop(&cluster);
}

Test(rpc_accounts, what_is_no_token)
{
    static const char *const rows[] = { "", "..", "a.b", "a.b.c.d", "e30.e30.", "!.e30.AA" };
    struct cluster cluster = start();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rpc_peer_name name;
        struct baton_status st = find(&cluster, rows[i], &name);
        cr_assert_eq(st.code, BATON_UNAUTHENTICATED, "%s", rows[i]);
    }
    char long_one[4200];
    memset(long_one, 'a', sizeof(long_one));
    long_one[10] = long_one[20] = '.';
    long_one[sizeof(long_one) - 1] = '\0';
    expect_refused(&cluster, long_one, "too long");
    stop(&cluster);
}

/* New keys count from the next call on; a file that is none leaves the last good ones; old keys are gone. */
Test(rpc_accounts, keys_change)
{
    struct cluster cluster = start();
    char old_token[TEXT];
    make_token(cluster.rsa, RS256, GOOD, old_token);
    put_file(&cluster, "{\"keys\":[]}");
    expect_found(&cluster, cluster.rsa, RS256);
    put_file(&cluster, "no JSON");
    expect_found(&cluster, cluster.rsa, RS256);
    EVP_PKEY_free(cluster.rsa);
    cluster.rsa = EVP_RSA_gen(2048);
    put_keys(&cluster);
    expect_found(&cluster, cluster.rsa, RS256);
    expect_refused(&cluster, old_token, "has signed it");
    stop(&cluster);
}

static void expect_bad_file(const char *text, const char *why)
{
    struct cluster cluster = { .file = "/tmp/baton-jwks-XXXXXX" };
    int fd = mkstemp(cluster.file);
    cr_assert_geq(fd, 0);
    (void)close(fd);
    put_file(&cluster, text);
    struct baton_status st = open_accounts(&cluster);
    cr_assert_not(baton_ok(&st), "%s", text);
    cr_assert_not_null(strstr(st.message, why), "%s, not: %s", st.message, why);
    cr_assert_not_null(strstr(st.message, cluster.file), "%s", st.message);
    (void)unlink(cluster.file);
}

Test(rpc_accounts, a_file_that_is_wrong_is_named)
{
    char small[TEXT / 2];
    char text[TEXT];
    EVP_PKEY *weak = EVP_RSA_gen(1024);
    write_rsa(weak, "weak", small);
    (void)snprintf(text, sizeof(text), "{\"keys\":[%s]}", small);
    expect_bad_file(text, "has no key");
    expect_bad_file("{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"a\",\"x\":\"AA\"}]}",
                    "has no key");
    expect_bad_file("{}", "has no key");
    expect_bad_file("{\n\"keys\":[", "line 2 is no JSON");
    EVP_PKEY_free(weak);
    struct cluster cluster = { .file = "/nonexistent/jwks.json" };
    struct baton_status st = open_accounts(&cluster);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    cr_assert_not_null(strstr(st.message, "access.serviceAccounts.keys"), "%s", st.message);
}
