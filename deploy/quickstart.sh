#!/usr/bin/env bash
# Shows Baton at work on this machine: installs what is missing, builds, starts a controller, two agents and three groups of engines
# that serve a small real model, publishes a second version while requests run, and shows what each group said before and after.
# usage: deploy/quickstart.sh [--keep]
#   --keep   leave everything running and print what to try next
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BATON_BUILD:-$root/build}
keep=
case ${1:-} in
  --keep) keep=1 ;;
  '') ;;
  *) sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
data=$root/tests/data/qwen3-tiny
pids=()
work=
shm=

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

stop_all() {
  local pid i
  # The newest first: traffic, agents (they end the engines that they started), the controller.
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    pid=${pids[i]}
    kill "$pid" 2>/dev/null || continue
    for _ in $(seq 300); do
      kill -0 "$pid" 2>/dev/null || continue 2
      sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
  done
  [ -z "$work" ] || rm -rf "$work"
  [ -z "$shm" ] || rm -rf "$shm"
}

fail() {
  echo "quickstart: $*" >&2
  for log in "$work"/*.log; do
    [ -s "$log" ] && { echo "--- $(basename "$log")" >&2; tail -n 15 "$log" >&2; }
  done
  exit 1
}

install_and_build() {
  step "Installing what is missing and building"
  "$root/deploy/install.sh" build
  cmake -S "$root" -B "$build" -G Ninja -DBATON_PRESET=release >"$work/cmake.log" 2>&1 || fail "cmake failed"
  ninja -C "$build" baton-controller baton-agent batonctl baton_shared miniengine >"$work/build.log" 2>&1 || fail "the build failed"
  PATH=$build/controller/shell:$build/controller/cli:$build/agent/shell:$build/tests/miniengine:$PATH
}

# Free ports of loopback, all at once, so that none comes twice; below those that the kernel gives to anybody who asks for one.
free_ports() {
  python3 - "$1" <<'PY'
import random, socket, sys
held = []
for port in random.SystemRandom().sample(range(15000, 32000), 1000):
    if len(held) < int(sys.argv[1]):
        held.append(socket.socket())
        try:
            held[-1].bind(("127.0.0.1", port))
        except OSError:
            held.pop().close()
print(*[s.getsockname()[1] for s in held])
PY
}

# engine NAME PORT RANKS: one engine of an agent's file.
engine() {
  cat <<YAML
      - name: $1
        kind: vllm
        url: http://127.0.0.1:$2
        recreate:
          exec:
            command: [miniengine, --model, "{checkpoint}", --served-model-name, default, --port, "$2", --tensor-parallel-size, "$3"]
YAML
}

agent_head() {
  cat <<YAML
name: $1
controller: 127.0.0.1:${ports[0]}
stateDirectory: $work/$1
socket: unix:$work/$1.sock
landing: {directory: $shm/$1, budget: 64MiB}
versions: {directory: $work/versions}
stopEnginesOnExit: true
groups:
YAML
}

write_files() {
  read -r -a ports < <(free_ports 5)
  mkdir -p "$work/versions"
  {
    agent_head node-a
    printf '  - name: g0\n    model: demo\n    engines:\n'
    engine e0 "${ports[1]}" 1
    printf '  - name: g1\n    model: demo\n    engines:\n'
    engine e0 "${ports[2]}" 2
  } >"$work/node-a.yaml"
  {
    agent_head node-b
    printf '  - name: g2\n    model: demo\n    engines:\n'
    engine e0 "${ports[3]}" 1
    engine e1 "${ports[4]}" 1
  } >"$work/node-b.yaml"
  cat >"$work/model.yaml" <<YAML
apiVersion: baton/v1
kind: Model
metadata:
  name: demo
spec:
  update:
    trigger: OnPublish
    strategy: Rolling
    maxUnavailable: 1
    inFlight: keep
    kv: flush
    arrivals: hold
YAML
}

wait_for() {
  local what=$1
  shift
  local deadline=$((SECONDS + 60))
  while [ "$SECONDS" -lt "$deadline" ]; do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.1
  done
  fail "$what did not come up within 60 s"
}

start_daemons() {
  step "Starting a controller on SQLite, and two agents"
  export BATON_SERVER=127.0.0.1:${ports[0]} BATON_AGENT=unix:$work/node-a.sock
  baton-controller --listen "$BATON_SERVER" --store "sqlite:$work/controller.db" 2>"$work/controller.log" &
  pids+=($!)
  wait_for "the controller" batonctl get models
  batonctl apply -f "$work/model.yaml"
  for node in node-a node-b; do
    baton-agent --config "$work/$node.yaml" 2>"$work/$node.log" &
    pids+=($!)
  done
  for node in node-a node-b; do
    wait_for "agent $node" batonctl --agent "unix:$work/$node.sock" status
  done
}

first_version() {
  step "Publishing v1; the agents start the engines on it"
  batonctl publish "$data/v1" --model demo --optimizer-step 100 || fail "publish failed"
  batonctl wait demo --for=converged --timeout 60s || { batonctl get groups -o wide; fail "v1 was not served"; }
  wait_for "group g2" sh -c "batonctl get groups --no-headers | grep -c 'SERVING .*v1' | grep -qx 3"
  batonctl get groups
}

start_traffic() {
  step "Requests run from here on, against every engine"
  python3 "$root/tests/e2e/traffic.py" --out "$work/answers.jsonl" --seconds 300 \
    "g0.e0=http://127.0.0.1:${ports[1]}" "g1.e0=http://127.0.0.1:${ports[2]}" \
    "g2.e0=http://127.0.0.1:${ports[3]}" "g2.e1=http://127.0.0.1:${ports[4]}" >"$work/traffic.json" 2>"$work/traffic.log" &
  traffic=$!
  pids+=("$traffic")
  wait_for "traffic" test -s "$work/answers.jsonl"
  sleep 1
}

second_version() {
  step "Publishing v2; the roll, live (one group at a time)"
  batonctl publish "$data/v2" --model demo --optimizer-step 200 || fail "publish failed"
  batonctl roll watch demo --timeout 90s || { batonctl get groups -o wide; fail "the roll did not complete"; }
  batonctl wait demo --for=converged --timeout 30s
  sleep 1
}

# Publishes v3 from PyTorch, where it is installed (the environment of the vllm suite has it).
third_version() {
  local python
  for python in python3 "${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}"/vllm-*/bin/python; do
    if "$python" -c 'import torch, safetensors' 2>/dev/null; then
      step "Publishing v3 from PyTorch, as a trainer would (only the changed tensors)"
      PYTHONPATH=$root/api/python BATON_LIB=$build/api/client/libbaton.so "$python" "$root/deploy/quickstart_publish.py" demo "$data/v2" "$data/v3" ||
        fail "publish from PyTorch failed"
      batonctl wait demo --for=converged --timeout 60s || fail "v3 was not served"
      return 0
    fi
  done
  echo "(PyTorch is not installed here, so v3 is not published from a trainer.)"
}

