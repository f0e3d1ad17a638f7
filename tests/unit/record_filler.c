/* record_filler.c -- see record_filler.h. */
#include "tests/unit/record_filler.h"

#include <string.h>

#include "controller/store/record_fields.h"

static void fill(const struct field_table *table, uint8_t *body, uint32_t *counter)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct field *field = &table->rows[i];
        uint8_t *at = body + field->offset;
        *counter += 1;
        uint64_t u64 = UINT64_C(1000000007) * *counter;
        uint32_t u32 = *counter;
        uint32_t word = 1;
        double real = -1.5 - *counter;
        bool truth = true;
        switch (field->kind) {
        case FIELD_TEXT: memset(at, 'a' + (int)(*counter % 26), field->size - 1); break;
        case FIELD_U64: memcpy(at, &u64, sizeof(u64)); break;
        case FIELD_U32: memcpy(at, &u32, sizeof(u32)); break;
        case FIELD_BOOL: memcpy(at, &truth, sizeof(truth)); break;
        case FIELD_DOUBLE: memcpy(at, &real, sizeof(real)); break;
        case FIELD_WORD: memcpy(at, &word, sizeof(word)); break;
        case FIELD_STRUCT: fill(field->fields, at, counter); break;
        case FIELD_LIST:
            u32 = 2;
            memcpy(body + field->count_offset, &u32, sizeof(u32));
            fill(field->fields, at, counter);
            fill(field->fields, at + field->fields->struct_bytes, counter);
            break;
        }
    }
}

void record_fill(enum record_kind kind, union record_body *out)
{
    uint32_t counter = 0;
    memset(out, 0, sizeof(*out));
    fill(record_fields(kind), (uint8_t *)out, &counter);
}
