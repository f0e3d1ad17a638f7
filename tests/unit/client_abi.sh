#!/bin/sh
# What libbaton.so shows and needs: exports exactly what baton.h declares; no threads, processes, signal handlers or gRPC.
# usage: client_abi.sh LIBBATON_SO BATON_H
set -eu
library=$1
header=$2
exported=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sort)
declared=$(grep -oE '\bbaton_[a-z_]+\(' "$header" | tr -d "(" | grep -v "_fn$" | sort -u)
if [ "$exported" != "$declared" ]; then
  echo "exported and declared differ:"
  echo "exported: $exported"
  echo "declared: $declared"
  exit 1
fi
bad=$(nm -D --undefined-only "$library" | awk '{ print $2 }' |
  grep -E '^(pthread_create|fork|vfork|posix_spawn|exec|system|popen|sigaction|signal|sigprocmask|pthread_sigmask|atexit|pthread_atfork|grpc)' || true)
if [ -n "$bad" ]; then
  echo "libbaton must not use: $bad"
  exit 1
fi
needed=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libm|libpthread|ld-linux.*)\.so' || true)
if [ -n "$needed" ]; then
  echo "libbaton must need the C library only: $needed"
  exit 1
fi
