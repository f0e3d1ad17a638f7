#!/bin/sh
# Runs one Criterion program; fails also where Criterion itself would not: no test ran, or memory leaked
# (LeakSanitizer prints a leak while the test passes).
# usage: tests/criterion.sh PROGRAM [argument...]
set -u
program=$1
shift
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT
LSAN_OPTIONS="${LSAN_OPTIONS:+$LSAN_OPTIONS:}log_path=$logs/leak" "$program" -j2 --color=never "$@" >"$logs/out" 2>&1
code=$?
cat "$logs/out"
for leak in "$logs"/leak*; do
  [ -e "$leak" ] || continue
  cat "$leak"
  echo "$program: leaked memory"
  code=1
done
tested=$(sed -n 's/.*Synthesis: Tested: \([0-9]*\).*/\1/p' "$logs/out" | tail -n 1)
if [ "${tested:-0}" -eq 0 ]; then
  echo "$program: no test ran"
  code=1
fi
exit "$code"
