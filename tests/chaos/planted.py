"""Faults that the judge must see: each is planted into a good record, and the judge must then find something."""

import copy
import time

import judge

GROUPS = {"g0": {"g0.e0": 1}, "g1": {"g1.e0": 2}, "g2": {"g2.e0": 1, "g2.e1": 1}}


def answer(seqs, names, key="probe", tokens=24, switch=None):
    """What a group says that serves seqs[0], and seqs[1] from token 'switch' on."""
    prompt, first, last = judge.EXPECTED["prompts"][key], names[seqs[0]], names[seqs[-1]]
    switch = tokens if switch is None else switch
    old, new = judge.expected(first, prompt), judge.expected(last, prompt)
    return {
        "prompt": prompt,
        "asked": tokens,
        "status": 200,
        "version": str(seqs[0]),
        "version_end": str(seqs[-1]),
        "text": (old["text"][:switch] + new["text"][switch:])[:tokens],
        "logprobs": old["logprobs"][:switch] + new["logprobs"][switch:tokens],
        "finish": "length",
    }


def made_record():
    """A good record, made by hand: a roll from version 2 to 3, with one answer across it and one engine killed."""
    names = {1: "v1", 2: "v2", 3: "v3"}
    record = {"names": names, "digests": {n: n * 16 for n in names.values()}, "newest": 3, "in_flight": "keep", "groups": copy.deepcopy(GROUPS)}
    record["daemons"], record["undone"] = ["controller", "node-a", "node-b"], set()
    record["outages"] = [{"group": "g1", "since": 4.0, "until": 6.0}]
    record["holds"] = [{"group": "g0", "since": 2.0, "until": 2.2, "within": 40}]
    answers = []
    for group, engines in GROUPS.items():
        for engine in engines:
            for began, seqs, switch in ((1.0, (2,), None), (1.9, (2, 3), 9), (3.0, (3,), None)):
                answers.append({"group": group, "engine": engine, "began": began, "ended": began + 0.5, **answer(seqs, names, switch=switch)})
    answers.append({"group": "g1", "engine": "g1.e0", "began": 5.0, "ended": 5.1, "prompt": "", "asked": 9, "status": 503, "error": "shut"})
    record["answers"] = answers
    good = [answer((3,), names, key, 40) for key in ("probe", "long")]
    facts = {"guard": {"gate": "open", "version": 3}, "label": "3", "answers": good}
    record["engines"] = {engine: copy.deepcopy(facts) for engines in GROUPS.values() for engine in engines}
    groups = [{"meta": {"name": g}, "committedSeq": "3", "gateOpen": True, "state": "GROUP_STATE_SERVING"} for g in GROUPS]
    rolls = [{"meta": {"name": "m.2"}, "state": "ROLL_STATE_COMPLETED"}, {"meta": {"name": "m.1"}, "state": "ROLL_STATE_SUPERSEDED"}]
    record["told"] = {"groups": groups, "rolls": rolls, "versions": [{"seq": str(n), "digest": names[n] * 16} for n in names]}
    processes = [{"pid": i, "session": i, "what": w, "engine": "", "command": w} for i, w in enumerate(["controller", "node-a", "node-b"])]
    for at, (engine, ranks) in enumerate((e, r) for engines in GROUPS.values() for e, r in engines.items()):
        processes += [{"pid": 10 * at + 10 + i, "session": 10 * at + 10, "what": "engine", "engine": engine, "command": ""} for i in range(ranks)]
    record["processes"] = processes
    record["predicted"], record["swaps"] = ["COMMITTED", "OUT"], {group: ["COMMITTED"] for group in GROUPS}
    return record


def good_answer(record, at=0):
    """The at-th good answer of one version."""
    return [a for a in record["answers"] if a["status"] == 200 and a["version"] == a["version_end"]][at]


