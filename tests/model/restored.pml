/* restored.pml -- the store is put back from a backup while a ticket is in flight (rule 5).
 *
 * One model, two groups with an agent each, a trainer that publishes, a controller.  The backup is
 * taken at any moment and put back at any later one; then the store believes what it was.  A seq is
 * a number; what was published under it is its content, unique for ever (the digest).
 *
 * Holds: no agent sees one seq with two contents; a ticket is closed by its own outcome only; at rest
 * no ticket is open and what the store believes is what was committed.
 *
 * Mutants: SAME_GENERATION, NO_FLOORS, FLOORS_OF_ONE, OUTCOME_BY_NUMBER. */
#ifndef CONTENTS
#define CONTENTS 3
#endif
#ifndef TICKETS
#define TICKETS 3
#endif

/* The store.  Numbers start low; a generation is worth more than any epoch of an earlier one. */
byte st_generation = 1;
byte st_seq = 0;     /* The newest. */
byte st_content = 0; /* Of the newest. */
bool pending = false; /* Floors are unknown: no publish, no ticket. */
byte st_number[2];
bool st_open[2];
byte st_uid[2];
byte st_issued[2]; /* The generation that issued it. */
byte st_to[2];
byte st_topic[2]; /* The seq of 'to'. */
byte st_committed[2]; /* Contents. */

/* Its backup. */
bool have = false, restored = false;
byte b_seq, b_content;
byte b_number[2];
bool b_open[2];
byte b_uid[2];
byte b_issued[2];
byte b_to[2];
byte b_topic[2];
byte b_committed[2];

/* What exists for ever. */
byte contents = 0;
byte uids = 0;

/* The agents. */
byte j_generation[2] = 1;
byte j_number[2];
byte j_committed[2]; /* Content. */
byte j_seq[2];       /* Highest seen. */
byte seen_content[2];
byte o_uid[2];       /* The last outcome. */
byte o_number[2];
bool restated[2] = true;

/* In flight, to and from each agent. */
bool n_ticket[2];
byte n_generation[2];
byte n_number[2];
byte n_uid[2];
byte n_to[2];
byte n_seq[2];
bool n_outcome[2];
byte n_ouid[2];
byte n_onumber[2];

#define ISSUES(g) (!pending && restated[g] && !st_open[g] && st_seq != 0 && st_committed[g] != st_content && uids < TICKETS)

inline issue(g)
{
    uids++;
    st_number[g]++; st_uid[g] = uids; st_to[g] = st_content; st_topic[g] = st_seq;
    st_issued[g] = st_generation; st_open[g] = true
}

inline send(g)
{
    n_ticket[g] = true; n_generation[g] = st_issued[g]; n_number[g] = st_number[g];
    n_uid[g] = st_uid[g]; n_to[g] = st_to[g]; n_seq[g] = st_topic[g]
}

/* An outcome counts only if it names the open ticket. */
inline take_outcome(g)
{
    n_outcome[g] = false;
    if
#ifdef MUTANT_OUTCOME_BY_NUMBER
    :: st_open[g] && n_onumber[g] == st_number[g] ->
#else
    :: st_open[g] && n_ouid[g] == st_uid[g] ->
#endif
        assert(n_ouid[g] == st_uid[g]);
        st_open[g] = false; st_committed[g] = j_committed[g]
    :: else
    fi
}

/* The agent says what it has seen; the numbers rise above it before anything is issued. */
inline restate(g)
{
    restated[g] = true;
    j_generation[g] = st_generation; /* Welcome. */
    st_committed[g] = j_committed[g];
    if
    :: j_seq[g] > st_seq -> st_seq = j_seq[g]; st_content = seen_content[g]
    :: else
    fi;
    if
    :: j_number[g] > st_number[g] -> st_number[g] = j_number[g]
    :: else
    fi;
#ifdef MUTANT_FLOORS_OF_ONE
    pending = false
#else
    if
    :: restated[0] && restated[1] -> pending = false
    :: else
    fi
#endif
}

