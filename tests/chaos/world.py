"""A network of this test's own: nodes are network namespaces at one bridge, and what may happen between them.

enter() moves the program into namespaces of its own (processes, mounts, network): whatever ends it, nothing of it stays. Needs root, iproute2, nftables.
"""

import ctypes
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import threading

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
INSIDE = "BATON_CHAOS_WORLD"
SCRATCH = "/dev/shm"  # Within the namespaces another one than outside: its files end with them.
TOOLS = ("setpriv", "unshare", "ip", "tc", "nft", "mount")


def must(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def why_not():
    """Why this machine does not let us; None: it does."""
    missing = [tool for tool in (*TOOLS, "etcd") if not shutil.which(tool)]
    if missing:
        return f"no {', '.join(missing)} (deploy/install.sh test)"
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    probe = "ip link add chaos0 type bridge && nft 'add table bridge p; add chain bridge p f { type filter hook forward priority 0; }'"
    done = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "sh", "-c", probe], capture_output=True, text=True, check=False)
    return f"no network namespaces here: {done.stderr.strip()[:120]}" if done.returncode else None


def reap(child):
    """What the first process of a PID namespace has to do: end everybody's orphans, pass signals on, and end as its child does."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda n, _: os.kill(child, n))
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)  # The kernel kills all that is left in the namespace.


def relay(unshare):
    """The outermost process: passes signals into the namespace, whose first process is unshare's child."""

    def send(number, _):
        children = pathlib.Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text().split()
        for pid in children:
            os.kill(int(pid), number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, send)
    return unshare.wait()


def enter():
    """Returns in a process within new namespaces; the one that called ends with that one's exit code."""
    if not os.environ.get(INSIDE):
        words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, *sys.argv]
        sys.exit(relay(subprocess.Popen(words, env={**os.environ, INSIDE: "1"}, start_new_session=True)))
    child = os.fork()
    if child:
        reap(child)
    del os.environ[INSIDE]
    must("mount", "-t", "tmpfs", "tmpfs", SCRATCH)


class Node:
    """A network namespace with one address at the hub. call() runs something in it; a thread that did enter() is in it."""

    def __init__(self, hub, name, address):
        self.name, self.address = name, address
        self.link = f"v-{name}"
        self.jobs = queue.SimpleQueue()
        self.fd = -1
        ready = threading.Event()
        self.thread = threading.Thread(target=self.work, args=(ready,), daemon=True)
        self.thread.start()
        ready.wait(10)
        if self.fd < 0:
            raise AssertionError(f"no network namespace for {name}")
        must("ip", "link", "add", self.link, "type", "veth", "peer", "name", "e0", "netns", f"/proc/{os.getpid()}/fd/{self.fd}")
        must("ip", "link", "set", self.link, "master", hub, "up")
        for words in (("addr", "add", f"{address}/24", "dev", "e0"), ("link", "set", "e0", "up"), ("link", "set", "lo", "up")):
            self.call(must, "ip", *words)

    def work(self, ready):
        if LIBC.unshare(CLONE_NEWNET) == 0:
            self.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            os.set_inheritable(self.fd, False)
        ready.set()
        while (job := self.jobs.get()) is not None:
            function, words, answer = job
            try:
                answer.put((function(*words), None))
            except BaseException as error:  # pylint: disable=broad-except
                answer.put((None, error))

    def close(self):
        """Its namespace ends with the last process and thread that are in it."""
        self.jobs.put(None)
        self.thread.join()
        must("ip", "link", "del", self.link)
        os.close(self.fd)

    def call(self, function, *words):
        answer = queue.SimpleQueue()
        self.jobs.put((function, words, answer))
        value, error = answer.get()
        if error is not None:
            raise error
        return value

    def enter(self):
        """The calling thread is in this namespace from now on."""
        if LIBC.setns(self.fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns to {self.name}")


class World:
    """The hub and its nodes. Each fault of the network is a table of nftables of its own, or a queue discipline: heal() takes it away."""

    HUB, OWN = "hub", "10.77.0.254"

    def __init__(self):
        must("ip", "link", "set", "lo", "up")
        must("ip", "link", "add", self.HUB, "type", "bridge")
        must("ip", "link", "set", self.HUB, "up")
        must("ip", "addr", "add", f"{self.OWN}/24", "dev", self.HUB)
        self.nodes, self.tables, self.lock = {}, 0, threading.Lock()

    def close(self):
        for node in self.nodes.values():
            node.close()
        must("ip", "link", "del", self.HUB)

    def add(self, name):
        self.nodes[name] = Node(self.HUB, name, f"10.77.0.{len(self.nodes) + 11}")
        return self.nodes[name]

    def drop(self, pairs, percent=100):
        """Packets from the first to the second node of each pair are dropped, so many of a hundred; gives what heals it."""
        with self.lock:
            self.tables += 1
            table = f"f{self.tables}"
        chance = "" if percent >= 100 else f"numgen random mod 100 < {percent} "
        rules = [f"add table bridge {table}", f"add chain bridge {table} f {{ type filter hook forward priority 0; }}"]
        rules += [f"add rule bridge {table} f iifname {self.nodes[a].link} oifname {self.nodes[b].link} {chance}drop" for a, b in pairs]
        must("nft", "; ".join(rules))
        return lambda: must("nft", f"delete table bridge {table}")

    def split(self, some, one_way=False):
        """These nodes and all others do not hear each other; one way: these are not heard."""
        others = [name for name in self.nodes if name not in some]
        pairs = [(a, b) for a in some for b in others]
        return self.drop(pairs if one_way else pairs + [(b, a) for a, b in pairs])

    def lose(self, name, percent):
        others = [other for other in self.nodes if other != name]
        return self.drop([(name, o) for o in others] + [(o, name) for o in others], percent)

    def limit(self, name, rate):
        """What a node receives comes at no more than this rate, and is queued for a while."""
        link = self.nodes[name].link
        must("tc", "qdisc", "replace", "dev", link, "root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms")
        return lambda: must("tc", "qdisc", "del", "dev", link, "root")
