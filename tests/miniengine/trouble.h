/* trouble.h -- what went wrong, as a value: a code of the engine contract, a sentence, a tensor.
 *
 * Not a log and not an exception: a function that can fail fills one and returns false.  The codes
 * are those of deploy/docs/engine-contract.md, section 2.
 *
 * Depends on: libc.  Threads: values only.  Ownership: none. */
#ifndef TESTS_MINIENGINE_TROUBLE_H
#define TESTS_MINIENGINE_TROUBLE_H

#include <stdbool.h>

struct trouble {
    char code[32];     /* Empty: no trouble. */
    char message[400]; /* For people; cut, never dropped. */
    char tensor[160];  /* Empty where no tensor is concerned. */
};

/* Fills 'why' and returns false, so that a failing function can end with it.  'why' may be null;
 * 'tensor' may be null. */
__attribute__((format(printf, 4, 5))) bool trouble_set(struct trouble *why, const char *code,
                                                       const char *tensor, const char *fmt, ...);

#endif /* trouble.h */
