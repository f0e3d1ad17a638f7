#!/bin/sh
# Writes the thread sanitizer's suppressions for programs that use gRPC, and prints the file's path.
# One line a library: a pattern that fits two of them is fatal, so the exact names come from ldd.
# usage: tests/tsan_suppressions.sh BUILD_FOLDER
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
program=$(find "$build" -type f -name rpc_tsan -perm -u+x | head -n 1)
[ -n "$program" ] || {
  echo "$0: $build has no rpc_tsan: build it first" >&2
  exit 1
}
out=$build/tsan.supp
cp "$here/rpc.supp" "$out.new"
ldd "$program" | awk '{ print $1 }' | grep -E '^lib(stdc\+\+|grpc|gpr|absl_|upb|re2|cares|address_sorting)' | sort -u |
  sed 's/^/called_from_lib:/' >>"$out.new"
mv "$out.new" "$out"
echo "$out"
