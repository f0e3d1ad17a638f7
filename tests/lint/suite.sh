#!/usr/bin/env bash
# Lint: the tree, sizes, layers, layout, scripts, protos; and that each of these checks finds a planted fault.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
export PYTHONDONTWRITEBYTECODE=1
lint=("$BATON_ROOT/tests/lint/lint.py" "$BATON_ROOT")

check "lint finds planted faults" python3 "$BATON_ROOT/tests/lint/lint_test.py"
for part in tree reports sizes includes format shell; do
  check "$part" python3 "${lint[@]}" "$part"
done
check "symbols of the cores" python3 "${lint[@]}" symbols "$BATON_BUILD"
if buf=$(python_tool buf buf-bin==1.75.0); then
  check "protos" python3 "${lint[@]}" proto "$(find "$buf" -type f -name 'buf*' -path '*bin/*' -perm -u+x | head -n 1)"
else
  echo "not ok - protos: buf could not be installed"
fi
exit 0
