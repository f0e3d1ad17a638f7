/* packet.h -- what travels between the cores: one core's action, as the other core's event.
 *
 * Stands for agent/shell/link_send.c, link_take.c and controller/shell/report.c, session.c: the same
 * members, copied deep, without protobuf between them.  A member that one core gains and the other
 * must hear of needs its line in packet.c.
 *
 * Ownership: packet_free(). */
#ifndef TESTS_SIM_PACKET_H
#define TESTS_SIM_PACKET_H

#include "tests/sim/world.h"

struct packet {
    bool is_up;
    bool is_close;   /* Down: the controller ended the session. */
    bool twice;      /* It arrives twice. */
    struct event up; /* Its session is filled in on arrival. */
    struct agent_event down;
    void *blocks[48];
    uint32_t blocks_count;
};

struct packet *packet_of_hello(const struct agent_hello *hello);
struct packet *packet_of_report(const struct agent_report *report);
struct packet *packet_of_ack(uint64_t revision, const char *refusal);
struct packet *packet_of_send(const struct action_send *send);
struct packet *packet_of_close(void);
void packet_free(struct packet *packet);
/* In a few words, for the story. */
const char *packet_name(const struct packet *packet);

#endif /* packet.h */
