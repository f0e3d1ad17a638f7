#!/usr/bin/env bash
# Rolling upgrade: a fleet of the previous release (the commit that the file 'previous' names, built from this clone's history) becomes one
# of this release, part by part, and goes back.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here BATON_E2E_BUILD=${BATON_E2E_BUILD:-$BATON_BUILD}
programs=(baton-controller baton-agent batonctl miniengine)
python=/usr/bin/python3
[ -x "$python" ] || python=python3
read -r commit <"$here/previous"

# The clone may belong to another user than the one that runs the tests.
clone() {
  git -c safe.directory='*' -C "$BATON_ROOT" "$@"
}

# Says why this folder cannot give the previous release; nothing: it can.
reason_without_history() {
  if ! clone rev-parse --git-dir >/dev/null 2>&1; then
    echo "$BATON_ROOT is no clone: the previous release, commit $commit, cannot be had"
  elif ! clone cat-file -e "$commit^{commit}" 2>/dev/null; then
    echo "this clone lacks commit $commit, the previous release; with history: git fetch --unshallow"
  fi
}

# A shallow clone may have the commit and not the way to it.
is_ancestor() {
  [ "$(clone rev-parse --is-shallow-repository)" = true ] || clone merge-base --is-ancestor "$commit" HEAD
}

# build_previous FOLDER: its programs, once for each commit.
build_previous() (
  dir=$1
  mkdir -p "$(dirname "$dir")"
  exec 9>"$dir.lock"
  flock 9
  [ ! -e "$dir/ready" ] || exit 0
  rm -rf "$dir"
  mkdir -p "$dir/source"
  clone archive "$commit" | tar x -C "$dir/source" || exit 1
  BATON_ROOT=$dir/source BATON_BUILD=$dir/build build_preset release "${programs[@]}" || exit 1
  for program in "${programs[@]}"; do
    cp "$(find "$dir/build" -type f -name "$program" -perm -u+x | head -n 1)" "$dir/$program" || exit 1
  done
  rm -rf "$dir/source" "$dir/build"
  touch "$dir/ready"
)

if reason=$(reason_without_history) && [ -n "$reason" ]; then
  echo "skip - upgrade from the previous release: $reason"
  exit 0
fi
check "the previous release is an ancestor of this one" is_ancestor
export BATON_UPGRADE_PREVIOUS=$BATON_CACHE/previous-${commit:0:12}
if ! build_previous "$BATON_UPGRADE_PREVIOUS"; then
  echo "not ok - the previous release builds"
  exit 1
fi
"$python" "$BATON_ROOT/tests/e2e/runner.py" upgrade_test
