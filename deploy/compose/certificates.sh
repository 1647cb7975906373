#!/bin/sh
# Makes certificates for compose.tls.yaml with OpenSSL: one authority, one certificate for
# the relays, the control plane and Redis, and one for the Envoys. For trials only: the
# containers run as different users, so all users of this machine can read the keys.
#   sh deploy/compose/certificates.sh [FOLDER]    (default: deploy/compose/tls)
set -eu

dir=${1:-$(dirname "$0")/tls}
mkdir -p "$dir/server" "$dir/client"
cd "$dir"

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 90 \
  -subj "/CN=xdsrelay trial" -keyout ca.key -out ca.crt 2>/dev/null

# issue FOLDER USAGE NAMES makes a certificate for these names.
issue() {
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
    -subj "/CN=$1" -keyout "$1/tls.key" -out request.pem 2>/dev/null
  printf 'extendedKeyUsage=%s\nsubjectAltName=%s\n' "$2" "$3" >extensions
  openssl x509 -req -in request.pem -CA ca.crt -CAkey ca.key -CAcreateserial -days 90 \
    -extfile extensions -out "$1/tls.crt" 2>/dev/null
  cp ca.crt "$1/ca.crt"
  chmod 644 "$1/tls.key" "$1/tls.crt" "$1/ca.crt"
  rm request.pem extensions
}
# Relays are also clients: of each other, of the control plane and of Redis.
issue server serverAuth,clientAuth DNS:relay-a,DNS:relay-b,DNS:relay,DNS:control-plane,DNS:redis
# relay.tls.yaml authorizes clients by the cluster in their certificate.
issue client clientAuth DNS:demo
echo "certificates in $dir, valid for 90 days"
