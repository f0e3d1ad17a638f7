#!/usr/bin/env bash
# Prints figures, one JSON object a line: name, value, unit, anchor, anchor_value, ratio, target, met.
# usage: tests/bench/run.sh [name...]     names: rpc core digest values delta fill flood landing layout leadership load p2p pause publish rollout rss staleness store (default: all)
# Each figure is a ratio to an anchor that is measured in the same run, medians of pairs. Exit 1 if a target was missed.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

"$BATON_ROOT/deploy/install.sh" test || exit 1
build_preset release >&2 || exit 1
bench=$BATON_BUILD/tests
names=("$@")
[ $# -gt 0 ] || names=(rpc core digest values delta fill flood landing layout leadership load p2p pause publish rollout rss staleness store)
missed=0

for name in "${names[@]}"; do
  case $name in
    rpc) "$bench/rpc_bench" ;;
    core) "$bench/core_bench" ;;
    digest) "$bench/digest_bench" ;;
    values) "$bench/values_bench" ;;
    delta) "$bench/delta_bench" ;;
    fill) /usr/bin/python3 "$BATON_ROOT/tests/bench/fill_bench.py" ;;
    flood) /usr/bin/python3 "$BATON_ROOT/tests/bench/flood_bench.py" ;;
    landing) "$bench/landing_bench" ;;
    layout) "$bench/layout_bench" ;;
    leadership) /usr/bin/python3 "$BATON_ROOT/tests/bench/leadership_bench.py" ;;
    load) "$bench/load_bench" ;;
    p2p) "$bench/p2p_bench" ;;
    pause) /usr/bin/python3 "$BATON_ROOT/tests/bench/pause_bench.py" ;;
    publish) /usr/bin/python3 "$BATON_ROOT/tests/bench/publish_bench.py" ;;
    rollout) /usr/bin/python3 "$BATON_ROOT/tests/bench/rollout_bench.py" ;;
    rss) /usr/bin/python3 "$BATON_ROOT/tests/bench/rss_bench.py" ;;
    staleness) "$bench/staleness_bench" ;;
    store) "$bench/store_bench" ;;
    *) echo "run.sh: no figure '$name'; there are: rpc core digest values delta fill flood landing layout leadership load p2p pause publish rollout rss staleness store" >&2; exit 2 ;;
  esac || missed=1
done
exit "$missed"
