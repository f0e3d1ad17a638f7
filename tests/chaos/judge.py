"""Decides from recorded facts alone whether a fleet kept its promises. Imports nothing of the product or of the other tests.

A record is a dictionary of plain values (so that it can be stored, and damaged by the self-test):
  names        {seq: "v1"}: what each published version holds; chaos published them, so it knows
  digests      {"v1": hex}: as the first publish of each told
  newest       seq of the version that was published last
  undone       seqs that an operator took back: only from these may a group go back
  daemons      names of the processes that have to run, each once
  in_flight    "keep", "wait" or "abort"
  groups       {group: {engine: ranks}}
  answers      what clients got: group, engine, began, ended (seconds of one clock), prompt, asked, status, and for a 200 version, version_end,
               text, logprobs, finish; else error
  outages      [{group, since, until}]: a rank of the group was killed at 'since'; its gates were open again, with a new engine, at 'until'
  holds        [{group, since, until}]: an engine's gate was not open, from its page; 'within' says how long the rule lets that last
  engines      {engine: facts}: asked directly after everything settled: guard, label, answers (as above, without times)
  told         what batonctl says: groups, rolls, versions
  swaps        {group: [outcome]}: how its swaps ended, as the controller logs it
  predicted    outcomes that the simulator's small worlds come to when such a daemon dies once; empty: it predicts nothing of this run
  processes    [{pid, session, what, engine, command}] of this fleet, from /proc

judge() returns violations as texts; none: the promises were kept.
"""

import json
import pathlib

EXPECTED = json.loads((pathlib.Path(__file__).resolve().parents[1] / "data/expected.json").read_text())
TOLERANCE = EXPECTED["probe"]["tolerance"]
ENDED = ("ROLL_STATE_COMPLETED", "ROLL_STATE_SUPERSEDED", "ROLL_STATE_UNDONE")
# A gate's change is seen a little later than it is made.
GRACE = 0.1


def expected(name, prompt):
    return next(EXPECTED["versions"][name][key] for key, text in EXPECTED["prompts"].items() if text == prompt)


def token_fits(answer, at, name):
    """Whether token 'at' is what version 'name' says; None where it cannot be known, because what came before is another text."""
    want = expected(name, answer["prompt"])
    if answer["text"][:at] != want["text"][:at]:
        return None
    return answer["text"][at : at + 1] == want["text"][at : at + 1] and abs(answer["logprobs"][at] - want["logprobs"][at]) <= TOLERANCE


def fits_chain(answer, names):
    """Whether the tokens come from these versions in this order, each from one of them, none from a mixture of two."""
    possible = set(range(len(names)))
    for at in range(len(answer["logprobs"])):
        fits = {i: token_fits(answer, at, names[i]) for i in range(len(names))}
        possible = {i for i in fits if fits[i] is not False and any(k <= i for k in possible)}
        if not possible:
            return False
    return bool(names)


def show(answer):
    return json.dumps({k: v for k, v in answer.items() if k != "logprobs"})


def judge_tokens(record, answer):
    """One good answer."""
    try:
        first, last = int(answer["version"]), int(answer["version_end"])
    except (TypeError, ValueError):
        return ["an answer does not name its versions"]
    back = last < first and first in record["undone"]
    if first not in record["names"] or last not in record["names"] or last < first and not back:
        return [f"an answer names versions {first} to {last}, which were not published in this order"]
    if first != last and record["in_flight"] != "keep":
        return [f"an answer spans versions {first} to {last}, though the policy says {record['in_flight']}"]
    found = []
    if len(answer["logprobs"]) != answer["asked"] or len(answer["text"]) != answer["asked"]:
        found.append(f"an answer has {len(answer['logprobs'])} of {answer['asked']} tokens (finish: {answer.get('finish')})")
    seqs = [seq for seq in sorted(record["names"]) if min(first, last) <= seq <= max(first, last)]
    chain = [record["names"][seq] for seq in (reversed(seqs) if back else seqs)]
    if not fits_chain(answer, chain):
        found.append(f"an answer is not of {' then '.join(chain)} (versions {first} to {last}) but of a mixture or of something else")
    return found


