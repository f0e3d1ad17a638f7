#!/usr/bin/env bash
# Installs what Baton needs to build and to run its tests, where it is missing: Debian 12 and Ubuntu 24.04.
# usage: deploy/install.sh [build|test]     (default build)
# Asks nothing: as root it uses apt-get as it is, else `sudo -n`; with neither it says which packages to install.
set -euo pipefail

build_packages=(
  build-essential cmake ninja-build pkg-config git ca-certificates
  libgrpc-dev protobuf-compiler libprotobuf-dev protobuf-c-compiler libprotobuf-c-dev
  libcurl4-openssl-dev libssl-dev libjansson-dev libsqlite3-dev libmicrohttpd-dev libcyaml-dev libyaml-dev libxxhash-dev libzstd-dev zlib1g-dev
  libcriterion-dev openssl python3
)
test_packages=(
  clang clang-format clang-tidy shellcheck xxhash zstd sqlite3 binutils procps iproute2 util-linux curl
  python3-venv python3-grpcio python3-protobuf libnuma1 spin etcd-server prometheus nodejs
  nftables iptables faketime fiu-utils
)

# The compiler's fuzzing runtime has the compiler's number in its name.
runtime_package() {
  apt-cache depends --no-recommends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/libclang-rt-\1-dev/p' | head -n 1
}

missing_of() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || echo "$package"
  done
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  else
    sudo -n "$@"
  fi
}

install_missing() {
  local missing
  mapfile -t missing < <(missing_of "$@")
  [ "${#missing[@]}" -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; then
    echo "install: these packages are missing, and sudo would ask for a password. Install them and start again:" >&2
    echo "  sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  echo "install: ${missing[*]}"
  # RUNLEVEL=1 keeps packages from starting their daemons.
  as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends "${missing[@]}" >"$log" 2>&1 ||
    { tail -n 20 "$log" >&2; echo "install: apt-get failed; see above" >&2; exit 1; }
}

command -v apt-get >/dev/null || { echo "install: needs Debian 12 or Ubuntu 24.04 (apt-get); see README.md for the list of libraries" >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
wanted=("${build_packages[@]}")
[ "${1:-build}" != test ] || wanted+=("${test_packages[@]}")
if [ -n "$(missing_of "${wanted[@]}")" ]; then
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 update -q >"$log" 2>&1 || true
fi
install_missing "${wanted[@]}"
if [ "${1:-build}" = test ]; then
  runtime=$(runtime_package)
  [ -z "$runtime" ] || install_missing "$runtime"
fi
