#!/usr/bin/env bash
# Chaos: parts of a real fleet are killed with -9 at random instants of rolls; what came of it is judged from outside.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
export PYTHONDONTWRITEBYTECODE=1
run=("$BATON_ROOT/tests/chaos/run" --seed "${BATON_SEED:-1}")
kills=$([ -n "${BATON_FULL:-}" ] && echo 50 || echo 10)
mixed=$([ -n "${BATON_FULL:-}" ] && echo 50 || echo 2)

"${run[@]}" --self-test
for kind in controller agent rank; do
  "${run[@]}" --kind "$kind" --runs "$kills"
done
"${run[@]}" --kind mixed --runs "$mixed"
exit 0
