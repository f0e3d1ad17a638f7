# Shell functions that the suites share. Sourced; BATON_ROOT, BATON_BUILD and BATON_CACHE are set by tests/run.sh, and by
# default here, so that a suite can also be run alone.
# shellcheck shell=bash

BATON_ROOT=${BATON_ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
export BATON_ROOT
export BATON_BUILD=${BATON_BUILD:-$BATON_ROOT/build}
export BATON_CACHE=${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}

# Where a preset is built: build for release, build-asan and so on beside it.
build_dir() {
  if [ "$1" = release ]; then echo "$BATON_BUILD"; else echo "$BATON_BUILD-$1"; fi
}

# build_preset PRESET [target...]: configures and builds; prints the log only if it fails.
build_preset() {
  local preset=$1 dir log
  shift
  dir=$(build_dir "$preset")
  log=$(mktemp)
  local options=("-DBATON_PRESET=$preset")
  [ "$preset" != fuzz ] || options+=(-DCMAKE_C_COMPILER=clang)
  local started=$SECONDS
  if cmake -S "$BATON_ROOT" -B "$dir" -G Ninja "${options[@]}" >"$log" 2>&1 && ninja -C "$dir" -j "$(nproc)" "$@" >>"$log" 2>&1; then
    echo "built $preset in $((SECONDS - started)) s"
    rm -f "$log"
    return 0
  fi
  grep -E 'error|Error|FAILED|undefined' -A 5 "$log" | head -n 80
  tail -n 20 "$log"
  rm -f "$log"
  return 1
}

# run_ctest PRESET LABEL: runs the tests of a label and prints a line for each.
run_ctest() {
  local preset=$1 label=$2 dir log prefix
  dir=$(build_dir "$preset")
  log=$(mktemp)
  prefix=$([ "$preset" = release ] || echo "$preset ")
  (cd "$dir" && ctest -L "^$label\$" -j "$(nproc)" --output-on-failure) >"$log" 2>&1
  local code=$?
  sed -n "s/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^ ]*\) \.* *Passed.*/ok - $prefix\1/p" "$log"
  if [ "$code" -ne 0 ]; then
    sed 's/^/  /' "$log"
    sed -n "/\*\*\*Skipped/d; s/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^ ]*\) \.*\*\**.*/not ok - $prefix\1/p" "$log"
  fi
  # What a program left out says so in its output, which ctest shows only of failures.
  sed -nE "s/^skip (- )?(.*)/skip - $prefix\2/p; s/^\[SKIP\] (.*)/skip - $prefix\1/p" "$dir/Testing/Temporary/LastTest.log" 2>/dev/null
  rm -f "$log"
  return "$code"
}

# check NAME COMMAND...: runs a command; prints its output only if it fails.
check() {
  local name=$1 out
  shift
  if out=$("$@" 2>&1); then
    echo "ok - $name"
  else
    printf '%s\n' "$out" | sed 's/^/  /'
    echo "not ok - $name"
    return 1
  fi
}

# python_tool NAME PACKAGE==VERSION: a Python package in an environment of its own in the cache; prints the environment.
python_tool() {
  local name=$1 package=$2 dir="$BATON_CACHE/$1-${2##*==}"
  (
    mkdir -p "$BATON_CACHE"
    exec 9>"$dir.lock"
    flock 9
    [ -e "$dir/ready" ] && exit 0
    rm -rf "$dir"
    python3 -m venv "$dir" && "$dir/bin/pip" install -q --disable-pip-version-check "$package" && touch "$dir/ready"
  ) >&2 || return 1
  echo "$dir"
}
