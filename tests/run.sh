#!/usr/bin/env bash
# Builds Baton and runs its tests.
#
# usage: tests/run.sh [--all] [--full] [--seed N] [suite...]
#   without a suite: lint unit conformance sim model fuzz e2e upgrade chaos
#   --all    also what takes a big download or special hardware, where this machine can run it: vllm sglang trainer gpu
#   --full   the whole of each matrix; else a part of it, chosen by the seed
#   --seed N which part (default: today's date)
#
# Each suite is tests/<suite>/suite.sh (tests/engines/<suite>/suite.sh for real engines) and prints a line for each test:
#   ok - NAME        not ok - NAME        skip - NAME: REASON
# Ends with what failed, once more, and "N passed, N failed, N skipped"; exit 0 only if at least one test ran and none failed, and no process was left.
# Caches (Python environments, tools) go to $BATON_CACHE, else $XDG_CACHE_HOME/baton, else ~/.cache/baton.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
default_suites=(lint unit conformance sim model fuzz e2e upgrade chaos)
extra_suites=(vllm sglang trainer gpu)
suites=()
all=
BATON_FULL=
BATON_SEED=$(date +%Y%m%d)

usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
}

while [ $# -gt 0 ]; do
  case $1 in
    --all) all=1 ;;
    --full) BATON_FULL=1 ;;
    --seed) BATON_SEED=${2:?--seed needs a number}; shift ;;
    -h | --help) usage; exit 0 ;;
    -*) echo "run.sh: unknown option $1 (see --help)" >&2; exit 2 ;;
    *) suites+=("$1") ;;
  esac
  shift
done
if [ "${#suites[@]}" -eq 0 ]; then
  suites=("${default_suites[@]}")
  [ -z "$all" ] || suites+=("${extra_suites[@]}")
fi
# Engines' suites have a folder of their own.
suite_script() {
  case $1 in
    vllm | sglang | trainer) echo "$root/tests/engines/$1/suite.sh" ;;
    *) echo "$root/tests/$1/suite.sh" ;;
  esac
}

for suite in "${suites[@]}"; do
  [ -x "$(suite_script "$suite")" ] || { echo "run.sh: no suite '$suite'; there are: ${default_suites[*]} ${extra_suites[*]}" >&2; exit 2; }
done

export BATON_FULL BATON_SEED
export BATON_ROOT=$root
export BATON_BUILD=${BATON_BUILD:-$root/build}
export BATON_CACHE=${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}
# Every process of this run carries this mark; what still has it at the end was leaked.
export BATON_TEST_MARK="baton-test-$$-$RANDOM"
log=$(mktemp)
broken=$(mktemp)
trap 'rm -f "$log" "$broken"' EXIT
passed=0
failed=0
skipped=0

# Prints the pids of processes that carry this run's mark, other than this shell and its children that are ending.
marked_processes() {
  local environ pid
  for environ in /proc/[0-9]*/environ; do
    pid=${environ#/proc/}
    pid=${pid%/environ}
    if [ "$pid" != "$$" ] && [ "$pid" != "$BASHPID" ] && grep -qz "^BATON_TEST_MARK=$BATON_TEST_MARK\$" "$environ" 2>/dev/null; then
      grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null || echo "$pid"
    fi
  done
}

# A leaked process is a failure of the suite that leaves it; it is ended here so that the next suite starts clean.
check_leaks() {
  local suite=$1 pid
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ -n "$(marked_processes)" ] || return 0
    sleep 0.3
  done
  for pid in $(marked_processes); do
    [ -e "/proc/$pid" ] || continue
    echo "not ok - $suite left a process: $pid $(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c1-200)" | tee -a "$log"
    kill -9 "$pid" 2>/dev/null
  done
}

# What a reader of the last lines needs: each failure of a suite, the errors said before it, and what was said last.
note_failures() {
  awk -v suite="$1" '
    /^(ok|skip) - / { count = 0; next }
    /^not ok - / {
      print suite ": " $0
      for (i = shown = 0; i < count && shown < 6; i++)
        if (said[i] ~ /Error|error:|not within|Assertion|FAILED|[.][ch]:[0-9]+:/) { print "    " substr(said[i], 1, 240); shown++ }
      for (i = count > 4 ? count - 4 : 0; i < count; i++) print "    " substr(said[i], 1, 240)
      count = 0
      next
    }
    NF { said[count++] = $0 }' "$log" >>"$broken"
}

run_suite() {
  local suite=$1 started=$SECONDS code
  echo "== $suite"
  : >"$log"
  "$(suite_script "$suite")" 2>&1 | tee "$log"
  code=${PIPESTATUS[0]}
  check_leaks "$suite"
  local ok bad skip
  ok=$(grep -c '^ok - ' "$log")
  bad=$(grep -c '^not ok - ' "$log")
  skip=$(grep -c '^skip - ' "$log")
  if [ "$code" -ne 0 ] && [ "$bad" -eq 0 ]; then
    echo "not ok - $suite ended with exit code $code" | tee -a "$log"
    bad=1
  fi
  if [ $((ok + bad + skip)) -eq 0 ]; then
    echo "not ok - $suite ran no test" | tee -a "$log"
    bad=1
  fi
  note_failures "$suite"
  passed=$((passed + ok))
  failed=$((failed + bad))
  skipped=$((skipped + skip))
  echo "== $suite: $ok passed, $bad failed, $skip skipped in $((SECONDS - started)) s"
}

"$root/deploy/install.sh" test || exit 1
# shellcheck source=tests/lib.sh
. "$root/tests/lib.sh"
if ! build_preset release; then
  echo "not ok - build"
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi
for suite in "${suites[@]}"; do
  run_suite "$suite"
done
[ ! -s "$broken" ] || { echo "== what failed"; head -n 120 "$broken"; }
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
