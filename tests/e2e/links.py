"""Nodes in network namespaces of their own, each behind a link of a rate, and a fleet on them in which one node alone sees what is published.

All namespaces are made here and removed again. Root, iproute2 (ip, tc) and the kernel's tbf are needed: Links.can_be_had().
"""

import json
import os
import pathlib
import shutil
import subprocess

from fleet import DATA, Fleet, Process, private_mounts, wait_until

SEND = """
import socket, sys
with socket.create_server((sys.argv[1], 7099)) as server:
    print("ready", flush=True)
    with server.accept()[0] as peer, open(sys.argv[2], "rb") as file:
        peer.sendfile(file)
"""
TAKE = """
import socket, sys, time
began, taken, buffer = time.monotonic(), 0, bytearray(1 << 20)
with socket.create_connection((sys.argv[1], 7099)) as peer:
    while (got := peer.recv_into(buffer)):
        taken += got
print(taken, time.monotonic() - began)
"""


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout


class Links:
    """For each node a link that sends and takes 'mbit' each way, to its zone's bridge; between two zones one link of 'trunk_mbit'."""

    def __init__(self, names, mbit, zones=None, trunk_mbit=None):
        self.mbit, self.zones, self.trunk_mbit = mbit, zones, trunk_mbit
        self.hub = f"baton-{os.getpid()}-hub"
        self.spaces = {name: f"baton-{os.getpid()}-{i}" for i, name in enumerate(names)}
        self.addresses = {name: f"10.231.78.{i + 1}" for i, name in enumerate(names)}

    @staticmethod
    def can_be_had():
        if not private_mounts() or not shutil.which("ip") or not shutil.which("tc"):
            return False
        limit = "ip link set lo up && tc qdisc add dev lo root tbf rate 1mbit burst 64k latency 50ms"
        return subprocess.run(["unshare", "-n", "sh", "-c", limit], capture_output=True, check=False, timeout=60).returncode == 0

    @staticmethod
    def limit(space, device, mbit):
        limit = ["rate", f"{mbit}mbit", "burst", "256k", "latency", "100ms"]
        run("tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf", *limit)

    def join(self, index, name):
        space, port = self.spaces[name], f"p{index}"
        run("ip", "netns", "add", space)
        run("ip", "-n", space, "link", "set", "lo", "up")
        run("ip", "-n", space, "link", "add", "v", "type", "veth", "peer", "name", port, "netns", self.hub)
        run("ip", "-n", space, "address", "add", f"{self.addresses[name]}/24", "dev", "v")
        run("ip", "-n", space, "link", "set", "v", "up")
        run("ip", "-n", self.hub, "link", "set", port, "master", self.bridge(name), "up")
        self.limit(space, "v", self.mbit)
        self.limit(self.hub, port, self.mbit)

    def bridge(self, name):
        return f"bridge{sorted(set(self.zones.values())).index(self.zones[name]) if self.zones else 0}"

    def join_zones(self):
        run("ip", "-n", self.hub, "link", "add", "name", "trunk0", "type", "veth", "peer", "name", "trunk1")
        for end in ("0", "1"):
            run("ip", "-n", self.hub, "link", "set", f"trunk{end}", "master", f"bridge{end}", "up")
            self.limit(self.hub, f"trunk{end}", self.trunk_mbit)

    def make(self):
        run("ip", "netns", "add", self.hub)
        for bridge in sorted({self.bridge(name) for name in self.spaces}):
            run("ip", "-n", self.hub, "link", "add", "name", bridge, "type", "bridge")
            run("ip", "-n", self.hub, "link", "set", "dev", bridge, "up")
        for index, name in enumerate(self.spaces):
            self.join(index, name)
        if self.zones:
            self.join_zones()

    def remove(self):
        for space in [*self.spaces.values(), self.hub]:
            subprocess.run(["ip", "netns", "delete", space], check=False, capture_output=True, timeout=60)

    def inside(self, name, argv):
        return ["ip", "netns", "exec", self.spaces[name], *argv]

    @staticmethod
    def sent_by(space, device):
        return json.loads(run("ip", "-n", space, "-s", "-j", "link", "show", device))[0]["stats64"]["tx"]["bytes"]

    def sent(self):
        """Bytes that each node has put on its link."""
        return {name: self.sent_by(space, "v") for name, space in self.spaces.items()}

    def crossed(self):
        """Bytes that went from zone to zone, either way."""
        return sum(self.sent_by(self.hub, f"trunk{end}") for end in ("0", "1"))

    def time_copy(self, path):
        """Seconds of one copy of a file from the first node to the second, by sendfile over one connection."""
        first, second = list(self.spaces)[:2]
        argv = ["/usr/bin/python3", "-c", SEND, self.addresses[first], str(path)]
        with subprocess.Popen(self.inside(first, argv), stdout=subprocess.PIPE, text=True) as sender:
            sender.stdout.readline()
            taken, seconds = run(*self.inside(second, ["/usr/bin/python3", "-c", TAKE, self.addresses[first]])).split()
        assert int(taken) == pathlib.Path(path).stat().st_size, f"{taken} bytes of {path} arrived"
        return float(seconds)


class LinkedFleet(Fleet):
    """A group on each node, served by its own agent; the first node is the source."""

    def __init__(self, links):
        self.links = links
        super().__init__({name: {f"g-{name}": [1]} for name in links.spaces})

    def controller_argv(self):
        self.server = f"unix:{self.dir}/controller.sock"
        return [self.program("baton-controller"), "--listen", self.server, "--store", f"sqlite:{self.dir}/controller.db"]

    def agent_config(self, name):
        peers = {"listen": f"{self.links.addresses[name]}:7072"} | ({"zone": self.links.zones[name]} if self.links.zones else {})
        config = {**super().agent_config(name), "peers": peers, "insecure": True}
        config["landing"]["budget"] = "8GiB"
        if name != self.source():
            config["versions"] = {"directory": str(self.dir / "no-versions-of-others")}
        return config

    def source(self):
        return next(iter(self.groups))

    def make_agent(self, name):
        agent = super().make_agent(name)
        argv = self.links.inside(name, agent.argv)
        if name != self.source():
            hide = 'mount --make-rprivate / && mount -t tmpfs none "$0" && exec "$@"'
            argv = ["unshare", "-m", "sh", "-c", hide, str(self.dir / "versions"), *argv]
        return Process(name, argv, agent.log)

    def large(self, mib):
        """A checkpoint with so much random padding."""
        folder = self.dir / "large"
        shutil.copytree(DATA / "v2", folder)
        with open(folder / "padding.txt", "wb") as file:
            for _ in range(mib):
                file.write(os.urandom(1 << 20))
        return folder

    def wait_filled(self, digest, seconds):
        missing = lambda: [name for name in self.groups if not (self.shm / name / digest).exists()]
        wait_until(lambda: f"all nodes have it, but {missing()}\n{self.tails()}", lambda: not missing(), seconds, every=0.02)
