#!/usr/bin/env bash
# The protocol as models: each sound one searched whole by spin without an error and without a part that is never
# reached; each of its mutants refuted.
# usage: suite.sh [MODEL...]      a model is its file's name without .pml
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
here=$BATON_ROOT/tests/model
seconds=${BATON_MODEL_SECONDS:-600} # A search takes 1 to 15 s of a free core; this is for a busy machine.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Model | least number of states | configurations of the sound model, searched one by one; a mutant is killed by any.
models() {
  cat <<'TABLE'
ticket 500000|-DFAULTS=2 -DCRASHES=1 -DBREAKS=0 -DECHOES=0 -DLEADERSHIPS=1|-DFAULTS=0 -DCRASHES=1 -DECHOES=0|-DFAULTS=0 -DCRASHES=0 -DLEADERSHIPS=3
doubt 100000|-DCRASHES=2 -DLOSSES=1
late 100000|-DPLUGIN=1|-DPLUGIN=0
restored 50000|-DTICKETS=3
live 2000|-DCRASHES=2
budget 50000|-DFAILOVERS=1
TABLE
}

# search DIR MODEL FLAG...: generates, compiles and runs a verifier there; its words are in DIR/out.
search() {
  local dir=$1 model=$2
  shift 2
  mkdir -p "$dir"
  cp "$here/$model.pml" "$dir"
  (
    cd "$dir" || exit 1
    spin "$@" -a "$model.pml" >generated 2>&1 && cc -O2 -w -DSAFETY -DCOLLAPSE -DMEMLIM=2000 -o pan pan.c >>generated 2>&1
    [ -x pan ] || { cat generated; exit 1; }
    timeout "$seconds" nice -n 5 ./pan -m500000 >out 2>&1
  )
}

# A search that was whole and found nothing; else says why.
is_sound() {
  local out=$1 least=$2 states
  states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$out")
  grep -q 'errors: 0$' "$out" || { grep -E '^pan:|errors:' "$out"; return 1; }
  ! grep -q -E 'max search depth too small|out of memory|Search not completed' "$out" || { echo "the search was not whole"; return 1; }
  awk -v have="${states:-0}" -v least="$least" 'BEGIN { exit !(have + 0 >= least) }' || { echo "only ${states:-0} states, expected $least"; return 1; }
}

# Lines that no configuration reached.  What never ends has no end, and an assertion that cannot fail is not reached.
unreached() {
  local count=$#
  grep -h -E '^\s.*\.pml:[0-9]+, state' "$@" | grep -v -E -- '-end-|assert\(0\)' | sed -E 's/^\s*//; s/, state [0-9]+,/:/' | sort -u >"$scratch/lines"
  while IFS= read -r line; do
    [ "$(grep -l -F -- "${line%%: *}, state" "$@" | wc -l)" -lt "$count" ] || echo "  never reached: $line"
  done <"$scratch/lines"
}

check_sound() {
  local model=$1 least=$2 number=0 outs=() why flags
  shift 2
  for flags in "$@"; do
    number=$((number + 1))
    # shellcheck disable=SC2086 # Flags are words.
    search "$scratch/$model-$number" "$model" $flags
    outs+=("$scratch/$model-$number/out")
    if why=$(is_sound "$scratch/$model-$number/out" "$least"); then
      echo "ok - $model is sound ($flags): $(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$scratch/$model-$number/out") states"
    else
      echo "  $why"
      echo "not ok - $model is sound ($flags)"
    fi
  done
  why=$(unreached "${outs[@]}")
  if [ -z "$why" ]; then
    echo "ok - $model: every step is reached"
  else
    echo "$why"
    echo "not ok - $model: every step is reached"
  fi
}

# A mutant is refuted by an assertion or an end where nobody should end, in one of the configurations.
check_mutant() {
  local model=$1 mutant=$2 flags dir=$scratch/$1-$2
  shift 2
  for flags in "$@"; do
    # shellcheck disable=SC2086
    search "$dir" "$model" $flags "-D$mutant"
    if grep -q -E '^pan:1: (assertion violated|invalid end state)' "$dir/out"; then
      echo "ok - $model: $mutant is refuted"
      return
    fi
  done
  grep -E 'errors:|states, stored' "$dir/out" | sed 's/^/  /'
  echo "not ok - $model: $mutant survives"
}

check_model() {
  local name=${1%% *} least=${1##* } mutants mutant
  shift
  check_sound "$name" "$least" "$@"
  mapfile -t mutants < <(grep -o -E 'MUTANT_[A-Z_]+' "$here/$name.pml" | sort -u)
  [ "${#mutants[@]}" -gt 0 ] || echo "not ok - $name has no mutant"
  for mutant in "${mutants[@]}"; do
    # What only the engine without a plug-in can do wrong is refuted there; the search stops at the first error.
    check_mutant "$name" "$mutant" "$@"
  done
}

command -v spin >/dev/null || { echo "not ok - spin is not installed"; exit 1; }
while IFS='|' read -r -a row; do
  if [ $# -eq 0 ] || [[ " $* " == *" ${row[0]%% *} "* ]]; then
    check_model "${row[@]}" </dev/null
  fi
done < <(models)
