"""Faults that the judge of histories must see, planted into a good one; as planted.py does with records."""

import copy
import time

import judge_history


def made_history():
    """A good history, made by hand: three publishes, one leadership after another, a hold and a cordon, one group swapping at a time."""
    publishes = [{"step": n, "version": f"v{n}", "began": 10.0 * n, "acked": 10.0 * n + 2, "seq": n, "digest": f"d{n}"} for n in (1, 2, 3)]
    intents, held, cordoned = [], False, []
    for at, (what, target) in enumerate((("hold", None), ("resume", None), ("cordon", "g0"), ("undo", None), ("resume", None))):
        held = what in ("hold", "undo")
        cordoned = ["g0"] if at >= 2 else cordoned
        when = 13.0 + at
        intents.append({"what": what, "target": target, "began": when, "acked": when + 0.5, "refused": False, "read": {"held": held, "cordoned": cordoned}})
    gates = [(5.0, e, "open", 5.0) for e in ("g0.e0", "g1.e0", "g2.e0")]
    gates += [(31.0, "g1.e0", "hold", 30.9), (31.2, "g1.e0", "open", 31.1), (31.15, "g2.e0", "hold", 31.1), (31.5, "g2.e0", "open", 31.4)]
    return {
        "publishes": publishes,
        "intents": intents,
        "versions": [{"seq": str(p["seq"]), "optimizerStep": str(p["step"]), "digest": p["digest"]} for p in publishes],
        "undo_rolls": 1,
        "max_unavailable": 1,
        "gates": gates,
        "began": 9.0,
        "groups": {"g0": {"g0.e0": 1}, "g1": {"g1.e0": 1}, "g2": {"g2.e0": 1}},
        "outages": [],
        "epochs": [{"revision": 2 * n, "epoch": (7, n), "writer": f"w{n}"} for n in (1, 2, 3)],
        "leaderships": [("c0", (7, 1)), ("c1", (7, 2)), ("c0", (7, 3))],
        "deaths": [{"name": "c1", "code": -9, "ours": True, "served": True}, {"name": "n2", "code": 1, "ours": False, "served": False}],
        "told": {"held": False, "cordoned": ["g0"]},
    }


def last(history):
    return max(history["publishes"], key=lambda p: p["seq"])


def plant_lost_publish(h):
    h["versions"] = [v for v in h["versions"] if int(v["seq"]) != last(h)["seq"]]


def plant_doubled_publish(h):
    h["versions"].append({**h["versions"][-1], "seq": str(last(h)["seq"] + 1)})


def plant_one_seq_for_two(h):
    h["publishes"].append({**last(h), "step": 4711})


def plant_seqs_against_time(h):
    """The first was acknowledged before the last began, and has the higher number."""
    first, final = min(h["publishes"], key=lambda p: p["seq"]), last(h)
    for key in ("began", "acked"):
        first[key], final[key] = final[key], first[key]


def plant_publish_of_nobody(h):
    h["versions"].append({"seq": str(last(h)["seq"] + 1), "optimizerStep": "4711", "digest": "planted"})


def plant_other_content(h):
    next(v for v in h["versions"] if int(v["seq"]) == last(h)["seq"])["digest"] = "planted"


def plant_no_answer(h):
    last(h)["acked"] = None


def plant_epoch_back(h):
    h["epochs"].append({**h["epochs"][0], "revision": h["epochs"][-1]["revision"] + 1, "epoch": (0, 1)})


def plant_epoch_of_two(h):
    h["epochs"].append({**h["epochs"][-1], "revision": h["epochs"][-1]["revision"] + 1, "writer": "planted"})


def plant_two_leaders(h):
    h["leaderships"].append(("another", h["leaderships"][-1][1]))


def plant_old_leader(h):
    h["leaderships"].append((h["leaderships"][-1][0], (0, 1)))


def plant_lost_intent(h):
    h["intents"][-1]["read"] = {"held": True, "cordoned": ["planted"]}


def plant_lost_later(h):
    h["told"] = {"held": True, "cordoned": ["planted"]}


def plant_lost_undo(h):
    h["undo_rolls"] -= 1


def plant_budget(h):
    when = max([w for w, _, _, _ in h["gates"]] + [h["began"]]) + 1
    h["gates"] = h["gates"] + [(when + 0.01 * i, next(iter(engines)), "hold", when) for i, engines in enumerate(h["groups"].values())]


def plant_crash(h):
    h["deaths"].append({"name": "c0", "code": -6, "ours": False, "served": False})


def plant_no_start(h):
    h["deaths"].append({"name": "c0", "code": 1, "ours": False, "served": False})


def plant_end(h):
    h["deaths"].append({"name": "c0", "code": 1, "ours": False, "served": True})


PLANTS = {name[6:]: plant for name, plant in sorted(globals().items()) if name.startswith("plant_")}


def answer(group, version, began):
    return {"group": group, "status": 200, "version": version, "version_end": version, "began": began, "ended": began + 0.1}


def missed_stops(history):
    """Served while it was held, and by a cordoned group: both must be seen, and the same just after must not."""
    publish = last(history)
    began, seq = publish["began"], str(publish["seq"])
    group = next(iter(history["groups"]))
    names = []
    for name, what, end, target in (("held", "hold", "resume", None), ("cordoned", "cordon", "uncordon", group)):
        one = {"what": what, "target": target, "began": began - 2, "acked": began - 1, "refused": False}
        other = {"what": end, "target": target, "began": began + 5, "acked": began + 6, "refused": False}
        damaged = {**history, "intents": [one, other]}
        if not judge_history.judge_stops(damaged, [answer(group, seq, began + 1)]) or judge_history.judge_stops(damaged, [answer(group, seq, began + 5)]):
            names.append(f"served while {name}")
    return names


def missed_retention():
    """Of 60 publishes the newest 50 are kept and an old one in use, which is good; one of the 50 that is gone must be seen."""
    publishes = [{"step": n, "version": "v1", "began": 10.0 * n, "acked": 10.0 * n + 2, "seq": n, "digest": "d"} for n in range(1, 61)]
    kept = [{"seq": str(n), "optimizerStep": str(n), "digest": "d"} for n in (3, *range(11, 61))]
    lost = [v for v in kept if v["seq"] != "30"]
    lost.insert(1, {"seq": "10", "optimizerStep": "10", "digest": "d"})
    names = [] if not judge_history.judge_publishes({"publishes": publishes, "versions": kept}) else ["(retention is no loss)"]
    return names + ([] if judge_history.judge_publishes({"publishes": publishes, "versions": lost}) else ["lost among those kept"])


def missed(record):
    """Plants that the judge does not see in this record's history, which it must find good; [] if it has none."""
    history = record.get("history")
    if history is None:
        return []
    found = judge_history.judge(history, record["answers"])
    if found:
        return [f"(the history was not good: {found[0]})"]
    names = missed_stops(history)
    for name, plant in PLANTS.items():
        damaged = copy.deepcopy(history)
        plant(damaged)
        if not judge_history.judge(damaged, record["answers"]):
            names.append(name)
    return names


def self_test():
    began = time.monotonic()
    names = missed({"history": made_history(), "answers": []}) + missed_retention()
    for name in names:
        print(f"  MISSED {name}")
    print(f"  {len(PLANTS) + 3} plants in {time.monotonic() - began:.1f} s")
    print(f"{'not ok' if names else 'ok'} - chaos judge of histories catches {len(PLANTS) + 3} planted faults")
    return 1 if names else 0