def is_excused(record, answer):
    return any(
        outage["group"] == answer["group"] and answer["ended"] >= outage["since"] and answer["began"] <= outage["until"] + GRACE
        for outage in record["outages"]
    )


def judge_answers(record):
    found = []
    for answer in record["answers"]:
        if answer["status"] == 200:
            found += [f"{text}: {show(answer)}" for text in judge_tokens(record, answer)]
        elif not is_excused(record, answer):
            found.append(f"a request failed, and none of its group's ranks had been killed: {show(answer)}")
    return found


def judge_order(record):
    """A group serves one version at a time and never an older one after a newer: an answer that began after another of the group had ended
    is of the same version or a later one."""
    found = []
    for group in record["groups"]:
        good = [a for a in record["answers"] if a["group"] == group and a["status"] == 200 and a["version"] and a["version_end"]]
        by_end = sorted(good, key=lambda a: a["ended"])
        newest, next_ended = 0, 0
        for answer in sorted(good, key=lambda a: a["began"]):
            while next_ended < len(by_end) and by_end[next_ended]["ended"] < answer["began"]:
                ended = int(by_end[next_ended]["version_end"])
                newest = newest if ended in record["undone"] else max(newest, ended)
                next_ended += 1
            if int(answer["version"]) < newest:
                found.append(f"group {group} served version {newest} and later {answer['version']}: {show(answer)}")
    return found


def judge_holds(record):
    return [
        f"the gate of an engine of group {hold['group']} was closed for {hold['until'] - hold['since']:.1f} s, longer than {hold['within']:.0f} s"
        for hold in record["holds"]
        if hold["until"] - hold["since"] > hold["within"]
    ]


def pure_names(answers):
    """The versions, each of which alone explains all of these answers."""
    return {name for name in EXPECTED["versions"] if all(fits_chain(a, [name]) and len(a["text"]) == a["asked"] for a in answers)}


def judge_engine(record, name, facts, told):
    """An engine that was asked directly; 'told': its group by batonctl."""
    guard = facts.get("guard") or {}
    if told.get("gateOpen") and guard.get("gate") != "open":
        return [f"engine {name}: batonctl says that its group's gates are open, its guard says {guard.get('gate')}"]
    if guard.get("gate") != "open":
        return []
    found = []
    seq = int(guard["version"])
    pure = pure_names(facts["answers"])
    if len(pure) != 1 or not facts["answers"]:
        found.append(f"engine {name} answers like {sorted(pure) or 'none of the versions'}: {[show(a) for a in facts['answers']]}")
    elif {record["names"].get(seq)} != pure:
        found.append(f"engine {name}: its guard says version {seq} ({record['names'].get(seq)}), its answers are those of {pure.pop()}")
    if str(facts.get("label")) != str(seq):
        found.append(f"engine {name}: false label {facts.get('label')!r}, its guard says version {seq}")
    if int(told.get("committedSeq", 0)) != seq:
        found.append(f"engine {name} serves version {seq}, and batonctl says that its group committed {told.get('committedSeq')}")
    if any(str(a.get(key)) != str(seq) for a in facts["answers"] for key in ("version", "version_end")):
        found.append(f"engine {name}: an answer names another version than the guard's {seq}")
    return found


def judge_engines(record):
    found = []
    told = {g["meta"]["name"]: g for g in record["told"]["groups"]}
    for group, engines in record["groups"].items():
        served = set()
        for name in engines:
            facts = record["engines"].get(name) or {}
            found += judge_engine(record, name, facts, told.get(group, {}))
            if (facts.get("guard") or {}).get("gate") == "open":
                served.add(facts["guard"]["version"])
        if len(served) > 1:
            found.append(f"group {group} is mixed: its engines serve versions {sorted(served)}")
    return found


