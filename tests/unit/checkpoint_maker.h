/* checkpoint_maker.h -- temporary directories and small checkpoints for the tests of transport/.
 *
 * Depends on: the C library.  Aborts on failure: a test without its files can show nothing.
 * Ownership: paths are heap strings of the caller. */
#ifndef TESTS_UNIT_CHECKPOINT_MAKER_H
#define TESTS_UNIT_CHECKPOINT_MAKER_H

#include <stddef.h>
#include <stdint.h>

#include "api/base/bytes.h"

/* Byte i of the pattern of tests/data/digest/make_vectors.py. */
uint8_t maker_pattern(size_t i);
/* 'size' bytes of it on the heap. */
uint8_t *maker_bytes(size_t size);

char *maker_directory(void);
/* Deletes the directory and all below it, and frees the path. */
void maker_remove(char *dir);
/* "<dir>/<name>" on the heap. */
char *maker_join(const char *dir, const char *name);

void maker_write(const char *dir, const char *name, struct baton_bytes bytes);
void maker_write_text(const char *dir, const char *name, const char *text);
struct baton_bytes maker_read(const char *dir, const char *name);
/* Changes one byte of a file. */
void maker_damage(const char *dir, const char *name, long offset);

/* A safetensors file: length, 'header', then 'data_bytes' of the pattern. */
void maker_safetensors(const char *dir, const char *name, const char *header, size_t data_bytes);

/* A checkpoint of three tensors of which one is longer than two chunks, with config and tokenizer;
 * its data begins with the pattern at 'shift'. */
void maker_checkpoint(const char *dir, size_t shift);

#endif /* checkpoint_maker.h */
