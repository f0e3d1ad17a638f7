"""What the quickstart prints at its end: texts by version, pauses by phase, failed requests. Exit 1 if a request failed."""

import json
import sys

PHASES = ["pause", "apply", "finalize", "verify", "invalidate", "commit", "label", "probe", "open"]


def texts_by_group(lines):
    """{group: {version: text}} of the first prompt, from answers that began and ended under one version."""
    out = {}
    for line in lines:
        if line["status"] == 200 and line["version"] == line["version_end"] and line["prompt"].startswith("The conductor"):
            out.setdefault(line["engine"].split(".")[0], {}).setdefault(int(line["version"]), line["text"])
    return out


def print_group(group, texts):
    name = group["meta"]["name"]
    swap = group.get("lastSwap", {})
    phases = swap.get("phases", {})
    print(f"\n{name}: serves v{group['committedSeq']}, {len(group['engines'])} engine(s), {sum(e['worldSize'] for e in group['engines'])} rank(s)")
    for version, text in sorted(texts.get(name, {}).items()):
        print(f"  v{version}: The conductor lifts the baton and | {text!r}")
    parts = [f"{phase} {int(phases.get(phase + 'Ns', 0)) / 1e6:.1f}" for phase in PHASES]
    print(f"  gate shut {int(phases.get('shutNs', 0)) / 1e6:.1f} ms, of it: {', '.join(parts)} (ms); verified: {swap.get('verifyLevel', '-').replace('VERIFY_LEVEL_', '').lower()}")


def main():
    answers, groups, traffic = sys.argv[1:4]
    with open(answers, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    with open(groups, encoding="utf-8") as file:
        items = json.load(file)["items"]
    with open(traffic, encoding="utf-8") as file:
        total = json.load(file)
    texts = texts_by_group(lines)
    for group in items:
        print_group(group, texts)
    print(f"\n{total['requests']} requests, {total['failed']} failed, the slowest took {total['slowest_ms']:.0f} ms")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
