/* text.c -- texts for cells; see print.h. */
#include "controller/cli/print.h"

#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "google/protobuf/timestamp.pb-c.h"

static void cell(char out[CLI_CELL_BYTES], double number, const char *unit)
{
    (void)snprintf(out, CLI_CELL_BYTES, number < 10 ? "%.1f %s" : "%.0f %s", number, unit);
}

static void write_seconds(unsigned long seconds, char out[CLI_CELL_BYTES])
{
    if (seconds < 120) {
        (void)snprintf(out, CLI_CELL_BYTES, "%lus", seconds);
    } else if (seconds < 7200) {
        (void)snprintf(out, CLI_CELL_BYTES, "%lum", seconds / 60);
    } else if (seconds < 172800) {
        (void)snprintf(out, CLI_CELL_BYTES, "%luh", seconds / 3600);
    } else {
        (void)snprintf(out, CLI_CELL_BYTES, "%lud", seconds / 86400);
    }
}

void cli_text_age(const Google__Protobuf__Timestamp *at, char out[CLI_CELL_BYTES])
{
    uint64_t then = 0;
    struct baton_status st = baton_wire_timestamp_ns(at, "at", &then);
    if (!baton_ok(&st) || then == 0) {
        (void)snprintf(out, CLI_CELL_BYTES, "-");
        return;
    }
    uint64_t now = baton_clock_wall_ns();
    write_seconds((unsigned long)(now > then ? (now - then) / BATON_NS_PER_S : 0), out);
}

void cli_text_left(const Google__Protobuf__Timestamp *at, char out[CLI_CELL_BYTES])
{
    uint64_t then = 0;
    uint64_t now = baton_clock_wall_ns();
    struct baton_status st = baton_wire_timestamp_ns(at, "at", &then);
    if (!baton_ok(&st) || then == 0) {
        (void)snprintf(out, CLI_CELL_BYTES, "-");
    } else if (then <= now) {
        (void)snprintf(out, CLI_CELL_BYTES, "ended");
    } else {
        char left[CLI_CELL_BYTES];
        write_seconds((unsigned long)((then - now) / BATON_NS_PER_S), left);
        (void)snprintf(out, CLI_CELL_BYTES, "in %.20s", left);
    }
}

void cli_text_duration(uint64_t ns, char out[CLI_CELL_BYTES])
{
    if (ns == 0) {
        (void)snprintf(out, CLI_CELL_BYTES, "-");
    } else if (ns < BATON_NS_PER_MS) {
        cell(out, (double)ns / 1e3, "us");
    } else if (ns < BATON_NS_PER_S) {
        cell(out, (double)ns / 1e6, "ms");
    } else {
        cell(out, (double)ns / 1e9, "s");
    }
}

void cli_text_bytes(uint64_t bytes, char out[CLI_CELL_BYTES])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double number = (double)bytes;
    unsigned unit = 0;
    while (number >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        number /= 1024;
        unit++;
    }
    if (unit == 0) {
        (void)snprintf(out, CLI_CELL_BYTES, "%.0f B", number);
    } else {
        cell(out, number, units[unit]);
    }
}

void cli_text_seq(uint64_t seq, char out[CLI_CELL_BYTES])
{
    (void)snprintf(out, CLI_CELL_BYTES, seq == 0 ? "-" : "v%llu", (unsigned long long)seq);
}

/* Bytes that all names of an enum begin with, up to and with the last '_' of them. */
static size_t common_prefix(const ProtobufCEnumDescriptor *descriptor)
{
    const char *first = descriptor->values[0].name;
    size_t size = strlen(first);
    for (unsigned i = 1; i < descriptor->n_values; i++) {
        size_t same = 0;
        while (same < size && descriptor->values[i].name[same] == first[same]) {
            same++;
        }
        size = same;
    }
    while (size > 0 && first[size - 1] != '_') {
        size--;
    }
    return size;
}

const char *cli_text_enum(const ProtobufCEnumDescriptor *descriptor, int value)
{
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(descriptor, value);
    return found == NULL || value == 0 ? "-" : found->name + common_prefix(descriptor);
}
