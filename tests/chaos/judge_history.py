"""Judges what trainers and an operator were told in a cluster, against what etcd, engines' pages and processes show. Imports nothing of the product.

A history is a dictionary of plain values, of the whole life of a cluster where nothing else is said:
  publishes    [{step, version, began, acked, seq, digest}]: each with a step of its own, each said again until it was acknowledged
  intents      [{what, target, began, acked, refused, read}] of the one operator, in order; read: what was told after the answer
  versions, told    as batonctl lists them at the end of the run; told as 'read'
  undo_rolls   how many rolls of the run were undos
  gates        [(when, engine, gate, before)], from pages, in order: seen so at 'when', and as it was until then at 'before'
  outages      of the run, which began at 'began'
  epochs       [{revision, epoch, writer}]: each value of etcd's key
  leaderships  [(controller, epoch)], from logs, each controller's in order
  deaths       [{name, code, ours, served}] of the run: how processes ended; ours: chaos killed it; served: it had come to listen
  groups       {group: {engine: ranks}}; max_unavailable of the model
"""

GRACE = 0.1
KEPT = 50  # The newest versions of a model, besides those in use: configuration.md, versionsKept.


def judge_publishes(history):
    """One real-time order: what was acknowledged before another one began has the lower number; each exists, once, as it was told."""
    done = sorted((p for p in history["publishes"] if p["acked"]), key=lambda p: p["seq"])
    found = [f"publish {p['step']} was never acknowledged" for p in history["publishes"] if not p["acked"]]
    for one, other in zip(done, done[1:]):
        if one["seq"] == other["seq"]:
            found.append(f"publishes {one['step']} and {other['step']} were both told that they are version {one['seq']}")
    earliest_end = float("inf")
    for publish in reversed(done):
        if publish["began"] > earliest_end:
            found.append(f"publish {publish['step']} is version {publish['seq']}, though one with a higher number had been acknowledged before it began")
        earliest_end = min(earliest_end, publish["acked"])
    told = {int(v["seq"]): v for v in history["versions"] if int(v.get("seq", 0)) > 0}
    oldest_kept = sorted(told)[-KEPT] if len(told) >= KEPT else 0
    for publish in done:
        version = told.get(publish["seq"])
        if version is None:
            if publish["seq"] > oldest_kept:
                found.append(f"publish {publish['step']} was acknowledged as version {publish['seq']}, which there is not")
        elif int(version.get("optimizerStep", 0)) != publish["step"] or version.get("digest") != publish["digest"]:
            found.append(f"version {publish['seq']} is not publish {publish['step']}: {version}")
    steps = [int(v.get("optimizerStep", 0)) for v in told.values()]
    found += [f"publish {step} is there {steps.count(step)} times" for step in sorted(set(steps)) if steps.count(step) > 1]
    known = {p["seq"] for p in done}
    found += [f"version {seq} was published by nobody" for seq in told if seq not in known]
    return found


def judge_epochs(history):
    """As etcd has it: never back, and one epoch has one writer. As logs have it: each leadership has one of its own, and each controller's rise."""
    found = []
    for one, other in zip(history["epochs"], history["epochs"][1:]):
        if tuple(other["epoch"]) < tuple(one["epoch"]):
            found.append(f"the epoch went from {one['epoch']} back to {other['epoch']} at etcd's revision {other['revision']}")
        if tuple(other["epoch"]) == tuple(one["epoch"]) and other["writer"] != one["writer"]:
            found.append(f"epoch {one['epoch']} has two writers, from etcd's revision {other['revision']} on")
    by_controller = {}
    for controller, epoch in history["leaderships"]:
        if tuple(epoch) <= by_controller.get(controller, (0, 0)):
            found.append(f"{controller} led in epoch {by_controller[controller]} and then in {epoch}")
        by_controller[controller] = tuple(epoch)
    epochs = [tuple(epoch) for _, epoch in history["leaderships"]]
    found += [f"two leaderships had the epoch {epoch}" for epoch in sorted(set(epochs)) if epochs.count(epoch) > 1]
    if not history["epochs"] or not history["leaderships"]:
        found.append("no epoch was seen")
    return found


