/* sglang_landing_maker.h -- a small landing as SGLang is given one, whole or wrong, for the tests of its adapter.
 *
 * Four tensors: an output layer of 65 rows (SGLang makes 128 of them), three that it fuses, a norm.
 *
 * Depends on: checkpoint_maker.h, transport/model.  Aborts on failure.  Ownership: the directory is the caller's. */
#ifndef TESTS_UNIT_SGLANG_LANDING_MAKER_H
#define TESTS_UNIT_SGLANG_LANDING_MAKER_H

#include "api/base/limits.h"

/* What the tensors hash to inside SGLang: SHA-256's first eight bytes, by Python's hashlib over
 * maker_pattern(0..259) and 252 zeros, (260..283), (284..291). */
#define LANDING_SUM_HEAD "1dab52ea773148a1"
#define LANDING_SUM_QKV  "4bc88366ac09d1a2"
#define LANDING_SUM_NORM "e461f72e57d63279"

enum landing_fault { LANDING_WHOLE, LANDING_NO_K, LANDING_EXTRA, LANDING_NARROW, LANDING_RECAST };

/* Writes checkpoint and manifest into 'dir'; 'digest' becomes the version's.  Faults are sealed
 * honestly: they show only beside a whole one. */
void landing_make(const char *dir, enum landing_fault fault, char digest[BATON_DIGEST_TEXT_BYTES]);

#endif /* sglang_landing_maker.h */
