#!/usr/bin/env bash
# suite.sh -- the suite "sglang": real SGLang servers, alone and as a fleet.  What it runs: run.sh.
set -uo pipefail

exec "$(dirname "${BASH_SOURCE[0]}")/run.sh"