def judge_intents(history):
    """The operator's acknowledged words, in order, are what is told afterwards, and at the end."""
    held, cordoned, found = False, set(), []
    for intent in history["intents"]:
        if not intent["acked"]:
            found.append(f"{intent['what']} {intent['target']} was never acknowledged")
            continue
        if not intent["refused"]:
            if intent["what"] in ("hold", "undo"):
                held = True
            elif intent["what"] == "resume":
                held = False
            elif intent["what"] == "cordon":
                cordoned.add(intent["target"])
            elif intent["what"] == "uncordon":
                cordoned.discard(intent["target"])
        want = {"held": held, "cordoned": sorted(cordoned)}
        if intent["read"] != want:
            found.append(f"after '{intent['what']} {intent['target']}' was acknowledged {intent['read']} was told, not {want}")
    if history["told"] != {"held": held, "cordoned": sorted(cordoned)}:
        found.append(f"at the end {history['told']} is told, and the operator's last words were held {held}, cordoned {sorted(cordoned)}")
    undone = sum(i["what"] == "undo" and not i["refused"] and i["began"] >= history["began"] for i in history["intents"])
    if undone != history["undo_rolls"]:
        found.append(f"{undone} undos were acknowledged, and there are {history['undo_rolls']} rolls of them")
    return found


def windows(intents, begins, ends, target=None):
    """[(from, to)]: from the acknowledgement of one of 'begins' until one of 'ends' was asked for."""
    found, since = [], None
    for intent in intents:
        if target is not None and intent["target"] != target or intent["refused"]:
            continue
        if intent["what"] in begins and since is None:
            since = intent["acked"]
        elif intent["what"] in ends and since is not None:
            found.append((since, intent["began"]))
            since = None
    return found + ([(since, float("inf"))] if since is not None else [])


def judge_stops(history, answers):
    """What was published after a hold (a cordon) was acknowledged is served nowhere (not by that group) before it was lifted."""
    found = []
    began = {p["seq"]: p["began"] for p in history["publishes"]}
    holds = windows(history["intents"], ("hold", "undo"), ("resume",))
    cordons = {group: windows(history["intents"], ("cordon",), ("uncordon",), group) for group in history["groups"]}
    for answer in answers:
        if answer["status"] != 200 or not answer["version_end"]:
            continue
        published = began.get(int(answer["version_end"]), 0)
        for what, spans in (("held", holds), ("cordoned", cordons[answer["group"]])):
            if any(since < published and answer["ended"] < until for since, until in spans):
                found.append(f"group {answer['group']} served version {answer['version_end']}, which was published while it was {what}")
    return sorted(set(found))


def surely_closed(history):
    """[(group, from, to)]: an engine of the group was seen with a gate that is not open at both ends, and nothing else in between."""
    group_of = {engine: group for group, engines in history["groups"].items() for engine in engines}
    since, found = {}, []
    for when, engine, gate, before in history["gates"]:
        if gate != "open":
            since.setdefault(engine, when)
        elif engine in since:
            found.append((group_of[engine], since.pop(engine), before))
    return found + [(group_of[engine], when, float("inf")) for engine, when in since.items()]


def judge_budget(history):
    """From pages: of the groups that lost no rank, never more than maxUnavailable have a gate that is not open."""
    spans, found = [span for span in surely_closed(history) if span[2] >= history["began"]], []
    for _, when, _ in spans:
        out = {o["group"] for o in history["outages"] if o["since"] - GRACE <= when <= o["until"] + GRACE}
        closed = {group for group, since, until in spans if since <= when <= until} - out
        if len(closed) > history["max_unavailable"]:
            found.append(f"at {when:.3f} the gates of {len(closed)} groups were closed, of {history['max_unavailable']}: {sorted(closed)}")
    return found[:3]


def judge_deaths(history):
    """Members of etcd may end by themselves; of ours only an agent that cannot start, and then with exit code 1. A controller waits for its store."""
    ours = [d for d in history["deaths"] if not d["ours"] and not d["name"].startswith("e")]
    return [f"{d['name']} ended by itself: {d['code']}" for d in ours if d["name"].startswith("c") or d["served"] or d["code"] != 1]


def judge(history, answers):
    parts = (judge_publishes, judge_epochs, judge_intents, judge_budget, judge_deaths)
    return [violation for part in parts for violation in part(history)] + judge_stops(history, answers)
