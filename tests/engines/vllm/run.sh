#!/usr/bin/env bash
# run.sh [module...] -- tests against real vLLM 0.32 on a CPU: a line a test, exit 0 if all passed.
#
# Without arguments: fleet_test guard_test manifest_test live_test readme_test versions_test.  Installs what is missing (install.sh).
#
#   BATON_BUILD  where the programs lie; default: build at the root of the tree
#   BATON_FULL   if not empty: every test; else a part, chosen by BATON_SEED (rotation.py)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=$("$here/install.sh")
work=$(mktemp -d)
tests=
# A run that is ended from outside ends its servers, too.
trap '[ -z "$tests" ] || kill "$tests" 2>/dev/null || true' TERM INT
trap 'rm -rf "$work"' EXIT

# A start of vLLM reads thousands of modules.  Compiled once, they stay beside the environment.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$venv/pycache TOKENIZERS_PARALLELISM=false
export BATON_VLLM_FRESH=$work/fresh.json
export BATON_BUILD=${BATON_BUILD:-$(cd "$here/../../.." && pwd)/build}
export BATON_LIB=${BATON_LIB:-$BATON_BUILD/api/client/libbaton.so}
cd "$here"
[ $# -gt 0 ] || set -- fleet_test guard_test manifest_test live_test readme_test versions_test
"$venv/bin/python" -W ignore run_tests.py "$@" &
tests=$!
code=0
wait "$tests" || code=$?
# A signal ends the first wait only.
wait "$tests" 2>/dev/null || true
exit "$code"
