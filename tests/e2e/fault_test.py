#!/usr/bin/env python3
"""Engines that hang, lie, lose tensors, die or answer out of step, in each phase of a swap, with one rank and with two.

Each scenario plants faults in the groups "one" (one rank) and "two" (two ranks), publishes, and asks: did the group "well" go on, was the gate
shut no longer than the deadlines allow, was each answer purely one version's, is every label true, and does all converge in the end?
"""

import unittest

from fleet import PATIENCE, Fleet, GateWatch, check_answers, part_of, read_answers, wait_until

GROUPS = {"a": {"one": [1]}, "b": {"two": [2]}, "c": {"well": [1]}}
FAULTY = ("one", "two")
# Beyond the two deadlines: the grace before an operation is abandoned, gates that close and open again, a loaded machine.
SLACK_S = 3 * PATIENCE
WELL_S = 2 * PATIENCE  # Of a swap that nothing goes wrong in.

BEFORE_COMMIT = ("pause", "start", "stage", "apply", "readback", "reset")
AFTER_COMMIT = ("label", "resume", "probe")
LOCAL = ("reset", "label", "resume", "probe")  # Only rank 0 takes part.

OLD = {"PAUSE_TIMEOUT", "APPLY_FAILED"}  # Ended on the old version, which serves.
NEW = {"COMMITTED"}
OUT = {"OUT"}  # The engine is brought back by its agent.


def times(call_s, restore_s):
    """Times of an agent whose calls to engines may take 'call_s'."""
    return {
        "healthInterval": "100ms",
        "engineLost": f"{call_s:.0f}s",
        "recreateAfter": "500ms",
        "retryFirst": "100ms",
        "retryMax": "1s",
        "restoreBound": f"{restore_s:.0f}s",
        "opShort": f"{call_s:.0f}s",
        "opLong": f"{call_s:.0f}s",
        "opGrace": "200ms",
        "steady": "300ms",  # So that recreations of one scenario do not count in the next.
    }


class FaultyFleet(Fleet):
    """The agent of the group that is well has time: what a busy machine does to its engine is nobody's fault."""

    def agent_config(self, name):
        config = super().agent_config(name)
        return {**config, "times": times(20 * PATIENCE, 60 * PATIENCE)} if name == "c" else config


class Faults(unittest.TestCase):
    # Of a swap, of going back, of a call to an engine.  Short: every hang waits for them.
    SWAP_S, RESTORE_S, CALL_S = 2 * PATIENCE, 4 * PATIENCE, PATIENCE

    @classmethod
    def setUpClass(cls):
        cls.fleet = FaultyFleet(GROUPS, faults=True, times=times(cls.CALL_S, cls.RESTORE_S))
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.default_update = lambda: {"maxUnavailable": "3", "swapDeadline": f"{cls.SWAP_S:.0f}s"}
        cls.fleet.start()
        cls.fleet.publish("v1")
        cls.fleet.wait_serving(1)
        cls.names = {1: "v1"}
        cls.gates = GateWatch(cls.fleet)
        cls.gates.start()
        cls.addClassCleanup(cls.gates.stop)

    def publish_next(self):
        """Another version than the one that is served."""
        served = self.names[max(self.names)]
        version = "v2" if served == "v1" else "v1"
        seq = self.fleet.publish(version)["seq"]
        self.names[seq] = version
        return seq

    def first_outcomes(self, group, seq):
        """How the group's swaps to this version ended so far."""
        return [outcome for _, to, outcome in self.fleet.outcomes(group) if to == seq]

    def pids(self):
        return self.fleet.engine_pids()

    def check_served(self, seq):
        """Labels, gates and levels of all engines after all is well again; and what they answer."""
        for group in self.fleet.group_items().values():
            self.assertEqual("VERIFY_LEVEL_RESIDENT", group["verifyLevel"], group["meta"]["name"])
        self.fleet.wait_labels(seq)
        for engine in self.fleet.get("engines"):
            name = f"{engine['group']}.{engine['name']}"
            self.assertEqual(str(seq), self.fleet.engine_call(name, "GET", "/weight_info")[1]["weight_version"], name)

    def scenario(self, faults, allowed, clear_after=None):
        """faults: {group: fault}; allowed: outcomes of the first swap of those groups. Returns {group: (outcomes, was recreated, faults at the end)}."""
        traffic = self.fleet.start_traffic()
        before = self.pids()
        self.gates.restart()
        for group, planted in faults.items():
            for fault in planted if isinstance(planted, list) else [planted]:
                self.fleet.set_fault(f"{group}.e0", **fault)
        seq = self.publish_next()
        self.fleet.wait_serving(seq, groups=[g for g in ("one", "two", "well") if g not in faults])  # The others go on.
        for group in faults:
            wait_until(lambda g=group: f"{g}: a swap to {seq} ended\n{self.fleet.tails()}", lambda g=group: self.first_outcomes(g, seq))
        found = {g: self.fleet.clear_faults(f"{g}.e0") for g in faults}
        self.fleet.wait_serving(seq, 60)
        shut = self.gates.restart()
        traffic.stop(70)
        check_answers(read_answers(traffic), self.names)
        self.check_served(seq)
        after = self.pids()
        results = {}
        for group in faults:
            outcomes = self.first_outcomes(group, seq)
            self.assertIn(outcomes[0], allowed, f"{group}: {outcomes}")
            if "OUT" not in outcomes:
                self.assertLess(shut[f"{group}.e0"], self.SWAP_S + self.RESTORE_S + SLACK_S, group)
            recreated = before[f"{group}.e0"] != after[f"{group}.e0"]
            self.assertTrue(recreated or any(f["fired"] for f in found[group]), f"the fault of {group} never fired: {found[group]}")
            results[group] = (outcomes, recreated)
        self.assertLess(shut["well.e0"], WELL_S + SLACK_S)
        return results

    def hang(self, phase, **more):
        """In rank 0 of the one, in rank 1 of the other where it takes part."""
        return {g: {"kind": "hang", "phase": phase, "rank": 1 if g == "two" and phase not in LOCAL else 0, **more} for g in FAULTY}


