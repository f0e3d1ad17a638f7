/* tokenizer.h -- a byte-level vocabulary: which token is which byte, and the special ones.
 *
 * Reads a Hugging Face tokenizer.json whose vocabulary holds all 256 bytes in the usual byte-level
 * letters.  Merges are not applied: one token a byte.
 *
 * Depends on: jansson.  Threads: read-only after load.  Ownership: values only. */
#ifndef TESTS_MINIENGINE_TOKENIZER_H
#define TESTS_MINIENGINE_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "tests/miniengine/trouble.h"

enum { TOKENIZER_IDS_MAX = 4096, TOKENIZER_SPECIALS_MAX = 64, TOKENIZER_SPECIAL_BYTES = 48 };

struct tokenizer {
    uint32_t id_of_byte[256];
    int16_t byte_of_id[TOKENIZER_IDS_MAX]; /* -1: not a byte. */
    struct {
        uint32_t id;
        char text[TOKENIZER_SPECIAL_BYTES];
    } specials[TOKENIZER_SPECIALS_MAX];
    uint32_t specials_count;
};

/* Reads DIR/tokenizer.json. */
bool tokenizer_load(const char *dir, struct tokenizer *out, struct trouble *why);

/* Writes one token for each byte. */
void tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                      uint32_t *tokens);

/* The bytes of one token into 'out' (TOKENIZER_SPECIAL_BYTES); returns how many.  Special tokens
 * give nothing unless 'specials'; unknown ids give nothing. */
size_t tokenizer_decode(const struct tokenizer *tokenizer, uint32_t token, bool specials,
                        char *out);

/* Turns bytes into valid UTF-8: what is broken becomes U+FFFD.  Without 'final', an unfinished
 * sequence at the end is left for later.  'out' must hold 3 * bytes + 1.  Returns the bytes
 * consumed; 'out' is terminated, zero bytes become U+FFFD too. */
size_t tokenizer_to_utf8(const char *bytes, size_t count, bool final, char *out);

#endif /* tokenizer.h */
