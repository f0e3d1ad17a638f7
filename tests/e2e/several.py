"""Several controllers over one real etcd, for tests and figures: who leads, as their logs say; batonctl and agents know all of them."""

import datetime
import re
import urllib.request

from fleet import Fleet, Process, free_ports, wait_until

LEADS, LEADS_NO_LONGER = "leadership: this controller leads", "leadership: this controller leads no longer"


def post(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v3/{path}", body.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


def serves(port):
    try:
        return "cluster_id" in post(port, "maintenance/status", "{}")
    except OSError:
        return False


def make_etcd(directory):
    """A process, not started, and the port of its clients."""
    port, peer = free_ports(2)
    url, peer_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
    argv = ["etcd", "--data-dir", f"{directory}/etcd", "--listen-client-urls", url, "--advertise-client-urls", url]
    argv += ["--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url, "--initial-cluster", f"default={peer_url}"]
    return Process("etcd", argv, directory / "etcd.log"), port


class Several(Fleet):
    """A fleet whose agents and batonctl are given the addresses of 'count' controllers."""

    def __init__(self, groups, count=3, **options):
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
        self.controllers = []
        super().__init__(groups, **options)
        self.server = ",".join(self.addresses)
        self.agents = {name: self.make_agent(name) for name in groups}
        self.etcd, self.etcd_port = make_etcd(self.dir)
        self.controllers = [Process(f"controller{i}", self.argv_of(i), self.dir / f"controller{i}.log") for i in range(count)]

    def argv_of(self, i):
        address = self.addresses[i]
        store = f"etcd:http://127.0.0.1:{self.etcd_port}/baton"
        argv = [*self.controller_argv(), "--advertise", address]
        argv[argv.index("--listen") + 1] = address
        argv[argv.index("--store") + 1] = store
        return argv

    def start_all(self):
        """etcd, the controllers, the model, the agents."""
        self.etcd.start()
        wait_until("etcd serves", lambda: serves(self.etcd_port))
        for controller in self.controllers:
            controller.start()
        for controller in self.controllers:
            wait_until(lambda c=controller: f"it listens\n{c.tail()}", lambda c=controller: any("listening" in line for line in self.lines_of(c)))
        self.wait_leader()
        self.apply_model(**self.default_update())
        for agent in self.agents.values():
            agent.start()
        for name in self.agents:
            self.wait_listening(name)
        return self

    def lines_of(self, controller):
        return controller.log.read_bytes()[controller.log_before :].decode(errors="replace").splitlines()

    def leads(self, controller):
        """By its own word, in its present life."""
        said = [line for line in self.lines_of(controller) if LEADS in line]
        return controller.is_alive() and bool(said) and LEADS_NO_LONGER not in said[-1]

    def leader(self, but=None):
        """The controller that leads and serves; None: none does at present."""
        found = [c for c in self.controllers if c is not but and self.leads(c) and any("core started" in line for line in self.lines_of(c))]
        return found[0] if len(found) == 1 else None

    def wait_leader(self, but=None):
        return wait_until(lambda: f"a controller leads\n{self.tails()}", lambda: self.leader(but))

    def epochs(self):
        """Of all cores that were started, in the order of their start."""
        found = []
        for controller in self.controllers:
            for line in controller.log.read_text(errors="replace").splitlines():
                match = re.search(r"^(\S+) .*core started generation (\d+) epoch (\d+)", line)
                if match:
                    found.append((match[1], int(match[2]), int(match[3])))
        return [(generation, n) for _, generation, n in sorted(found)]

    @staticmethod
    def time_of(line):
        """When a line was logged, in seconds."""
        return datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00")).timestamp()

    def tails(self):
        processes = [*self.controllers, *self.agents.values()]
        return "\n".join(p.tail() for p in processes)

    def close(self):
        for process in [*self.controllers, self.etcd]:
            process.kill()
        super().close()
