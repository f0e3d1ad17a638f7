# Shell functions of the engines' install.sh.  Sourced; who sources sets 'venv', 'package' and 'engine' (its name in messages).
# shellcheck shell=bash disable=SC2154

say() { printf '%s install: %s\n' "$engine" "$*" >&2; }

fits() {
    local test='import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 13))'
    "$1" -c "$test" >/dev/null 2>&1
}

pick_python() {
    local python
    for python in ${BATON_PYTHON:-/usr/bin/python3.12 /usr/bin/python3.11 python3.12 python3.11}; do
        if fits "$python"; then
            printf '%s\n' "$python"
            return 0
        fi
    done
    say "needs Python 3.11 or 3.12 with venv; install it with: apt-get install python3-venv"
    return 1
}

check_tools() {
    local tool libraries
    for tool in cc readelf flock sha256sum; do
        command -v "$tool" >/dev/null && continue
        say "needs $tool; install it with: apt-get install build-essential util-linux coreutils"
        return 1
    done
    # ldconfig may lie outside a user's PATH.
    libraries=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p)
    if [[ $libraries != *libnuma.so.1* ]]; then
        say "needs libnuma.so.1; install it with: apt-get install libnuma1"
        return 1
    fi
}

# stamp_of FILE...: one digest over names and contents.
stamp_of() { sha256sum "$@" | sha256sum | cut -d' ' -f1; }

# package_stamp: of the Python package that goes into the environment.
package_stamp() {
    local -a files
    mapfile -t files < <(cd "$package" && find baton pyproject.toml -type f ! -name '*.pyc' | sort)
    (cd "$package" && stamp_of "${files[@]}")
}

up_to_date() { [ -f "$venv/$1" ] && [ "$(cat "$venv/$1")" = "$2" ]; }

install_baton() {
    local copy
    say "installing api/python"
    copy=$(mktemp -d)
    cp -r "$package/." "$copy"
    "$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation \
        --force-reinstall "$copy"
    rm -rf "$copy"
}
