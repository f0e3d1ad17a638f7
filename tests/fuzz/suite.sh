#!/usr/bin/env bash
# Fuzzing: each target for a while, from its corpus and seed; a crash, leak or hang fails and prints the input.
# Seconds a target: BATON_FUZZ_SECONDS (default 8; --full 60).
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
seconds=${BATON_FUZZ_SECONDS:-8}
[ -z "${BATON_FULL:-}" ] || seconds=${BATON_FUZZ_SECONDS:-60}

if ! build_preset fuzz; then
  echo "not ok - fuzz build"
  exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fuzz_one() {
  local target=$1 name out
  name=$(basename "$target")
  mkdir -p "$scratch/$name"
  [ ! -d "$BATON_ROOT/tests/fuzz/corpus/$name" ] || cp -r "$BATON_ROOT/tests/fuzz/corpus/$name/." "$scratch/$name"
  out=$(cd "$scratch" && "$target" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -seed="${BATON_SEED:-1}" -print_final_stats=1 "$scratch/$name" 2>&1)
  local code=$? runs
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' <<<"$out")
  if [ "$code" -eq 0 ] && [ "${runs:-0}" -gt 0 ]; then
    echo "ok - $name: $runs inputs"
  else
    tail -n 60 <<<"$out"
    for input in "$scratch"/crash-* "$scratch"/leak-* "$scratch"/timeout-* "$scratch"/oom-*; do
      [ ! -e "$input" ] || { echo "  input: $(basename "$input")"; xxd "$input" | head -n 20; rm -f "$input"; }
    done
    echo "not ok - $name"
  fi
}

for target in "$(build_dir fuzz)"/tests/*_fuzz; do
  [ -x "$target" ] && fuzz_one "$target"
done
exit 0
