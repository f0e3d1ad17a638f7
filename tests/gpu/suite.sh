#!/usr/bin/env bash
# The kernels' checks; figures are tests/gpu/run.sh's, which a busy machine may miss.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" --no-figures
