/* names.c -- see names.h. */
#include "transport/layout/names.h"

#include <string.h>

bool names_match(const char *pattern, const char *name, struct name_match *out)
{
    const char *star = NULL;   /* Behind the last star of the pattern that was met. */
    const char *resume = NULL; /* Where the rest of the name is tried next. */
    out->stars_count = 0;
    while (*name != '\0' || *pattern == '*') {
        if (*pattern == '*') {
            if (out->stars_count == NAMES_STARS_MAX) {
                return false;
            }
            out->stars[out->stars_count].text = name;
            out->stars[out->stars_count++].size = 0;
            star = ++pattern;
            resume = name;
        } else if (*name != '\0' && *pattern == *name) {
            pattern++;
            name++;
        } else if (star != NULL) {
            out->stars[out->stars_count - 1].size++;
            pattern = star;
            name = ++resume;
        } else {
            return false;
        }
    }
    return *pattern == '\0';
}

bool names_write(const char *into, const struct name_match *match, char *out, size_t out_bytes)
{
    size_t used = 0;
    for (; *into != '\0'; into++) {
        const char *text = into;
        size_t size = 1;
        if (into[0] == '$' && into[1] >= '1' && into[1] <= '9') {
            uint32_t star = (uint32_t)(into[1] - '1');
            if (star >= match->stars_count) {
                return false;
            }
            text = match->stars[star].text;
            size = match->stars[star].size;
            into++;
        }
        if (size >= out_bytes - used) {
            return false;
        }
        memcpy(out + used, text, size);
        used += size;
    }
    out[used] = '\0';
    return true;
}

/* Where 'word' begins at the start of 'name' or behind a dot; null: nowhere.  (strstr is no call for
 * a core.) */
static const char *find_word(const char *name, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = name; at != NULL;) {
        if (strncmp(at, word, size) == 0) {
            return at;
        }
        at = strchr(at, '.');
        at = at != NULL ? at + 1 : NULL;
    }
    return NULL;
}

bool names_number(const char *name, const char *word, uint32_t *out)
{
    const char *at = find_word(name, word);
    uint32_t number = 0;
    if (at == NULL) {
        return false;
    }
    at += strlen(word);
    if (*at < '0' || *at > '9') {
        return false;
    }
    for (; *at >= '0' && *at <= '9' && number < 100000000; at++) {
        number = number * 10 + (uint32_t)(*at - '0');
    }
    if (*at != '.' && *at != '\0') {
        return false;
    }
    *out = number;
    return true;
}
