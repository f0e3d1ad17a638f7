/* capability.c -- see capability.h. */
#include "transport/capability/capability.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC = 0x31504342 }; /* "BCP1", little endian. */

struct capability_signer {
    EVP_PKEY *pair;
    struct capability_key key;
};

/* The first bytes of the key's SHA-256. */
static void name_key(struct capability_key *key)
{
    uint8_t hash[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    int done =
        EVP_Digest(key->public_key, sizeof(key->public_key), hash, &size, EVP_sha256(), NULL);
    baton_assert(done == 1 && size >= sizeof(key->id));
    memcpy(key->id, hash, sizeof(key->id));
}

struct capability_signer *capability_signer_create(void)
{
    struct capability_signer *signer = calloc(1, sizeof(*signer));
    size_t size = sizeof(signer->key.public_key);
    baton_assert(signer != NULL);
    signer->pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    baton_assert(signer->pair != NULL);
    int done = EVP_PKEY_get_raw_public_key(signer->pair, signer->key.public_key, &size);
    baton_assert(done == 1 && size == sizeof(signer->key.public_key));
    name_key(&signer->key);
    return signer;
}

void capability_signer_destroy(struct capability_signer *signer)
{
    if (signer != NULL) {
        EVP_PKEY_free(signer->pair);
        free(signer);
    }
}

struct capability_key capability_signer_key(const struct capability_signer *signer)
{
    return signer->key;
}

size_t capability_sign(const struct capability_signer *signer, const struct capability *capability,
                       uint8_t out[CAPABILITY_BYTES_MAX])
{
    struct baton_writer writer =
        baton_writer_of(out, CAPABILITY_BYTES_MAX - CAPABILITY_SIGNATURE_BYTES);
    baton_write_u32le(&writer, MAGIC);
    baton_write_bytes(&writer, (struct baton_bytes){ signer->key.id, sizeof(signer->key.id) });
    baton_write_framed(&writer, baton_bytes_of(capability->node));
    baton_write_framed(&writer, baton_bytes_of(capability->identity));
    baton_write_bytes(&writer, (struct baton_bytes){ capability->version.bytes,
                                                     sizeof(capability->version.bytes) });
    baton_write_u64le(&writer, capability->issued_s);
    baton_write_u64le(&writer, capability->ends_s);
    baton_assert(baton_writer_ok(&writer));
    size_t size = CAPABILITY_SIGNATURE_BYTES;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    baton_assert(context != NULL);
    bool signed_ok = EVP_DigestSignInit(context, NULL, NULL, NULL, signer->pair) == 1 &&
                     EVP_DigestSign(context, out + writer.size, &size, out, writer.size) == 1;
    EVP_MD_CTX_free(context);
    baton_assert(signed_ok && size == CAPABILITY_SIGNATURE_BYTES);
    return writer.size + size;
}

static struct baton_status malformed(void)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                             "the capability is malformed");
}

static struct baton_status refused(const char *why)
{
    return baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED, "the capability %s",
                             why);
}

/* Names are printable ASCII; what else strangers write there goes into no record: it would not be text on the wire. */
static bool is_printable(struct baton_bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] <= ' ' || text.data[i] > '~') {
            return false;
        }
    }
    return true;
}

/* A text of what is signed; false if it is too long or no name. */
static bool read_text(struct baton_reader *reader, char *out, size_t out_bytes)
{
    struct baton_bytes text = baton_read_framed(reader, out_bytes - 1);
    if (reader->failed || !is_printable(text)) {
        return false;
    }
    memcpy(out, text.data, text.size);
    out[text.size] = '\0';
    return true;
}

/* All but the signature, which must be what is left. */
static bool parse(struct baton_bytes bytes, struct baton_bytes *out_id, struct capability *out)
{
    struct baton_reader reader = baton_reader_of(bytes);
    if (baton_read_u32le(&reader) != MAGIC) {
        return false;
    }
    *out_id = baton_read_bytes(&reader, CAPABILITY_KEY_ID_BYTES);
    if (!read_text(&reader, out->node, sizeof(out->node)) ||
        !read_text(&reader, out->identity, sizeof(out->identity))) {
        return false;
    }
    struct baton_bytes version = baton_read_bytes(&reader, sizeof(out->version.bytes));
    out->issued_s = baton_read_u64le(&reader);
    out->ends_s = baton_read_u64le(&reader);
    if (reader.failed || reader.left.size != CAPABILITY_SIGNATURE_BYTES) {
        return false;
    }
    memcpy(out->version.bytes, version.data, sizeof(out->version.bytes));
    return true;
}

static const struct capability_key *find_key(const struct capability_key *keys, size_t count,
                                             struct baton_bytes id)
{
    for (size_t i = 0; i < count; i++) {
        if (baton_bytes_equal((struct baton_bytes){ keys[i].id, sizeof(keys[i].id) }, id)) {
            return &keys[i];
        }
    }
    return NULL;
}

static bool is_signed_by(struct baton_bytes bytes, const struct capability_key *key)
{
    size_t size = bytes.size - CAPABILITY_SIGNATURE_BYTES;
    EVP_PKEY *public_key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key->public_key,
                                                       sizeof(key->public_key));
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = public_key != NULL && context != NULL &&
                EVP_DigestVerifyInit(context, NULL, NULL, NULL, public_key) == 1 &&
                EVP_DigestVerify(context, bytes.data + size, CAPABILITY_SIGNATURE_BYTES, bytes.data,
                                 size) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(public_key);
    return good;
}

struct baton_status capability_open(struct baton_bytes bytes, const struct capability_key *keys,
                                    size_t count, struct capability *out)
{
    struct baton_bytes id = { NULL, 0 };
    memset(out, 0, sizeof(*out));
    if (bytes.size > CAPABILITY_BYTES_MAX || !parse(bytes, &id, out)) {
        return malformed();
    }
    const struct capability_key *key = find_key(keys, count, id);
    if (key == NULL) {
        return refused("is signed with a key that the controller did not tell of");
    }
    return is_signed_by(bytes, key) ? baton_status_ok()
                                    : refused("is forged: its signature does not hold");
}

struct baton_status capability_check_time(const struct capability *capability, uint64_t now_s)
{
    if (now_s > capability->ends_s && now_s - capability->ends_s > CAPABILITY_SKEW_S) {
        return baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED,
                                 "the capability expired %llu s ago",
                                 (unsigned long long)(now_s - capability->ends_s));
    }
    if (capability->issued_s > now_s && capability->issued_s - now_s > CAPABILITY_SKEW_S) {
        return baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED,
                                 "the capability begins in %llu s: the clocks differ",
                                 (unsigned long long)(capability->issued_s - now_s));
    }
    return baton_status_ok();
}

struct baton_status capability_check_version(const struct capability *capability,
                                             struct digest version)
{
    return digest_equal(capability->version, version) ? baton_status_ok()
                                                      : refused("is for another version");
}
