/* patience.h -- parts of a test that rest on short deadlines, on a machine that may stand still.
 *
 * A store's deadlines end within a lease: no test can ask for longer ones.  Where the processors or
 * the disk stand still for as long as one try of a request, a part may fail though nothing is wrong.
 * So each part runs in a process of its own, beside a thread that notices such a stall.  A part that
 * fails after one is run again, and that is printed; one that fails without has failed.
 *
 * Threads: one, and the program has no other when it calls. */
#ifndef TESTS_CONFORMANCE_PATIENCE_H
#define TESTS_CONFORMANCE_PATIENCE_H

/* Ends the program with 1 unless the part returns. */
void patience_run(const char *name, void (*part)(void));

#endif /* patience.h */
