#!/bin/sh
# Makes certificates for the TLS tests in a folder: a CA, a server, a client, and a CA that nobody trusts with a server.
# usage: rpc_certs.sh FOLDER
set -eu
cd "$1"

ca() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
    -subj "/CN=$1" -keyout "$1.key" -out "$1.pem"
}

# leaf NAME CA SAN [COMMON_NAME]
leaf() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=${4:-$1}" \
    -keyout "$1.key" -out "$1.csr"
  printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$3" >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -days 2 \
    -extfile "$1.ext" -out "$1.pem"
}

{
  ca ca
  ca stranger
  leaf server ca "DNS:controller.test,IP:127.0.0.1"
  leaf client ca "URI:spiffe://baton.test/agent/a1"
  leaf named ca "URI:spiffe://baton.test/agent/a2,DNS:a2.test,DNS:with space.test,DNS:other.test"
  leaf twofold ca "URI:spiffe://baton.test/agent/a3,URI:spiffe://baton.test/operator/o1,DNS:a3.test"
  leaf bare ca "IP:127.0.0.1"
  leaf pretender ca "IP:127.0.0.1" local
  leaf impostor stranger "DNS:controller.test,IP:127.0.0.1"
} >log 2>&1 || {
  cat log >&2
  exit 1
}
