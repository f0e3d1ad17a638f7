"""What befalls the cluster: for each kind of fault how it is chosen from the seed, and how it lands and heals."""

import errno
import os
import resource
import signal
import threading
import time

import cluster as rig
import delay
import world

DAEMONS = (*rig.MEMBERS, *rig.CONTROLLERS, *rig.GROUPS)
NOTICED_S = 6  # By then agents have seen that one of them is away.
LEADERS = ("leader", "leading member")  # Whoever it is when the fault lands.


def choose_kill(rng, _):
    return {"at": rng.choice([*DAEMONS, *LEADERS]), "for": round(rng.choice([0, rng.uniform(0, 1), rng.uniform(1, 6)]), 2)}


def choose_freeze(rng, _):
    """Shorter and longer than the leader's lease of 2 s; agents' lease is 10 s."""
    return {"at": rng.choice([*DAEMONS, *LEADERS]), "for": round(rng.choice([rng.uniform(0.2, 1.5), rng.uniform(2.5, 6), rng.uniform(10.5, 12)]), 2)}


def choose_node(rng, _):
    return {"at": rng.choice([*DAEMONS, *LEADERS]), "for": round(rng.uniform(0.5, 12), 2)}


def choose_minority(rng, _):
    return {"at": "leader", "with": rng.choice(rig.MEMBERS), "for": round(rng.uniform(2.5, 10), 2)}


def choose_loss(rng, _):
    return {**choose_node(rng, _), "percent": rng.choice([5, 15, 30, 60])}


def choose_rate(rng, _):
    return {**choose_node(rng, _), "rate": rng.choice(["64kbit", "256kbit", "1mbit"])}


def choose_delay(rng, _):
    return {**choose_node(rng, _), "ms": rng.choice([2, 20, 80]), "jitter": rng.choice([0, 20, 120])}


def choose_disk(rng, _):
    return {"at": rng.choice([*DAEMONS, *LEADERS]), "for": round(rng.uniform(1, 10), 2)}


def choose_write(rng, _):
    return {**choose_disk(rng, _), "errno": rng.choice(["EIO", "ENOSPC"])}


def choose_agent(rng, _):
    return {"at": rng.choice(sorted(rig.GROUPS)), "for": round(rng.uniform(1, 10), 2)}


def choose_certificate(rng, _):
    return {"at": rng.choice([*rig.CONTROLLERS, *rig.GROUPS, "leader"]), "for": round(rng.uniform(1, 8), 2)}


def choose_member(rng, _):
    return {"at": rng.choice([*rig.MEMBERS, "leading member"]), "for": 0}


def choose_clock(rng, _):
    return {"at": rng.choice([*DAEMONS, *LEADERS]), "for": round(rng.uniform(2, 12), 2), "seconds": rng.choice([-120, -3, 3, 600, 7200])}


def choose_rank(rng, cluster):
    engine = rng.choice(sorted(cluster.home))
    return {"at": engine, "rank": rng.randrange(2), "for": 0}


