#!/usr/bin/env bash
# install.sh -- SGLang 0.5.23 for a plain CPU in a cached virtual environment, with Baton's package in it.
#
# Prints the environment's path as its last line.  Runs again at no cost: stamps made from the
# recipe's own contents say whether anything is to be done.  Two runs at once wait for each other.
#
#   BATON_CACHE   where the environment lives; default ${XDG_CACHE_HOME:-$HOME/.cache}/baton
#   BATON_PYTHON  the Python (3.11 or 3.12, with venv) to build it from; default: the first found
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
package=$(cd "$here/../../../api/python" && pwd)
cache=${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}
venv=$cache/sglang-0.5.23
# shellcheck disable=SC2034  # environment.sh reads it.
engine=sglang
# shellcheck source=tests/engines/environment.sh
. "$here/../environment.sh"

install_engine() {
    local python site
    python=$(pick_python)
    say "building $venv with $python (about 1.2 GB to download, 3.2 GB on disk)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --no-deps --no-compile -r "$here/requirements.txt"
    site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    say "making the CUDA libraries that this machine lacks"
    "$venv/bin/python" "$here/../vllm/cuda_absent.py" "$site/torch/lib" >&2
    cp -r "$here/standin/sgl_kernel" "$site/sgl_kernel"
}

self_check() {
    say "self check"
    # Thousands of modules are compiled here; the suite's servers find them so.
    (cd / && env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX="$venv/pycache" "$venv/bin/python" -W ignore "$here/self_check.py") >&2
}

main() {
    local engine_stamp baton_stamp
    mkdir -p "$cache"
    check_tools
    exec 9>"$venv.lock"
    flock 9
    engine_stamp=$({
        declare -f install_engine
        cat "$here/requirements.txt" "$here/../vllm/cuda_absent.py" "$here/standin/sgl_kernel/__init__.py"
    } | sha256sum | cut -d' ' -f1)
    baton_stamp=$engine_stamp-$(package_stamp)
    if ! up_to_date baton-engine.stamp "$engine_stamp"; then
        install_engine
        printf '%s\n' "$engine_stamp" >"$venv/baton-engine.stamp"
    fi
    if ! up_to_date baton-package.stamp "$baton_stamp"; then
        install_baton
        self_check
        printf '%s\n' "$baton_stamp" >"$venv/baton-package.stamp"
    fi
    printf '%s\n' "$venv"
}

main "$@"
