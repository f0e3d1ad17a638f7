/* doubt.pml -- a group whose engines belong to two agents, and a follower in doubt (rule 4).
 *
 * Member 0 leads; each has one engine and a journal.  One swap from 0 to 1.  Messages come late, in
 * any order, or never; a member may die between any two steps and come back, and one journal may be
 * lost.  When the controller has waited long enough it resolves: it asks the members for the
 * outcome; being asked fences; any COMMIT wins; the gate of one who stays silent is proved shut.
 *
 * Holds: an open gate means that all engines of the group that are not proved dead hold its version;
 * what was served as committed is not taken back; after the resolution nobody serves another version
 * than the decided one; and nobody waits for ever.
 *
 * Mutants: FOLLOWER_RESUMES, NO_PREPARED, ASK_WITHOUT_FENCE, OPEN_BEFORE_COMMIT,
 * LEADER_OPENS_ALONE, SILENT_IS_SHUT, DECIDE_UNHEARD. */
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef LOSSES
#define LOSSES 1 /* Journals. */
#endif

#define NONE 2

/* Durable, of each member: what its journal says of the swap. */
bool prepared[2]; /* PREPARED, at the leader INTENT: weights may have changed. */
bool commit[2];   /* COMMIT. */
bool back[2];     /* Restored: the swap is over, without COMMIT. */
bool fenced[2];   /* It was asked. */
bool blank[2];    /* The journal is a new one: shut, until the resolution. */

byte resident[2];
bool gate[2] = true;
bool alive[2] = true;
bool newlife[2]; /* The engine is not the one that the journal's records name. */

/* On their way, as a set. */
bool m_apply, m_applied, m_commit, m_committed, m_restore, m_restored, m_reopen;

/* The resolving ticket. */
bool answered[2];
bool any_commit;
bool heard; /* A journal that took part has answered. */
byte decision = NONE;

byte crashes, losses;
bool served; /* A gate was open on 1: somebody has seen it. */

inline may_die()
{
    if
    :: skip
    :: atomic { crashes < CRASHES -> crashes++; goto dead }
    fi
}

/* The engine stays; its gate stays as it is; the journal may be lost. */
inline restarted(m)
{
    if
    :: skip
    :: atomic {
        losses < LOSSES -> losses++;
        prepared[m] = false; commit[m] = false; back[m] = false; fenced[m] = false; blank[m] = true
       }
    fi;
    if /* A new journal knows nothing: gates shut before the session opens (rule 6). */
    :: blank[m] -> gate[m] = false
    :: else
    fi
}

#define OVER (decision != NONE)
/* Obeys the swap: it names the lives and the journals that it is about. */
#define MAY(m) (!fenced[m] && !blank[m] && !newlife[m])

/* What was asked for under this ticket is void once the member was asked (rule 2). */
#define WRITE_WEIGHTS(m, v, otherwise) if :: atomic { MAY(m) -> resident[m] = v } :: !MAY(m) -> goto otherwise fi

inline opened(m, v)
{
    assert(resident[m] == v && resident[1 - m] == v);
    gate[m] = true;
    served = served || v == 1
}

#define OPEN_GATE(m, v, otherwise) if :: atomic { MAY(m) -> opened(m, v) } :: !MAY(m) -> goto otherwise fi

active proctype leader()
{
    gate[0] = false;
    m_apply = true;
    may_die();
    if /* All gates are shut before the first weight changes. */
    :: atomic { m_applied -> m_applied = false }
    :: goto restore /* Deadline. */
    fi;
    may_die();
    prepared[0] = true;
    may_die();
    WRITE_WEIGHTS(0, 1, doubt);
    may_die();
    if
    :: atomic { MAY(0) -> commit[0] = true } /* COMMIT. */
    :: !MAY(0) -> goto doubt
    fi;
    may_die();
    m_commit = true;
    may_die();
#ifdef MUTANT_LEADER_OPENS_ALONE
    OPEN_GATE(0, 1, doubt);
    may_die();
#endif
resume: /* The first engine's gate opens last: when the followers' COMMIT is durable too. */
    if
    :: atomic { m_committed -> m_committed = false }
    :: OVER || fenced[0] -> goto doubt
    fi;
    may_die();
    OPEN_GATE(0, 1, doubt);
    goto wait;

restore: /* Nobody opens before all are restored. */
    if
    :: MAY(0) && !commit[0] -> skip
    :: else -> goto doubt
    fi;
    m_restore = true;
    may_die();
    WRITE_WEIGHTS(0, 0, doubt);
    may_die();
    if
    :: atomic { m_restored -> m_restored = false }
    :: OVER || fenced[0] -> goto doubt
    fi;
    may_die();
    if
    :: atomic { MAY(0) -> back[0] = true }
    :: !MAY(0) -> goto doubt
    fi;
    may_die();
    m_reopen = true;
    may_die();
    OPEN_GATE(0, 0, doubt);
    goto wait;

dead:
    alive[0] = false;
    restarted(0);
    if
    :: alive[0] = true
    :: atomic { losses < LOSSES -> losses++; goto wait } /* It stays away. */
    fi;
    if /* The journal says how far it came. */
    :: blank[0] || fenced[0] || newlife[0] -> goto doubt
    :: MAY(0) && commit[0] -> m_commit = true; goto resume
    :: MAY(0) && !commit[0] && back[0] -> m_reopen = true; OPEN_GATE(0, 0, doubt); goto wait
    :: MAY(0) && !commit[0] && !back[0] -> goto restore
    fi;

doubt:
    gate[0] = false;
wait:
    skip
}

