#!/usr/bin/env bash
# Checks a built miniengine against the committed checkpoints: outputs, pauses, guard, transfer, faults.
#
# usage: tests/miniengine/check.sh [--only TEXT]
# The binaries are taken from BATON_BUILD (default: build), and built there first if they are missing.
# Prints a line a check and "N passed, N failed, N skipped"; exit 0 if none failed.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

built="$BATON_BUILD/tests/miniengine"
if [ ! -x "$built/miniengine" ] || [ ! -x "$built/miniengine_seal" ]; then
  build_preset release miniengine miniengine_seal || exit 1
fi
exec /usr/bin/python3 -B "$BATON_ROOT/tests/miniengine/checks/run.py" --engine "$built/miniengine" \
  --seal "$built/miniengine_seal" --data "$BATON_ROOT/tests/data" "$@"
