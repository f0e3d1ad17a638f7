/* session_peers.c -- see session_peers.h. */
#include "controller/shell/session_peers.h"

#include <stdio.h>

static const char *named(const char *text, const char *otherwise)
{
    return text[0] != '\0' ? text : otherwise;
}

/* An agent's words, as what may be cut anywhere: half of a character would be text that nobody can read back. */
static void only_ascii(char *text)
{
    for (; text != NULL && *text != '\0'; text++) {
        *text = *text >= ' ' && *text <= '~' ? *text : '?';
    }
}

static void log_trouble(struct daemon *daemon, const struct session *session, const char *reason,
                        const char *message)
{
    char object[BATON_NAME_BYTES + 16];
    (void)snprintf(object, sizeof(object), "agent/%.63s", session->agent);
    struct agent_event told = { object, true, reason, message };
    struct event event = { .kind = EVENT_SESSION_REPORT,
                           .body.report = {
                               .session = session->id, .events = &told, .events_count = 1 } };
    daemon_step(daemon, &event);
}

static void take_refusal(struct daemon *daemon, const struct session *session,
                         const Baton__V1__PeerTrouble *trouble)
{
    char object[BATON_NAME_BYTES + 16];
    char message[BATON_TEXT_BYTES];
    struct baton_status st =
        baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED,
                          "version %.32s: %.200s", trouble->digest, trouble->message);
    (void)snprintf(object, sizeof(object), "agent/%.63s", session->agent);
    struct audit_entry entry = { .principal = named(trouble->identity, "anonymous"),
                                 .address = trouble->address,
                                 .requested_by = trouble->peer,
                                 .method = "p2p/Pull",
                                 .object = object,
                                 .status = &st,
                                 .told_by = object };
    audit_write(daemon->audit, &entry);
    (void)snprintf(message, sizeof(message), "peer %.60s at %.60s was refused: %.100s",
                   named(trouble->peer, "?"), trouble->address, trouble->message);
    log_trouble(daemon, session, "PeerRefused", message);
}

static void take_poison(struct daemon *daemon, const struct session *session,
                        const Baton__V1__PeerTrouble *trouble)
{
    char message[BATON_TEXT_BYTES];
    (void)snprintf(message, sizeof(message), "peer %.60s at %.50s: version %.32s: %.90s",
                   named(trouble->peer, "?"), trouble->address, trouble->digest, trouble->message);
    log_trouble(daemon, session, "PeerPoisoned", message);
}

void session_take_peer_trouble(struct daemon *daemon, struct session *session,
                               const Baton__V1__PeerTrouble *trouble)
{
    char *const texts[] = { trouble->peer, trouble->identity, trouble->address, trouble->digest,
                            trouble->message };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        only_ascii(texts[i]);
    }
    switch (trouble->kind) {
    case BATON__V1__PEER_TROUBLE_KIND__PEER_TROUBLE_KIND_REFUSED:
        take_refusal(daemon, session, trouble);
        break;
    case BATON__V1__PEER_TROUBLE_KIND__PEER_TROUBLE_KIND_POISONED:
        take_poison(daemon, session, trouble);
        break;
    case BATON__V1__PEER_TROUBLE_KIND__PEER_TROUBLE_KIND_UNSPECIFIED:
    case _BATON__V1__PEER_TROUBLE_KIND_IS_INT_SIZE: break; /* Of a newer agent. */
    }
}
