/* agent_shell_arrival.c -- see agent_shell_arrival.h. */
#include "tests/unit/agent_shell_arrival.h"

#include <stdlib.h>
#include <string.h>

#include "api/wire/wire.h"
#include "baton/v1/agent_session.pb-c.h"
#include "controller/shell/report.h"

/* Encoded and decoded as on a connection, which refuses what is not UTF-8. */
static struct baton_status transfer(void *request, Baton__V1__SessionRequest **out)
{
    size_t size = baton_wire_size(request);
    uint8_t *bytes = malloc(size + 1);
    ProtobufCMessage *message = NULL;
    struct baton_wire_limits limits = { .bytes_max = BATON_MESSAGE_BYTES_MAX,
                                        .memory_max = (size_t)64 << 20,
                                        .depth_max = BATON_MESSAGE_DEPTH_MAX };
    baton_assert(bytes != NULL);
    baton_wire_encode(request, bytes);
    struct baton_status st =
        baton_wire_decode(&baton__v1__session_request__descriptor,
                          (struct baton_bytes){ bytes, size }, &limits, &message);
    free(bytes);
    baton_wire_free(request);
    *out = (Baton__V1__SessionRequest *)(void *)message;
    return st;
}

struct arrival arrive(void *request)
{
    Baton__V1__SessionRequest *message = NULL;
    struct arrival arrival = { .status = transfer(request, &message) };
    if (!baton_ok(&arrival.status)) {
        return arrival;
    }
    struct session_report report;
    struct report_memory memory = { NULL };
    memset(&report, 0, sizeof(report));
    arrival.status = report_from_message(message->report, &report, &memory);
    if (baton_ok(&arrival.status)) {
        arrival.outcomes_count = report.outcomes_count;
        arrival.events_count = report.events_count;
        if (report.outcomes_count > 0) {
            memcpy(arrival.probe_text, report.outcomes[0].record.probe_text,
                   sizeof(arrival.probe_text));
        }
    }
    report_memory_free(&memory);
    baton_wire_free(message);
    return arrival;
}
