#!/usr/bin/env bash
# install.sh -- PyTorch as in ../vllm, and beside it what trainers need; prints the interpreter and the folder for PYTHONPATH.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}
python=$("$here/../vllm/install.sh" | tail -n 1)/bin/python
stamp=$(sha256sum "$here/requirements.txt" | cut -c1-16)
folder=$cache/trainer-$stamp
exec 9>"$cache/trainer.lock"
flock 9
if [ ! -e "$folder/ready" ]; then
  rm -rf "$folder"
  "$python" -m pip install --quiet --no-deps --no-compile --target "$folder" -r "$here/requirements.txt" >&2
  touch "$folder/ready"
fi
printf '%s\n%s\n' "$python" "$folder"