class Nemesis:
    """Lands faults on one cluster. land() returns when the fault was healed."""

    def __init__(self, cluster, pages):
        self.cluster, self.pages = cluster, pages
        self.outages, self.struck = [], set()
        self.healing = threading.Event()  # Set: whatever still lasts, heals now.

    def who(self, name):
        """A name, or who leads at present."""
        if name == "leader":
            return self.cluster.leader() or rig.CONTROLLERS[0]
        if name == "leading member":
            return next((m for m in rig.MEMBERS if self.cluster.member_leads(m)), rig.MEMBERS[0])
        return name

    def note_cut(self, fault, name):
        """A group whose engines stand on several nodes is taken out, documentedly, while one of its agents does not hear another."""
        cut = []
        for group, engines in self.cluster.parts.items():
            homes = {self.cluster.home[engine] for engine in engines}
            if fault["what"] in CUTS and name in homes and len(homes) > 1:
                cut.append({"group": group, "since": time.monotonic(), "until": None, "boots": None, "healed": None})
        self.outages.extend(cut)
        return cut

    def land(self, fault, story):
        name = self.who(fault["at"])
        cut = self.note_cut(fault, name)
        try:
            self.strike(fault, name, story)
        finally:
            for outage in cut:
                outage["healed"] = time.monotonic() + fault["for"] * (fault["what"] == "kill")

    def strike(self, fault, name, story):
        self.struck.add(self.cluster.home.get(name, name))
        story.tell(f"{fault['what']} {name}{'' if name == fault['at'] else ' (' + fault['at'] + ')'}: {fault}")
        heal = getattr(self, f"land_{fault['what']}")(fault, name)
        if not callable(heal):
            if heal is False:
                story.tell(f"{fault['what']} {name} was not possible")
            return
        try:
            self.healing.wait(fault["for"])
        finally:
            heal()
        story.tell(f"{fault['what']} {name} is over")

    def look_for_end(self, outage):
        """Sets when an outage was over, if it is by now."""
        engines = list(self.cluster.parts[outage["group"]])
        if outage["boots"] is not None:
            outage["until"] = outage["until"] or self.pages.back(engines, outage["boots"], outage["since"])
        elif outage["healed"] and time.monotonic() > outage["healed"] + NOTICED_S and all(self.pages.now[e][0] == "open" for e in engines):
            outage["until"] = outage["until"] or time.monotonic()

    def land_kill(self, fault, name):
        self.cluster.daemons[name].strike(fault["for"])

    def land_freeze(self, _, name):
        popen = self.cluster.daemons[name].popen
        popen.send_signal(signal.SIGSTOP)
        return lambda: popen.send_signal(signal.SIGCONT)

    def land_split(self, _, name):
        return self.cluster.world.split([name])

    def land_mute(self, _, name):
        """It is not heard, and hears."""
        return self.cluster.world.split([name], one_way=True)

    def land_deaf(self, _, name):
        """It does not hear, and is heard."""
        return self.cluster.world.split([other for other in self.cluster.world.nodes if other != name], one_way=True)

    def land_minority(self, fault, name):
        return self.cluster.world.split([name, fault["with"]])

    def land_loss(self, fault, name):
        return self.cluster.world.lose(name, fault["percent"])

    def land_rate(self, fault, name):
        return self.cluster.world.limit(name, fault["rate"])

    def land_delay(self, fault, name):
        late = delay.Delay(self.cluster.world.nodes[name], fault["ms"], fault["jitter"]).start(world.must)
        return lambda: late.stop(world.must)

    def land_disk(self, _, name):
        """Its disk (an agent's state, a controller's log and audit, a member's data) has no byte left. A member has room in what it
        holds already: it is started again, and needs more."""
        ballast = self.cluster.dir / name / "ballast"
        with open(ballast, "wb", buffering=0) as file:
            try:
                while file.write(bytes(1 << 16)):
                    pass
            except OSError:
                pass
        if name in rig.MEMBERS:
            self.cluster.daemons[name].strike(0)
        return ballast.unlink

    def land_write(self, fault, name):
        """What it writes to its disk fails. An agent may end then, as of fsync; a member of etcd does (its limit is reached, there and then)."""
        daemon = self.cluster.daemons[name]
        if name in rig.MEMBERS:
            resource.prlimit(daemon.popen.pid, resource.RLIMIT_FSIZE, (0, 0))
            return None
        if name in rig.GROUPS:
            daemon.killed.add(daemon.popen.pid)
        self.cluster.set_write_error(name, getattr(errno, fault["errno"]))
        return lambda: self.cluster.set_write_error(name, 0)

    def land_replace(self, _, name):
        """The member's disk is lost; another one takes its place. Where the others have no majority at the time, nothing happens."""
        return self.cluster.replace_member(name)

    def land_sync(self, _, name):
        """fsync and fdatasync of the agent fail: it cannot know what is on its disk, and may end."""
        daemon = self.cluster.daemons[name]
        pid, calls = daemon.popen.pid, ("posix/io/sync/fsync", "posix/io/sync/fdatasync")
        daemon.killed.add(pid)
        for call in calls:
            self.cluster.tell_faults(pid, f"enable name={call},failinfo={errno.EIO}")

        def heal():
            for call in calls:
                if daemon.popen.pid == pid and daemon.is_alive():
                    self.cluster.tell_faults(pid, f"disable name={call}")

        return heal

    def land_clock(self, fault, name):
        """A member of etcd reads clocks without libc, and tells leases by the monotonic one: it starts again where that shows something else."""
        if name in rig.MEMBERS:
            self.cluster.daemons[name].shift_clock(fault["seconds"])
            self.cluster.daemons[name].strike(0)
            return None
        path = self.cluster.dir / f"{name}.clock"
        path.write_text(f"{fault['seconds']:+d}\n")
        return lambda: path.write_text("+0\n")

    def land_certificate(self, _, name):
        """Its certificate has run out; it has to shake hands again, since open connections stay."""
        cluster, kept = self.cluster, {}
        for ending in ("crt", "key"):
            kept[ending] = (cluster.pki / f"{name}.{ending}").read_bytes()
        role = "controller" if name in rig.CONTROLLERS else "agent"
        cluster.issue(name, role, "--ip", cluster.address(name), "--renew", "--valid", "1s")
        time.sleep(1.1)
        cluster.daemons[name].strike(0)

        def heal():
            cluster.issue(name, role, "--ip", cluster.address(name), "--renew")

        return heal

    def land_rank(self, fault, name):
        ranks = self.cluster.ranks_of(name)
        group = name.split(".", maxsplit=1)[0]
        if not ranks:
            return
        self.outages.append({"group": group, "since": time.monotonic(), "until": None, "boots": {name: self.pages.now[name][2]}})
        try:
            os.kill(ranks[fault["rank"] % len(ranks)], signal.SIGKILL)
        except ProcessLookupError:
            pass


CHOOSE = {
    "kill": choose_kill,
    "freeze": choose_freeze,
    "rank": choose_rank,
    "split": choose_node,
    "mute": choose_node,
    "deaf": choose_node,
    "minority": choose_minority,
    "loss": choose_loss,
    "rate": choose_rate,
    "disk": choose_disk,
    "write": choose_write,
    "certificate": choose_certificate,
    "delay": choose_delay,
    "clock": choose_clock,
    "sync": choose_agent,
    "replace": choose_member,
}


CUTS = ("sync", "write", "kill", "freeze", "split", "mute", "deaf", "loss", "rate", "delay", "certificate")


def missing():
    """Kinds that this machine lacks the tools for; they are chosen all the same, so that a seed is the same everywhere, and left out."""
    there = {"delay": delay.is_there(), "clock": rig.FAKETIME.exists(), "sync": rig.FAULTS[0].exists(), "write": rig.FAULTY.exists()}
    return {kind for kind, is_there in there.items() if not is_there}


def plan(rng, cluster, kind, seconds):
    """The faults of one run; only the random numbers decide."""
    kinds = [kind] * rng.choice([1, 2, 3])
    if kind == "any":
        kinds = [rng.choice(list(CHOOSE)) for _ in range(rng.choice([1, 2, 3, 3, 4]))]
    faults = [{"what": what, "after": round(rng.uniform(0.5, 0.75 * seconds), 2), **CHOOSE[what](rng, cluster)} for what in kinds]
    return [fault for fault in faults if fault["what"] not in missing()]