active proctype controller()
{
end:
    do
    :: atomic { !pending && contents < CONTENTS -> contents++; st_seq++; st_content = contents } /* Publish. */
    :: atomic { ISSUES(0) -> issue(0) }
    :: atomic { ISSUES(1) -> issue(1) }
    :: atomic { st_open[0] && !n_ticket[0] && o_uid[0] != st_uid[0] && restated[0] -> send(0) }
    :: atomic { st_open[1] && !n_ticket[1] && o_uid[1] != st_uid[1] && restated[1] -> send(1) }
    :: atomic { n_outcome[0] -> take_outcome(0) }
    :: atomic { n_outcome[1] -> take_outcome(1) }
    :: atomic { !restated[0] -> restate(0) }
    :: atomic { !restated[1] -> restate(1) }
    :: d_step { /* The backup. */
        !have -> have = true; b_seq = st_seq; b_content = st_content;
        b_number[0] = st_number[0]; b_open[0] = st_open[0]; b_uid[0] = st_uid[0]; b_issued[0] = st_issued[0]; b_topic[0] = st_topic[0]; b_to[0] = st_to[0]; b_committed[0] = st_committed[0];
        b_number[1] = st_number[1]; b_open[1] = st_open[1]; b_uid[1] = st_uid[1]; b_issued[1] = st_issued[1]; b_topic[1] = st_topic[1]; b_to[1] = st_to[1]; b_committed[1] = st_committed[1]
       }
    :: d_step { /* It is put back: a new generation, and nobody has restated. */
        have && !restored -> restored = true; st_seq = b_seq; st_content = b_content;
        st_number[0] = b_number[0]; st_open[0] = b_open[0]; st_uid[0] = b_uid[0]; st_issued[0] = b_issued[0]; st_topic[0] = b_topic[0]; st_to[0] = b_to[0]; st_committed[0] = b_committed[0];
        st_number[1] = b_number[1]; st_open[1] = b_open[1]; st_uid[1] = b_uid[1]; st_issued[1] = b_issued[1]; st_topic[1] = b_topic[1]; st_to[1] = b_to[1]; st_committed[1] = b_committed[1];
        restated[0] = false; restated[1] = false;
#ifndef MUTANT_SAME_GENERATION
        st_generation++;
#endif
#ifndef MUTANT_NO_FLOORS
        pending = true
#endif
       }
    od
}

/* Obeys what does not go back; the outcome of the last ticket is told again when asked for it. */
inline take_ticket(g)
{
    n_ticket[g] = false;
    if
    :: n_uid[g] == o_uid[g]
    :: n_uid[g] != o_uid[g] && (n_generation[g] < j_generation[g] || n_number[g] <= j_number[g]) -> /* REFUSE. */
        o_uid[g] = n_uid[g]; o_number[g] = n_number[g]
    :: else ->
        assert(n_seq[g] != j_seq[g] || n_to[g] == seen_content[g]); /* One seq, one content. */
        j_generation[g] = n_generation[g]; j_number[g] = n_number[g];
        if
        :: n_seq[g] >= j_seq[g] -> j_seq[g] = n_seq[g]; seen_content[g] = n_to[g]
        :: else
        fi;
        o_uid[g] = n_uid[g]; o_number[g] = n_number[g]; j_committed[g] = n_to[g]
    fi;
    n_outcome[g] = true; n_ouid[g] = o_uid[g]; n_onumber[g] = o_number[g]
}

active proctype agents()
{
end:
    do
    :: atomic { n_ticket[0] -> take_ticket(0) }
    :: atomic { n_ticket[1] -> take_ticket(1) }
    :: atomic { o_uid[0] != 0 && st_open[0] && !n_outcome[0] && restated[0] && o_uid[0] == st_uid[0] -> n_outcome[0] = true; n_ouid[0] = o_uid[0]; n_onumber[0] = o_number[0] }
    :: atomic { o_uid[1] != 0 && st_open[1] && !n_outcome[1] && restated[1] && o_uid[1] == st_uid[1] -> n_outcome[1] = true; n_ouid[1] = o_uid[1]; n_onumber[1] = o_number[1] }
    od
}

/* The two agents agree on what a seq means. */
active proctype watch()
{
end:
    atomic { j_seq[0] == j_seq[1] && seen_content[0] != seen_content[1] -> assert(false) }
}

/* At rest every ticket is closed, and belief is truth. */
active proctype rest()
{
    timeout ->
    assert(!st_open[0] && !st_open[1]);
    assert(st_committed[0] == j_committed[0] && st_committed[1] == j_committed[1])
}
