/* files.c -- the page's files, which are part of the program; see bridge.h. */
#include <string.h>

#include "controller/dashboard/bridge.h"

/* page.S has the table; its last row is null. */
struct page_file {
    const char *path;
    const char *begin;
    const char *end;
};
extern const struct page_file page_files[];

static const char *type_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    return strcmp(dot, ".js") == 0    ? "text/javascript; charset=utf-8"
           : strcmp(dot, ".css") == 0 ? "text/css; charset=utf-8"
                                      : "text/html; charset=utf-8";
}

/* The page loads nothing from elsewhere, sends nothing elsewhere, and stands in no other page. */
static const struct web_field FIELDS[] = {
    { "Content-Security-Policy",
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
      "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" },
    { "X-Content-Type-Options", "nosniff" },
    { "Referrer-Policy", "no-referrer" },
    { "Cache-Control", "no-cache" },
};

void bridge_answer_file(struct web_request *request)
{
    const char *path = web_path(request);
    path = strcmp(path, "/") == 0 ? "/index.html" : path;
    for (const struct page_file *file = page_files; file->path != NULL; file++) {
        if (strcmp(file->path, path) == 0) {
            const struct web_answer answer = { .code = 200,
                                               .type = type_of(path),
                                               .body = { (const uint8_t *)file->begin,
                                                         (size_t)(file->end - file->begin) },
                                               .fields = FIELDS,
                                               .fields_count = sizeof(FIELDS) / sizeof(FIELDS[0]) };
            (void)web_answer(request, &answer);
            return;
        }
    }
    web_answer_text(request, 404, "there is no such file\n");
}