def engine_like(record, engines, ranks, at=0):
    """The at-th engine of a group of so many engines of so many ranks that serves the newest version; none may be there at present."""
    serving = {g["meta"]["name"] for g in record["told"]["groups"] if int(g.get("committedSeq", 0)) == record["newest"] and g.get("gateOpen")}
    for group, parts in record["groups"].items():
        if group in serving and list(parts.values()) == [ranks] * engines:
            return list(parts)[at]
    return None


def serving_group(record):
    return next(g for g in record["told"]["groups"] if int(g.get("committedSeq", 0)) == record["newest"] and g.get("gateOpen"))


def other_name(record, seq):
    return next(n for n in ("v2", "v3", "v1") if n != record["names"][seq])


def say(target, name, start):
    """From token 'start' on, 'target' says what version 'name' does."""
    want = judge.expected(name, target["prompt"])
    target["text"] = (target["text"][:start] + want["text"][start:])[: target["asked"]]
    target["logprobs"] = (target["logprobs"][:start] + want["logprobs"][start:])[: target["asked"]]


def plant_mixture(r):
    target = good_answer(r)
    say(target, other_name(r, int(target["version"])), 3)


def plant_wrong_version(r):
    target = good_answer(r)
    say(target, other_name(r, int(target["version"])), 0)


def plant_drift(r):
    """All ranks but one: the text stays, one log-probability moves by a little more than the tolerance."""
    good_answer(r)["logprobs"][5] += 2.5 * judge.TOLERANCE


def plant_going_back(r):
    """A span whose first tokens are the new version's and its last ones the old version's."""
    names = {1: "v1", 2: "v2"}
    target = {**good_answer(r), **answer((1, 2), names, key="probe", switch=0)}
    say(target, "v1", 8)
    target["text"] = judge.expected("v2", target["prompt"])["text"][:8] + judge.expected("v1", target["prompt"])["text"][8 : target["asked"]]
    r["names"] = {**r["names"], **names}
    r["answers"] = [target]


def plant_span_without_keep(r):
    r["in_flight"] = "wait"
    r["answers"].append({**good_answer(r), "version": min(r["names"]), "version_end": max(r["names"])})


def plant_unknown_version(r):
    good_answer(r).update(version="4711", version_end="4711")


def plant_no_version(r):
    good_answer(r)["version"] = None


def plant_cut_answer(r):
    target = good_answer(r)
    target["text"], target["logprobs"] = target["text"][:-2], target["logprobs"][:-2]


def plant_failure(r):
    r["outages"] = []
    r["answers"].append({**good_answer(r), "status": 503, "error": "planted"})


def plant_failure_elsewhere(r):
    target = good_answer(r)
    r["outages"] = [{"group": "other", "since": target["began"], "until": target["ended"]}]
    r["answers"].append({**target, "status": 0, "error": "planted"})


def plant_late_failure(r):
    target = good_answer(r)
    r["outages"] = [{"group": target["group"], "since": target["began"] - 9, "until": target["began"] - 1}]
    r["answers"].append({**target, "status": 503, "error": "planted"})


def plant_old_after_new(r):
    """One engine of the group serves the old version after another has served the new one."""
    target = good_answer(r, -1)
    older = {**target, "engine": "another", "version": str(int(target["version"]) - 1), "version_end": str(int(target["version"]) - 1)}
    older.update(began=target["ended"] + 1, ended=target["ended"] + 2)
    say(older, r["names"][int(older["version"])], 0)
    r["answers"].append(older)


def plant_long_hold(r):
    r["holds"].append({"group": next(iter(r["groups"])), "since": 1.0, "until": 100.0, "within": 40})


def first_engine(r):
    return next(e for e in r["engines"].values() if e["guard"]["gate"] == "open")


def plant_false_label(r):
    first_engine(r)["label"] = str(r["newest"] - 1)


def plant_no_label(r):
    first_engine(r)["label"] = None


def plant_mixed_group(r):
    """One of two engines is wholly on another version, label and all."""
    facts = r["engines"][engine_like(r, 2, 1, 1)]
    seq = r["newest"] - 1
    facts["guard"]["version"], facts["label"] = seq, str(seq)
    for each in facts["answers"]:
        say(each, r["names"][seq], 0)
        each.update(version=str(seq), version_end=str(seq))


