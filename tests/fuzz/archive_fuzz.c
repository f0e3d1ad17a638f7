/* archive_fuzz.c -- any bytes as an archive: read to a refusal or to the end, never past it. */
#include <stdio.h>
#include <stdlib.h>

#include "controller/store/archive_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *file = size == 0 ? NULL : fmemopen((void *)(uintptr_t)data, size, "r");
    struct archive_reader *reader = file == NULL ? NULL : archive_reader_create(file);
    const struct archive_line *line = NULL;
    struct baton_status st = baton_status_ok();
    while (reader != NULL && baton_ok(&st) && (line == NULL || line->kind != ARCHIVE_END)) {
        st = archive_read(reader, &line);
    }
    archive_reader_destroy(reader);
    if (file != NULL) {
        (void)fclose(file);
    }
    return 0;
}
