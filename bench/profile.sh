#!/usr/bin/env bash
# Takes the CPU profile that the program is built with (profile-guided
# optimisation): the relay while a fleet of both variants over four keys is told
# of changes, and some of it reconnects. Everything stays on loopback.
set -euo pipefail
cd "$(dirname "$0")/.."

origin=127.0.0.1:28100 relay=127.0.0.1:28000 admin=127.0.0.1:28001
content=(--keys 4 --resources 100 --listeners 10 --size 500)
children=()
trap 'kill "${children[@]}" 2>/dev/null || true; wait' EXIT

# ready URL waits for an HTTP server, or says that there is none.
ready() {
  for _ in $(seq 100); do
    curl -fsS -o /dev/null "$1" 2>/dev/null && return
    sleep 0.1
  done
  echo "nothing answers at $1" >&2
  return 1
}

bin/xdsbench origin --listen "$origin" "${content[@]}" --every 60ms >/dev/null & children+=($!)
bin/xdsrelay run --upstream "$origin" --listen "$relay" --admin "$admin" 2>/dev/null & children+=($!)
ready "http://$admin/healthz"
fleet=(bin/xdsbench fleet --addr "$relay" "${content[@]}" --churn 5 --churn-every 3s)
"${fleet[@]}" --clients 800 >/dev/null & children+=($!)
"${fleet[@]}" --clients 400 --sotw --first-client 5000 >/dev/null & children+=($!)
sleep 2 # until all hold everything
curl -fsS -o cmd/xdsrelay/default.pgo "http://$admin/debug/pprof/profile?seconds=40"
