/* times.c -- google.protobuf.Timestamp and Duration to nanoseconds and back; see wire.h. */
#include "api/wire/wire.h"
#include "google/protobuf/duration.pb-c.h"
#include "google/protobuf/timestamp.pb-c.h"

#define NS_PER_S INT64_C(1000000000)

struct Google__Protobuf__Timestamp *baton_wire_timestamp(void *root, uint64_t wall_ns)
{
    if (wall_ns == 0) {
        return NULL;
    }
    Google__Protobuf__Timestamp *timestamp =
        baton_wire_part(root, &google__protobuf__timestamp__descriptor);
    timestamp->seconds = (int64_t)(wall_ns / (uint64_t)NS_PER_S);
    timestamp->nanos = (int32_t)(wall_ns % (uint64_t)NS_PER_S);
    return timestamp;
}

struct Google__Protobuf__Duration *baton_wire_duration(void *root, uint64_t ns)
{
    Google__Protobuf__Duration *duration =
        baton_wire_part(root, &google__protobuf__duration__descriptor);
    duration->seconds = (int64_t)(ns / (uint64_t)NS_PER_S);
    duration->nanos = (int32_t)(ns % (uint64_t)NS_PER_S);
    return duration;
}

static struct baton_status to_ns(int64_t seconds, int32_t nanos, const char *field, uint64_t *out)
{
    if (seconds < 0 || nanos < 0 || nanos >= NS_PER_S) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "%s: must not be negative, with nanos below 1000000000", field);
    }
    if (seconds >= INT64_MAX / NS_PER_S) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "%s: is more than 292 years", field);
    }
    *out = (uint64_t)(seconds * NS_PER_S + nanos);
    return baton_status_ok();
}

struct baton_status baton_wire_timestamp_ns(const struct Google__Protobuf__Timestamp *timestamp,
                                            const char *field, uint64_t *out)
{
    if (timestamp == NULL) {
        *out = 0;
        return baton_status_ok();
    }
    return to_ns(timestamp->seconds, timestamp->nanos, field, out);
}

struct baton_status baton_wire_duration_ns(const struct Google__Protobuf__Duration *duration,
                                           const char *field, uint64_t *out)
{
    if (duration == NULL) {
        *out = 0;
        return baton_status_ok();
    }
    return to_ns(duration->seconds, duration->nanos, field, out);
}
