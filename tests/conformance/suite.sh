#!/usr/bin/env bash
# Conformance: one suite for each contract, run against everything that claims to keep it; and the engine that tests rely on.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

run_ctest release conformance
[ ! -d "$(build_dir asan)" ] || run_ctest asan conformance
# miniengine is held to PyTorch's tokens and log-probabilities and to vLLM's behaviour; its closing count is left to tests/run.sh.
out=$("$BATON_ROOT/tests/miniengine/check.sh" 2>&1) || echo "$out" | tail -n 60 | sed 's/^/  /'
lines=$(grep -E '^(ok|not ok|skip) - ' <<<"$out")
printf '%s\n' "$lines" | sed 's/^ok - /ok - miniengine: /; s/^not ok - /not ok - miniengine: /; s/^skip - /skip - miniengine: /'
[ -n "$lines" ] || echo "not ok - miniengine: no check ran"
exit 0
