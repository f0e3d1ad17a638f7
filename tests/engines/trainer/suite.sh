#!/usr/bin/env bash
# suite.sh [FILE[:CLASS[.TEST]]...] -- the suite "trainer": PyTorch publishes and trains, miniengines generate. Default: all of it.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(cd "$here/../../.." && pwd)
installed=$("$here/install.sh") || exit 1
{ read -r python; read -r packages; } <<<"$installed"
export BATON_BUILD=${BATON_BUILD:-$tree/build}
export BATON_LIB=${BATON_LIB:-$BATON_BUILD/api/client/libbaton.so}
export PYTHONPATH=$here:$tree/api/python:$packages
export PYTHONPYCACHEPREFIX=$packages/pycache TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
[ $# -gt 0 ] || set -- tensors_test ranks_test merged_test factory_test loop_test loop_vllm_test readme_test
exec "$python" -W ignore "$tree/tests/e2e/runner.py" "$@"
