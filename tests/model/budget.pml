/* budget.pml -- the availability budget across failover and rejoin (invariant 4).
 *
 * GROUPS groups of one model, of which BUDGET may be away at once.  Each serves, swaps under a
 * ticket, or is OUT after its engine died, and comes back under a rejoin ticket.  The controller may
 * fail over at any point: tickets are stored, what groups reported is not.  Reports come late.
 *
 * Holds: when a roll ticket is issued, at most BUDGET groups are away by the truth, with those that
 * died and were not heard of yet counted on top only; and at rest every group serves: free rejoin
 * tickets cannot be starved by the budget.
 *
 * Mutants: TRUSTS_STORED (what was stored of a group is believed after a failover),
 * REJOIN_NEEDS_ROOM, TICKET_ONLY (only tickets count), OLD_REPORTS (a report of an earlier
 * leadership counts). */
#ifndef GROUPS
#define GROUPS 3
#endif
#ifndef BUDGET
#define BUDGET 1
#endif
#ifndef FAILOVERS
#define FAILOVERS 1
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef SWAPS
#define SWAPS 2
#endif

/* The truth. */
bool out[GROUPS];
bool swapping[GROUPS]; /* The agent has a ticket: gate shut. */

/* Durable: in the store. */
bool ticket[GROUPS];
bool rejoin[GROUPS];
bool stored_out[GROUPS]; /* The last report, as a careless store might keep it. */

/* Volatile: the controller's knowledge. */
byte epoch = 1;
bool known[GROUPS] = true;
bool known_out[GROUPS];

/* Reports under way: of which epoch (0: none), saying what. */
byte r_epoch[GROUPS];
bool r_out[GROUPS];
byte late_epoch = 0; /* Of group 0, from a session that is over. */
bool late_out = false;
bool death_told[GROUPS] = true; /* The controller of this epoch has heard of the group's death. */

byte failovers = 0, deaths = 0, swaps = 0;

#ifdef MUTANT_TICKET_ONLY
#define AWAY(g) (ticket[g])
#else
#define AWAY(g) (ticket[g] || !known[g] || known_out[g])
#endif
#define COUNT (AWAY(0) + AWAY(1) + AWAY(2))

/* Who is away by the truth; one that died and could not be heard of yet is nobody's mistake. */
#define GONE(g) (ticket[g] || (out[g] && death_told[g]))
#define TRULY (GONE(0) + GONE(1) + GONE(2))

#ifdef MUTANT_REJOIN_NEEDS_ROOM
#define FREE (COUNT < BUDGET)
#else
#define FREE true
#endif

inline issue_roll(g)
{
    swaps++; ticket[g] = true; rejoin[g] = false;
    assert(TRULY <= BUDGET)
}

inline take_report(g)
{
    if
    :: r_epoch[g] == epoch ->
        known[g] = true; known_out[g] = r_out[g];
        death_told[g] = death_told[g] || r_out[g]
    :: else
    fi;
    r_epoch[g] = 0; r_out[g] = false
}

active proctype controller()
{
end:
    do
    :: atomic { swaps < SWAPS && known[0] && !known_out[0] && !ticket[0] && COUNT < BUDGET -> issue_roll(0) }
    :: atomic { swaps < SWAPS && known[1] && !known_out[1] && !ticket[1] && COUNT < BUDGET -> issue_roll(1) }
    :: atomic { swaps < SWAPS && known[2] && !known_out[2] && !ticket[2] && COUNT < BUDGET -> issue_roll(2) }
    :: atomic { known[0] && known_out[0] && !ticket[0] && FREE -> ticket[0] = true; rejoin[0] = true }
    :: atomic { known[1] && known_out[1] && !ticket[1] && FREE -> ticket[1] = true; rejoin[1] = true }
    :: atomic { known[2] && known_out[2] && !ticket[2] && FREE -> ticket[2] = true; rejoin[2] = true }
    :: atomic { r_epoch[0] != 0 -> take_report(0) }
    :: atomic { r_epoch[1] != 0 -> take_report(1) }
    :: atomic { r_epoch[2] != 0 -> take_report(2) }
    :: atomic {
        late_epoch != 0 ->
#ifdef MUTANT_OLD_REPORTS
        known[0] = true; known_out[0] = late_out;
#endif
        late_epoch = 0; late_out = false
       }
    :: d_step { /* Fails over: tickets are read from the store, everything else is unknown. */
        failovers < FAILOVERS -> failovers++; epoch++;
        if
        :: r_epoch[0] != 0 -> late_epoch = r_epoch[0]; late_out = r_out[0]; r_epoch[0] = 0; r_out[0] = false
        :: else
        fi;
#ifdef MUTANT_TRUSTS_STORED
        known_out[0] = stored_out[0]; known_out[1] = stored_out[1]; known_out[2] = stored_out[2]
#else
        known[0] = false; known[1] = false; known[2] = false;
        known_out[0] = false; known_out[1] = false; known_out[2] = false
#endif
       }
    od
}

/* A group and its agent: restates to each epoch, tells what changed, and swaps under its ticket. */
proctype group(byte g)
{
    byte told = 1; /* The epoch that it restated to. */
    bool changed = false;
end:
    do
    :: atomic { r_epoch[g] == 0 && (told < epoch || changed) -> told = epoch; changed = false; r_epoch[g] = epoch; r_out[g] = out[g] || swapping[g] }
    :: atomic { deaths < DEATHS && !out[g] -> deaths++; out[g] = true; death_told[g] = false; changed = true }
    :: atomic { ticket[g] && !swapping[g] && (rejoin[g] == out[g]) -> swapping[g] = true }
    :: atomic { ticket[g] && !swapping[g] && rejoin[g] != out[g] -> ticket[g] = false; changed = true } /* REFUSED, with the report. */
    :: atomic { /* It ends well, or OUT; the outcome is stored together with the report. */
        swapping[g] -> swapping[g] = false;
        if
        :: out[g] && !rejoin[g]
        :: else -> out[g] = false; death_told[g] = true
        fi;
        ticket[g] = false;
        known_out[g] = out[g]; stored_out[g] = out[g];
        death_told[g] = death_told[g] || out[g];
        r_epoch[g] = 0; r_out[g] = false; changed = true
       }
    od
}

init
{
    atomic { run group(0); run group(1); run group(2) };
    timeout ->
    assert(!out[0] && !out[1] && !out[2] && !ticket[0] && !ticket[1] && !ticket[2]);
    assert(swaps == SWAPS)
}