class Hangs(Faults):
    """An engine that hangs until somebody ends it."""

    def test_before_commit(self):
        for phase in BEFORE_COMMIT:
            with self.subTest(phase):
                self.scenario(self.hang(phase), OLD | OUT | (NEW if phase == "readback" else set()))

    def test_after_commit(self):
        for phase in AFTER_COMMIT:
            with self.subTest(phase):
                self.scenario(self.hang(phase), OUT | NEW)

    def test_longer_than_the_deadline_but_not_for_ever(self):
        """The call wakes up late, while the old version is put back: the fence makes it void."""
        for phase in part_of(("start", "stage", "apply", "reset"), 2):
            with self.subTest(phase):
                self.scenario(self.hang(phase, ms=int(1000 * (self.SWAP_S + self.RESTORE_S / 4))), OLD | OUT)


class Lies(Faults):
    """Engines that fail, or say yes and did not: caught by what is read back.  None waits for a deadline: a busy machine has time."""

    SWAP_S, RESTORE_S, CALL_S = 20 * PATIENCE, 30 * PATIENCE, 10 * PATIENCE

    def each(self, cases, allowed, count):
        """cases: faults, or lists of them, each planted in both groups where it can be."""
        for case in part_of(cases, count):
            with self.subTest(str(case)):
                first = case[0] if isinstance(case, list) else case
                groups = FAULTY if first.get("rank", 0) == 0 and first["kind"] != "late" else ("two",)
                self.scenario({g: case for g in groups}, allowed)

    def test_silent_loss_is_caught_before_commit(self):
        """Half of the tensors are not loaded, and the engine says that it verified them."""
        self.each([{"kind": "lose"}, {"kind": "lose", "rank": 1}], OLD | OUT, 2)

    def test_yes_without_doing_it(self):
        cases = [{"kind": "lie", "phase": p, "rank": r} for p in ("start", "stage", "apply") for r in (0, 1)]
        self.each([*cases, {"kind": "lie", "phase": "pause"}], OLD | OUT | NEW, 3)

    def test_yes_again_and_again(self):
        """A retry does not help either: the group is out, never under a false label."""
        self.each([{"kind": "lie", "phase": p, "sticky": True} for p in ("label", "resume")], OUT, 2)

    def test_failure_at_a_tensor(self):
        cases = [{"kind": "fail", "phase": p, "rank": r, "tensor": k} for p in ("stage", "apply") for r in (0, 1) for k in (0, 11, 30)]
        self.each(cases, OLD, 4)

    def test_death(self):
        cases = [{"kind": "die", "phase": p, "rank": r} for p in (*BEFORE_COMMIT, *AFTER_COMMIT) for r in (0, 1) if r == 0 or p not in LOCAL]
        self.each([c for c in cases if c["phase"] != "readback"], OUT, 4)

    def test_poison(self):
        """A failed update that the engine does not take back, and that it may even serve."""
        cases = [[{"kind": "poison", "rank": r, "serves": s}, {"kind": "fail", "phase": "apply", "rank": r, "tensor": 9}] for r in (0, 1) for s in (False, True)]
        self.each(cases, OUT, 2)

    def test_answers_out_of_step(self):
        """The channel between ranks loses step: the engine is not trusted any more, and recreated."""
        cases = [{"kind": "raise", "phase": p, "rank": 1} for p in ("pause", "start", "stage", "apply")]
        cases += [{"kind": "late", "phase": p} for p in ("start", "stage", "apply")]
        self.each(cases, OLD | OUT | NEW, 3)

    def test_slow_but_well(self):
        cases = [{"kind": "slow", "phase": p, "ms": 300} for p in ("pause", "start", "stage", "apply", "reset", "label", "resume", "probe")]
        self.each(cases, NEW, 2)


if __name__ == "__main__":
    unittest.main()
