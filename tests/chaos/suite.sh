#!/usr/bin/env bash
# Chaos: parts of real fleets are killed, frozen, cut off, ... at random instants; what came of it is judged from outside.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
export PYTHONDONTWRITEBYTECODE=1
run=("$BATON_ROOT/tests/chaos/run" --seed "${BATON_SEED:-1}")
kills=6 mixed=2 cluster=(--runs 8 --seconds 30)
if [ -n "${BATON_FULL:-}" ]; then
  kills=50 mixed=50 cluster=(--runs 50 --seconds 30)
fi

worst=0  # Also of a run that ended before it said a word.
"${run[@]}" --self-test || worst=1
# Both rigs wait more than they work: they run beside each other.
beside=$(mktemp)
"${run[@]}" --rig cluster "${cluster[@]}" >"$beside" 2>&1 &
trap 'kill %1 2>/dev/null; rm -f "$beside"' EXIT
for kind in controller agent rank; do
  "${run[@]}" --kind "$kind" --runs "$kills" || worst=1
done
"${run[@]}" --kind mixed --runs "$mixed" || worst=1
wait %1 || worst=1
cat "$beside"
exit "$worst"