def judge_group(record, group, told):
    """What batonctl tells of one group."""
    committed = int(told.get("committedSeq", 0))
    found = []
    answered = [int(a["version_end"]) for a in record["answers"] if a["group"] == group and a["status"] == 200 and a["version_end"]]
    answered = [seq for seq in answered if seq not in record["undone"]]
    if answered and max(answered) > committed:
        found.append(f"group {group} answered under version {max(answered)}, and now has committed {committed}: a commit was lost")
    serves = committed == record["newest"] and told.get("gateOpen") and "ticket" not in told
    reason = told.get("blockedReason", "BLOCKED_REASON_UNSPECIFIED")
    if not serves and (not isinstance(reason, str) or reason == "BLOCKED_REASON_UNSPECIFIED" or not told.get("blockedMessage")):
        found.append(f"group {group} neither serves version {record['newest']} nor says why it waits: {json.dumps(told)}")
    return found


def judge_told(record):
    found = []
    told = {g["meta"]["name"]: g for g in record["told"]["groups"]}
    for group in record["groups"]:
        found += judge_group(record, group, told[group]) if group in told else [f"batonctl does not tell of group {group}"]
    versions = {int(v["seq"]): v for v in record["told"]["versions"] if int(v.get("seq", 0)) > 0}
    if record["newest"] not in versions or max(versions) != record["newest"]:
        found.append(f"the newest publish that was acknowledged is {record['newest']}, batonctl tells of {sorted(versions)[-3:]}")
    for seq, version in versions.items():
        if version.get("digest") != record["digests"].get(record["names"].get(seq)):
            found.append(f"version {seq} was published as {record['names'].get(seq)} and has another digest now")
    converged = all(int(g.get("committedSeq", 0)) == record["newest"] and g.get("gateOpen") for g in told.values())
    going = [r["meta"]["name"] for r in record["told"]["rolls"] if r.get("state") not in ENDED]
    if converged and going:
        found.append(f"all groups serve version {record['newest']}, and rolls have not ended: {going}")
    return found


def judge_processes(record):
    """Each daemon once, and of each engine one leader with all of its ranks in one session; nothing else."""
    found = []
    for process in record["processes"]:
        if process["what"] == "other":
            found.append(f"an orphan was left: {process}")
    for what in record["daemons"]:
        count = sum(p["what"] == what for p in record["processes"])
        if count != 1:
            found.append(f"{count} processes of {what}")
    told = {g["meta"]["name"]: g for g in record["told"]["groups"]}
    for group, engines in record["groups"].items():
        for name, ranks in engines.items():
            mine = [p for p in record["processes"] if p["what"] == "engine" and p["engine"] == name]
            sessions = {p["session"] for p in mine}
            whole = len(mine) == ranks and len(sessions) == 1
            gone = not mine and not told.get(group, {}).get("gateOpen")
            if not whole and not gone:
                found.append(f"engine {name}: {len(mine)} processes in {len(sessions)} sessions, not {ranks} in 1: {[p['pid'] for p in mine]}")
    return found


def judge_swaps(record):
    """Where one daemon dies once, a swap ends as it does somewhere in the simulator."""
    predicted = record.get("predicted", [])
    return [
        f"a swap of group {group} ended with {outcome}; with such a death the simulator comes to {' or '.join(predicted)} only"
        for group, outcomes in record.get("swaps", {}).items()
        for outcome in outcomes
        if predicted and outcome not in predicted
    ]


def judge(record):
    """All violations."""
    parts = (judge_answers, judge_order, judge_holds, judge_engines, judge_told, judge_processes, judge_swaps)
    return [violation for part in parts for violation in part(record)]


def summary(record):
    """Counts of what was judged."""
    good = [a for a in record["answers"] if a["status"] == 200]
    return {
        "answers": len(record["answers"]),
        "spans": sum(a["version"] != a["version_end"] for a in good),
        "failed": len(record["answers"]) - len(good),
        "longest": max((h["until"] - h["since"] for h in record["holds"]), default=0),
    }
