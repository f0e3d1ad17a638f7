#!/usr/bin/env bash
# Simulated worlds: kept seeds, all small worlds, random seeds with coverage, and mutants that must be found.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
here="$BATON_ROOT/tests/sim"
sim="$(build_dir release)/tests/sim"
jobs=$(nproc)
count=$([ -n "${BATON_FULL:-}" ] && echo 300000 || echo 20000)
first=$((${BATON_SEED:-1} % 1000000 * 1000000 + 1))

# Seeds that once failed, each with what it showed.
kept=0
failed=0
while read -r seed _; do
  case $seed in '' | '#'*) continue ;; esac
  kept=$((kept + 1))
  "$sim" --seeds "$seed" --no-story >/dev/null || { "$sim" --seeds "$seed" --story | tail -n 60; failed=1; }
done <"$here/seeds.txt"
[ "$failed" -eq 0 ] && echo "ok - $kept kept seeds" || echo "not ok - kept seeds"

check "all small worlds" "$sim" --exhaust -j "$jobs"
check "one death of the controller fails no swap" "$sim" --predict

log=$(mktemp)
if "$sim" --seeds "$first..$((first + count - 1))" -j "$jobs" --coverage >"$log" 2>&1; then
  echo "ok - $(grep ' seeds, ' "$log" | tail -n 1)"
else
  tail -n 150 "$log" | sed 's/^/  /'
  echo "not ok - seeds $first to $((first + count - 1))"
fi
rm -f "$log"

"${sim}_mutants" --mutants --seeds 1..20000 -j "$jobs"
exit 0
