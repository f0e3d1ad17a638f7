#!/usr/bin/env bash
# The GPU suite: builds only what it needs (CUDA toolkit, CMake, a C compiler, jansson), checks every kernel
# against its CPU reference, the backends between processes, and prints the figures as JSON lines, each beside the rate of a plain copy in the same run.
# usage: tests/gpu/run.sh [--no-figures] [--sanitize]
#   --sanitize  the checks once more under compute-sanitizer's memcheck (slow)
# BATON_GPU_BUILD: where it is built (default: a temporary folder).  Without a GPU it prints "skip - gpu: why" and exits 0.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
figures=figures
sanitize=
for option in "$@"; do
  case $option in
    --no-figures) figures= ;;
    --sanitize) sanitize=1 ;;
    *) echo "run.sh: unknown option $option" >&2; exit 2 ;;
  esac
done

PATH=$PATH:/usr/local/cuda/bin
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L >/dev/null 2>&1; then
  echo "skip - gpu: no GPU (nvidia-smi finds none)"
  exit 0
fi
if ! command -v nvcc >/dev/null; then
  echo "skip - gpu: no CUDA toolkit (nvcc is not in PATH)"
  exit 0
fi

build=${BATON_GPU_BUILD:-}
if [ -z "$build" ]; then
  build=$(mktemp -d)
  trap 'rm -rf "$build"' EXIT
fi
log=$build/build.log
mkdir -p "$build"
if ! { cmake -S "$root/tests/gpu" -B "$build" && cmake --build "$build" -j "$(nproc)" --target gpu_suite; } >"$log" 2>&1; then
  tail -n 40 "$log"
  echo "not ok - gpu: the build failed"
  exit 1
fi

suite=("$build/gpu_suite" "$build/transport/cuda/baton_cuda.so" "$build/transport/ipc/baton_ipc.so"
  "$build/transport/nccl/baton_nccl.so" "$root/tests/data/digest/vectors.txt")
code=0
"${suite[@]}" $figures || code=$?
if [ -n "$figures" ]; then
  if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    python3 "$root/tests/gpu/figures_publisher.py" "$root/api/python" || code=1
  else
    echo "skip - gpu: figures of the publisher: python3 has no torch with CUDA"
  fi
fi
if [ -n "$sanitize" ] && command -v compute-sanitizer >/dev/null; then
  if compute-sanitizer --report-api-errors no --error-exitcode 3 "${suite[@]}" >"$build/sanitizer.log" 2>&1; then
    echo "ok - memcheck finds nothing"
  else
    tail -n 40 "$build/sanitizer.log"
    echo "not ok - memcheck"
    code=1
  fi
fi
exit "$code"
