#!/usr/bin/env bash
# Unit tests: release, then under address and undefined-behaviour sanitizers, then the plain programs under thread sanitizer.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

run_ctest release unit
run_ctest release plain
if build_preset asan; then
  run_ctest asan unit
  run_ctest asan plain
else
  echo "not ok - asan build"
fi
if build_preset tsan; then
  TSAN_OPTIONS="suppressions=$("$BATON_ROOT/tests/tsan_suppressions.sh" "$(build_dir tsan)"):halt_on_error=1" run_ctest tsan plain
else
  echo "not ok - tsan build"
fi
exit 0