active proctype follower()
{
    goto wait;
work:
    gate[1] = false;
    may_die();
#ifndef MUTANT_NO_PREPARED
    prepared[1] = true;
#endif
    may_die();
    WRITE_WEIGHTS(1, 1, wait);
    may_die();
    m_applied = true;
wait:
    may_die();
    do
    :: atomic { m_apply && MAY(1) && !prepared[1] && !back[1] -> m_apply = false; goto work }
    :: atomic { m_apply && !(MAY(1) && !prepared[1] && !back[1]) -> m_apply = false }
    :: atomic {
        m_commit -> m_commit = false;
        if
        :: MAY(1) && prepared[1] && !commit[1] && !back[1] -> goto committing
        :: MAY(1) && commit[1] -> m_committed = true
        :: else
        fi
       }
    :: atomic {
        m_restore -> m_restore = false;
        if
        :: MAY(1) && !commit[1] && !back[1] -> goto restoring
        :: MAY(1) && back[1] -> m_restored = true
        :: else
        fi
       }
    :: atomic { m_reopen && MAY(1) && back[1] -> m_reopen = false; opened(1, 0) }
#ifdef MUTANT_FOLLOWER_RESUMES
    :: atomic { MAY(1) && prepared[1] && !commit[1] && !back[1] -> resident[1] = 0; back[1] = true; gate[1] = true }
#endif
    :: OVER -> break
    od;
    goto done;
committing:
#ifdef MUTANT_OPEN_BEFORE_COMMIT
    OPEN_GATE(1, 1, wait);
    may_die();
#endif
    if
    :: atomic { MAY(1) -> commit[1] = true }
    :: !MAY(1) -> goto wait
    fi;
    may_die();
    OPEN_GATE(1, 1, wait);
    may_die();
    m_committed = true;
    goto wait;
restoring:
    gate[1] = false;
    may_die();
    WRITE_WEIGHTS(1, 0, wait);
    may_die();
    if
    :: atomic { MAY(1) -> back[1] = true }
    :: !MAY(1) -> goto wait
    fi;
    may_die();
    m_restored = true;
    goto wait;
dead:
    alive[1] = false;
    restarted(1);
    if
    :: alive[1] = true
    :: atomic { losses < LOSSES -> losses++; goto done } /* It stays away. */
    fi;
    if
    :: blank[1] || fenced[1] || newlife[1] -> skip
    :: MAY(1) && commit[1] -> OPEN_GATE(1, 1, wait)
    :: MAY(1) && !commit[1] && prepared[1] -> gate[1] = false /* In doubt means shut. */
    :: MAY(1) && !commit[1] && !prepared[1] -> /* It serves on if it did; a shut gate waits for the leader. */
#ifdef MUTANT_NO_PREPARED
        gate[1] = true /* Its journal knows of no swap. */
#else
        skip
#endif
    fi;
    goto wait;
done:
    skip
}

/* Who stays silent may be the only one who knows: somebody who took part must have answered. */
#ifdef MUTANT_DECIDE_UNHEARD
#define CAN_DO_WITHOUT true
#else
#define CAN_DO_WITHOUT heard
#endif

#ifdef MUTANT_ASK_WITHOUT_FENCE
#define FENCE(m) skip
#else
#define FENCE(m) fenced[m] = true
#endif

inline answers(m)
{
    FENCE(m);
    any_commit = any_commit || commit[m];
    heard = heard || !blank[m];
    answered[m] = true
}

/* Its engine is proved dead: another life boots with 0, gate shut. */
inline is_silent(m)
{
#ifndef MUTANT_SILENT_IS_SHUT
    gate[m] = false; resident[m] = 0; newlife[m] = true;
#endif
    answered[m] = true
}

/* Asks when it likes: it cannot know how far the swap came. */
active proctype controller()
{
    do
    :: atomic { !answered[0] && alive[0] -> answers(0) }
    :: atomic { !answered[1] && alive[1] -> answers(1) }
    :: atomic { !answered[0] && !alive[0] && CAN_DO_WITHOUT -> is_silent(0) }
    :: atomic { !answered[1] && !alive[1] && CAN_DO_WITHOUT -> is_silent(1) }
    :: answered[0] && answered[1] -> break
    od;
    decision = (any_commit -> 1 : 0);
    /* The members are OUT; a rejoin ticket brings them to the decision with all gates shut. */
    if
    :: gate[0] && gate[1] && resident[0] == decision && resident[1] == decision
    :: else ->
        atomic { gate[0] = false; gate[1] = false }
        resident[0] = decision;
        resident[1] = decision;
        gate[1] = true;
        gate[0] = true
    fi
}

/* One gate that is open speaks for both engines, but for one that is proved dead. */
#define UNIFORM (resident[0] == resident[1] || newlife[0] || newlife[1] || decision != NONE)
#define SOUND ((!(gate[0] || gate[1]) || UNIFORM) && !(gate[0] && gate[1] && resident[0] != resident[1]) && \
               !(served && decision == 0) && \
               !(decision != NONE && ((gate[0] && resident[0] != decision) || (gate[1] && resident[1] != decision))))

active proctype watch()
{
end:
    atomic { !(SOUND) -> assert(false) }
}
