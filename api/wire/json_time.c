/* json_time.c -- text of Timestamp and Duration; see json.h. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/json.h"

enum { NS_PER_S = 1000000000, S_PER_DAY = 86400 };
/* 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z. */
#define SECONDS_MIN  INT64_C(-62135596800)
#define SECONDS_MAX  INT64_C(253402300799)
#define DURATION_MAX INT64_C(315576000000)

/* Days since 1970-01-01 of a date in the Gregorian calendar; years are counted from March. */
static int64_t days_of(int64_t year, int month, int day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static void date_of(int64_t days, int64_t *year, int *month, int *day)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted = (5 * day_of_year + 2) / 153;
    *day = (int)(day_of_year - (153 * shifted + 2) / 5 + 1);
    *month = (int)(shifted < 10 ? shifted + 3 : shifted - 9);
    *year = year_of_era + era * 400 + (*month <= 2);
}

/* ".5", ".000000001" or nothing, in groups of three digits. */
static void fraction_text(int32_t nanos, char out[16])
{
    out[0] = '\0';
    if (nanos > 0) {
        (void)snprintf(out, 16, ".%09" PRId32, nanos);
        size_t digits = nanos % 1000000 == 0 ? 3 : nanos % 1000 == 0 ? 6 : 9;
        out[1 + digits] = '\0';
    }
}

void wire_json_timestamp_text(int64_t seconds, int32_t nanos, char out[JSON_TIME_BYTES])
{
    if (seconds < SECONDS_MIN || seconds > SECONDS_MAX || nanos < 0 || nanos >= NS_PER_S) {
        (void)snprintf(out, JSON_TIME_BYTES, "out of range");
        return;
    }
    int64_t days = seconds / S_PER_DAY - (seconds % S_PER_DAY < 0);
    int of_day = (int)(seconds - days * S_PER_DAY);
    int64_t year;
    int month;
    int day;
    date_of(days, &year, &month, &day);
    char fraction[16];
    fraction_text(nanos, fraction);
    (void)snprintf(out, JSON_TIME_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d%sZ", (int)year, month, day,
                   of_day / 3600, of_day / 60 % 60, of_day % 60, fraction);
}

void wire_json_duration_text(int64_t seconds, int32_t nanos, char out[JSON_TIME_BYTES])
{
    bool is_negative = seconds < 0 || nanos < 0;
    uint64_t whole = seconds < 0 ? 0 - (uint64_t)seconds : (uint64_t)seconds;
    int64_t part = nanos < 0 ? -(int64_t)nanos : nanos;
    char fraction[16];
    fraction_text(part < NS_PER_S ? (int32_t)part : 0, fraction);
    (void)snprintf(out, JSON_TIME_BYTES, "%s%" PRIu64 "%ss", is_negative ? "-" : "", whole,
                   fraction);
}

/* Reads ".123" into nanoseconds, at most nine digits; moves '*text' behind it. */
static bool parse_fraction(const char **text, int32_t *nanos)
{
    *nanos = 0;
    if (**text != '.') {
        return true;
    }
    int32_t scale = NS_PER_S;
    const char *at = *text + 1;
    for (; isdigit((unsigned char)*at); at++) {
        if (scale == 1) {
            return false;
        }
        scale /= 10;
        *nanos += (*at - '0') * scale;
    }
    bool has_digits = at != *text + 1;
    *text = at;
    return has_digits;
}

/* 'count' digits as a number; -1 if there are fewer. */
static int parse_digits(const char *text, int count)
{
    int value = 0;
    for (int i = 0; i < count; i++) {
        if (!isdigit((unsigned char)text[i])) {
            return -1;
        }
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

/* "Z" or "+hh:mm" to the end of the text. */
static bool parse_offset(const char *text, int64_t *seconds)
{
    *seconds = 0;
    if (strcmp(text, "Z") == 0 || strcmp(text, "z") == 0) {
        return true;
    }
    if ((text[0] != '+' && text[0] != '-') || strlen(text) != 6 || text[3] != ':') {
        return false;
    }
    int hours = parse_digits(text + 1, 2);
    int minutes = parse_digits(text + 4, 2);
    *seconds = (text[0] == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    return hours >= 0 && hours < 24 && minutes >= 0 && minutes < 60;
}

static bool date_is_valid(int year, int month, int day)
{
    static const int DAYS[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    if (year < 1 || month < 1 || month > 12 || day < 1) {
        return false;
    }
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return day <= DAYS[month - 1] + (month == 2 && is_leap ? 1 : 0);
}

bool wire_json_parse_timestamp(const char *text, int64_t *seconds, int32_t *nanos)
{
    if (strlen(text) < 20 || text[4] != '-' || text[7] != '-' ||
        toupper((unsigned char)text[10]) != 'T' || text[13] != ':' || text[16] != ':') {
        return false;
    }
    int year = parse_digits(text, 4);
    int month = parse_digits(text + 5, 2);
    int day = parse_digits(text + 8, 2);
    int hour = parse_digits(text + 11, 2);
    int minute = parse_digits(text + 14, 2);
    int second = parse_digits(text + 17, 2);
    const char *rest = text + 19;
    int64_t offset;
    if (!date_is_valid(year, month, day) || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
        second < 0 || second > 59 || !parse_fraction(&rest, nanos) ||
        !parse_offset(rest, &offset)) {
        return false;
    }
    *seconds = days_of(year, month, day) * S_PER_DAY + hour * 3600 + minute * 60 + second - offset;
    return *seconds >= SECONDS_MIN && *seconds <= SECONDS_MAX;
}

/* Seconds, or milliseconds as a negative number, that a unit stands for; 0 for an unknown one. */
static int64_t unit_of(const char *text)
{
    static const struct {
        const char *text;
        int64_t seconds;
    } UNITS[] = { { "s", 1 }, { "ms", -1000 }, { "m", 60 }, { "h", 3600 } };
    for (size_t i = 0; i < sizeof(UNITS) / sizeof(UNITS[0]); i++) {
        if (strcmp(text, UNITS[i].text) == 0) {
            return UNITS[i].seconds;
        }
    }
    return 0;
}

bool wire_json_parse_duration(const char *text, int64_t *seconds, int32_t *nanos)
{
    bool is_negative = text[0] == '-';
    text += is_negative ? 1 : 0;
    char *end = NULL;
    unsigned long long whole = strtoull(text, &end, 10);
    const char *rest = end;
    int32_t part;
    if (!isdigit((unsigned char)text[0]) || whole > (unsigned long long)DURATION_MAX ||
        !parse_fraction(&rest, &part)) {
        return false;
    }
    int64_t unit = unit_of(rest);
    if (unit == 0 || (unit != 1 && part != 0)) {
        return false;
    }
    int64_t value = (int64_t)whole;
    *seconds = unit > 0 ? value * unit : value / 1000;
    *nanos = unit > 0 ? part : (int32_t)(value % 1000) * 1000000;
    if (is_negative) {
        *seconds = -*seconds;
        *nanos = -*nanos;
    }
    return *seconds >= -DURATION_MAX && *seconds <= DURATION_MAX;
}
