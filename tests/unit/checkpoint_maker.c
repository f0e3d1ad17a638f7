/* checkpoint_maker.c -- files for tests. */
#include "tests/unit/checkpoint_maker.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void must(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        abort();
    }
}

uint8_t maker_pattern(size_t i)
{
    return (uint8_t)(7 * i + 13 * (i >> 8) + 29 * (i >> 16));
}

uint8_t *maker_bytes(size_t size)
{
    uint8_t *bytes = malloc(size + 1);
    must(bytes != NULL, "malloc");
    for (size_t i = 0; i < size; i++) {
        bytes[i] = maker_pattern(i);
    }
    return bytes;
}

char *maker_directory(void)
{
    const char *base = getenv("TMPDIR");
    char *path = maker_join(base == NULL ? "/tmp" : base, "baton-test-XXXXXX");
    must(mkdtemp(path) != NULL, "mkdtemp");
    return path;
}

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *ftw)
{
    (void)info;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void maker_remove(char *dir)
{
    nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(dir);
}

char *maker_join(const char *dir, const char *name)
{
    size_t size = strlen(dir) + strlen(name) + 2;
    char *path = malloc(size);
    must(path != NULL, "malloc");
    snprintf(path, size, "%s/%s", dir, name);
    return path;
}

void maker_write(const char *dir, const char *name, struct baton_bytes bytes)
{
    char *path = maker_join(dir, name);
    FILE *file = fopen(path, "wb");
    must(file != NULL, path);
    must(bytes.size == 0 || fwrite(bytes.data, 1, bytes.size, file) == bytes.size, path);
    must(fclose(file) == 0, path);
    free(path);
}

void maker_write_text(const char *dir, const char *name, const char *text)
{
    maker_write(dir, name, baton_bytes_of(text));
}

struct baton_bytes maker_read(const char *dir, const char *name)
{
    char *path = maker_join(dir, name);
    FILE *file = fopen(path, "rb");
    must(file != NULL, path);
    must(fseek(file, 0, SEEK_END) == 0, path);
    size_t size = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(size + 1);
    must(data != NULL && fread(data, 1, size, file) == size, path);
    fclose(file);
    free(path);
    return (struct baton_bytes){ data, size };
}

void maker_damage(const char *dir, const char *name, long offset)
{
    char *path = maker_join(dir, name);
    FILE *file = fopen(path, "r+b");
    must(file != NULL && fseek(file, offset, SEEK_SET) == 0, path);
    int byte = fgetc(file);
    must(byte != EOF && fseek(file, offset, SEEK_SET) == 0, path);
    fputc(byte ^ 0x10, file);
    must(fclose(file) == 0, path);
    free(path);
}

static void write_safetensors(const char *dir, const char *name, const char *header,
                              struct baton_bytes data)
{
    size_t header_bytes = strlen(header);
    size_t size = 8 + header_bytes + data.size;
    uint8_t *file = malloc(size);
    must(file != NULL, "malloc");
    struct baton_writer writer = baton_writer_of(file, size);
    baton_write_u64le(&writer, header_bytes);
    baton_write_bytes(&writer, baton_bytes_of(header));
    baton_write_bytes(&writer, data);
    maker_write(dir, name, (struct baton_bytes){ file, size });
    free(file);
}

void maker_safetensors(const char *dir, const char *name, const char *header, size_t data_bytes)
{
    uint8_t *data = maker_bytes(data_bytes);
    write_safetensors(dir, name, header, (struct baton_bytes){ data, data_bytes });
    free(data);
}

void maker_checkpoint(const char *dir, size_t shift)
{
    /* a: 3 bytes, b: 2 MiB + 256 KiB, c: 40 bytes, d: empty. */
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"a.bias\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
        "\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[1152,1024],\"data_offsets\":[3,2359299]},"
        "\"c.weight\":{\"dtype\":\"F32\",\"shape\":[2,5],\"data_offsets\":[2359299,2359339]},"
        "\"d.empty\":{\"dtype\":\"I64\",\"shape\":[0,4],\"data_offsets\":[2359339,2359339]}}";
    uint8_t *data = maker_bytes(2359339 + shift);
    write_safetensors(dir, "model.safetensors", header,
                      (struct baton_bytes){ data + shift, 2359339 });
    free(data);
    maker_write_text(dir, "config.json", "{\"architectures\": [\"Qwen3ForCausalLM\"]}");
    maker_write_text(dir, "tokenizer.json", "{}");
    maker_write_text(dir, "README.md", "not part of a version");
}