show_result() {
  step "What each group said before and after, and where the pause went"
  kill "$traffic"
  wait "$traffic" || true
  batonctl get groups -o json >"$work/groups.json"
  python3 "$root/deploy/quickstart_report.py" "$work/answers.jsonl" "$work/groups.json" "$work/traffic.json" || fail "a request failed"
}

what_next() {
  cat <<TEXT

It all keeps running. Try:
  export PATH=$build/controller/cli:\$PATH BATON_SERVER=$BATON_SERVER BATON_AGENT=$BATON_AGENT
  batonctl get groups -o wide
  batonctl describe group g1
  batonctl roll undo demo --reason 'trying it out' && batonctl roll watch demo
  batonctl resume model/demo
  batonctl events -w
Stop it: kill ${pids[*]}; rm -rf $work $shm
TEXT
}

work=$(mktemp -d "${TMPDIR:-/tmp}/baton-quickstart.XXXXXX")
shm=$(mktemp -d /dev/shm/baton-quickstart.XXXXXX)
trap stop_all EXIT
started=$SECONDS
install_and_build
write_files
start_daemons
first_version
start_traffic
second_version
third_version
show_result
echo
echo "Done in $((SECONDS - started)) s."
if [ -n "$keep" ]; then
  trap - EXIT
  what_next
fi