def plant_mixed_ranks(r):
    """One of two ranks is on another version: the sums lie between both."""
    facts = r["engines"][engine_like(r, 1, 2)]
    for each in facts["answers"]:
        other = judge.expected(other_name(r, r["newest"]), each["prompt"])["logprobs"]
        each["logprobs"] = [(a + b) / 2 for a, b in zip(each["logprobs"], other)]


def plant_stale_cache(r):
    """Only the answer from the prefix cache is wrong."""
    say(r["engines"][engine_like(r, 1, 1)]["answers"][1], other_name(r, r["newest"]), 0)


def plant_shut_gate(r):
    first_engine(r)["guard"]["gate"] = "shut"


def plant_no_answer(r):
    first_engine(r)["answers"] = []


def plant_lost_commit(r):
    serving_group(r).update(committedSeq=str(r["newest"] - 1), blockedReason="BLOCKED_REASON_STAGING", blockedMessage="planted")


def plant_lost_publish(r):
    r["told"]["versions"] = [v for v in r["told"]["versions"] if int(v.get("seq", 0)) != r["newest"]]


def plant_doubled_publish(r):
    r["told"]["versions"].append({"seq": str(r["newest"] + 1), "digest": "planted"})


def plant_other_digest(r):
    r["told"]["versions"][-1]["digest"] = "planted"


def plant_no_reason(r):
    serving_group(r)["gateOpen"] = False


def plant_lost_group(r):
    del r["told"]["groups"][0]


def plant_endless_roll(r):
    r["told"]["rolls"][0]["state"] = "ROLL_STATE_ROLLING"


def plant_doubled_engine(r):
    mine = [p for p in r["processes"] if p["engine"] == engine_like(r, 1, 1)]
    r["processes"].append({**mine[0], "pid": 99999, "session": 99999})


def plant_lost_rank(r):
    mine = [p for p in r["processes"] if p["engine"] == engine_like(r, 1, 2)]
    r["processes"].remove(mine[-1])


def plant_orphan(r):
    r["processes"].append({"pid": 99999, "session": 99999, "what": "other", "engine": "", "command": "planted"})


def plant_unpredicted_swap(r):
    r["predicted"] = r.get("predicted") or ["COMMITTED"]
    r.setdefault("swaps", {}).setdefault("g0", []).append("LOST")


def plant_doubled_daemon(r):
    r["processes"] += [p for p in r["processes"] if p["what"] == r["daemons"][0]]


PLANTS = {name[6:]: plant for name, plant in sorted(globals().items()) if name.startswith("plant_")}


def applies(record, name):
    """Some damage is none while a group is kept back: a roll may then go on, and an engine of the wanted shape may not serve."""
    if name == "endless_roll":
        return all(int(g.get("committedSeq", 0)) == record["newest"] for g in record["told"]["groups"])
    shapes = {"mixed_group": (2, 1), "mixed_ranks": (1, 2), "stale_cache": (1, 1), "doubled_engine": (1, 1), "lost_rank": (1, 2)}
    return name not in shapes or engine_like(record, *shapes[name]) is not None


def missed(record):
    """Plants that the judge does not see in this record, which it must find good."""
    found = judge.judge(record)
    if found:
        return [f"(the record was not good: {found[0]})"]
    names = []
    for name, plant in PLANTS.items():
        if not applies(record, name):
            continue
        damaged = copy.deepcopy(record)
        plant(damaged)
        if not judge.judge(damaged):
            names.append(name)
    return names


def self_test():
    began = time.monotonic()
    names = missed(made_record())
    for name in PLANTS:
        if name not in names:
            print(f"  caught {name.replace('_', ' ')}")
    for name in names:
        print(f"  MISSED {name}")
    print(f"  {len(PLANTS)} plants in {time.monotonic() - began:.1f} s")
    print(f"{'not ok' if names else 'ok'} - chaos judge catches {len(PLANTS)} planted faults")
    return 1 if names else 0
