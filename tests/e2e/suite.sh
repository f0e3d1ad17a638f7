#!/usr/bin/env bash
# End to end: real processes on loopback. Each *_test.py, then rolls with sanitized daemons where the asan preset is built.
# --full (BATON_FULL): the whole of each matrix; else a part of it that changes with BATON_SEED.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONDONTWRITEBYTECODE=1 BATON_SEED=${BATON_SEED:-1}
export BATON_E2E_BUILD=${BATON_E2E_BUILD:-$BATON_BUILD}
# Debian's interpreter has grpcio and yaml where they are installed; the tests need nothing else.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

# Test files one after another; each one's lines at its end, so that lanes do not mix.
run_lane() {
  local file out code=0
  for file in "$@"; do
    out=$("$python" "$here/runner.py" "$file" 2>&1) || code=1
    printf '%s\n' "$out"
  done
  return "$code"
}

# Lanes beside each other: tests mostly wait, the faults for deadlines, the operations for what a page says.
run_release() {
  local file lane code=0 lanes=() others=()
  for file in "$here"/*_test.py; do
    case $(basename "$file") in
      fault_test.py | operations_test.py) run_lane "$file" & lanes+=($!) ;;
      *) others+=("$file") ;;
    esac
  done
  run_lane "${others[@]}" || code=1
  for lane in "${lanes[@]}"; do wait "$lane" || code=1; done
  return "$code"
}

# Rolls with traffic, undo, restarts of agent and controller; then what the sanitizers wrote, of any process.
run_sanitized() {
  local build=$1 logs code=0
  logs=$(mktemp -d)
  local common=log_path=$logs/report:abort_on_error=0:halt_on_error=1
  BATON_E2E_BUILD=$build BATON_E2E_PATIENCE=4 ASAN_OPTIONS="$common:detect_leaks=1" UBSAN_OPTIONS="$common:print_stacktrace=1" \
    "$python" "$here/runner.py" --prefix asan roll_test daemon_test:Lives.test_agent_is_told_to_stop_during_a_swap \
    daemon_test:Lives.test_controller_restarts_in_a_roll daemon_test:Lives.test_stop_engines || code=1
  if [ -n "$(find "$logs" -type f -size +0)" ]; then
    head -n 60 "$logs"/report* | sed 's/^/  /'
    echo "not ok - asan: a sanitizer found something"
    code=1
  else
    echo "ok - asan: no sanitizer found anything"
  fi
  rm -rf "$logs"
  return "$code"
}

code=0
run_release || code=1
asan=$(build_dir asan)
if [ -x "$asan/controller/shell/baton-controller" ] && [ -x "$asan/agent/shell/baton-agent" ]; then
  run_sanitized "$asan" || code=1
else
  echo "skip - asan: $(basename "$asan") is not built; the unit suite builds it"
fi
# In a folder of its own: what a newcomer's first command builds must be all that it needs.
check "quickstart builds and shows all that it needs" env BATON_BUILD="$(build_dir quickstart)" "$BATON_ROOT/deploy/quickstart.sh" || code=1
exit "$code"
