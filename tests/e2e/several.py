"""Several controllers over one real etcd, for tests and figures: who leads, as their logs say; batonctl and agents know all of them."""

import datetime
import re
import ssl
import urllib.request

from fleet import Fleet, Process, free_ports, wait_until

LEADS, LEADS_NO_LONGER = "leadership: this controller leads", "leadership: this controller leads no longer"


def post(port, path, body, tls=None):
    """'tls': the folder with the certificates of make_cluster()."""
    context = ssl.create_default_context(cafile=tls / "ca.crt") if tls else None
    if tls:
        context.load_cert_chain(tls / "client.crt", tls / "client.key")
    url = f"http{'s' if tls else ''}://127.0.0.1:{port}/v3/{path}"
    request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30, context=context) as answer:
        return answer.read().decode()


def serves(port, tls=None):
    try:
        return "cluster_id" in post(port, "maintenance/status", "{}", tls)
    except OSError:
        return False


def member_argv(data, i, urls, peers, tls):
    argv = ["etcd", "--name", f"m{i}", "--data-dir", f"{data}/etcd{i}", "--listen-client-urls", urls[i], "--advertise-client-urls", urls[i]]
    argv += ["--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i]]
    argv += ["--initial-cluster", ",".join(f"m{j}={peer}" for j, peer in enumerate(peers))]
    if tls:
        argv += ["--client-cert-auth", "--trusted-ca-file", f"{tls}/ca.crt", "--cert-file", f"{tls}/member.crt", "--key-file", f"{tls}/member.key"]
        argv += ["--peer-client-cert-auth", "--peer-trusted-ca-file", f"{tls}/ca.crt"]
        argv += ["--peer-cert-file", f"{tls}/member.crt", "--peer-key-file", f"{tls}/member.key"]
    return argv


def make_cluster(directory, data, count, tls=None):
    """Processes, not started, with logs in 'directory', and the ports of their clients; 'tls': a folder with the pairs ca, member and client.
    'data': a folder in memory: what these tests are about is not how long a machine's disk takes to sync beside a build."""
    ports = free_ports(2 * count)
    scheme = "https" if tls else "http"
    urls = [f"{scheme}://127.0.0.1:{port}" for port in ports]
    members = [member_argv(data, i, urls[:count], urls[count:], tls) for i in range(count)]
    return [Process(f"etcd{i}", argv, directory / f"etcd{i}.log") for i, argv in enumerate(members)], ports[:count]


def make_etcd(directory, data):
    """The same of one member."""
    members, ports = make_cluster(directory, data, 1)
    return members[0], ports[0]


class Several(Fleet):
    """A fleet whose agents and batonctl are given the addresses of 'count' controllers, on an etcd of so many members."""

    def __init__(self, groups, count=3, members=1, certify=None, leadership="", **options):
        """'certify': makes the certificates of etcd in a folder; without it etcd has none. 'leadership': what the controllers' files say of it."""
        self.leadership = leadership
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
        self.controllers = []
        super().__init__(groups, **options)
        self.server = ",".join(self.addresses)
        self.agents = {name: self.make_agent(name) for name in groups}
        self.tls = self.dir if certify else None
        if certify:
            certify(self.dir)
        self.members, self.etcd_ports = make_cluster(self.dir, self.shm, members, self.tls)
        self.etcd, self.etcd_port = self.members[0], self.etcd_ports[0]
        self.controllers = [Process(f"controller{i}", self.argv_of(i), self.dir / f"controller{i}.log") for i in range(count)]

    def argv_of(self, i):
        address = self.addresses[i]
        store = self.store_address()
        config = self.dir / f"controller{i}.yaml"
        leadership = f"leadership: {{{self.leadership}}}\n" if self.leadership else ""  # Also without --advertise it makes one of several.
        config.write_text(f"audit: {{file: {self.dir}/controller{i}.audit.jsonl}}\n{leadership}")
        argv = [*self.controller_argv(), "--config", str(config), "--advertise", address]
        argv[argv.index("--listen") + 1] = address
        argv[argv.index("--store") + 1] = store
        return argv

    def store_address(self):
        urls = ",".join(f"http{'s' if self.tls else ''}://127.0.0.1:{port}" for port in self.etcd_ports)
        files = f"?ca={self.tls}/ca.crt&cert={self.tls}/client.crt&key={self.tls}/client.key" if self.tls else ""
        return f"etcd:{urls}/baton{files}"

    def ask_etcd(self, path, body, member=0):
        return post(self.etcd_ports[member], path, body, self.tls)

    def start_etcd(self):
        for member in self.members:
            member.start()
        for i, port in enumerate(self.etcd_ports):
            wait_until(lambda i=i: f"etcd serves\n{self.members[i].tail()}", lambda port=port: serves(port, self.tls))

    def start_all(self, started=()):
        """etcd, the controllers (but those that were started), the model, the agents."""
        self.start_etcd()
        for controller in self.controllers:
            if controller not in started:
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
        """'but': it was killed, stopped or cut off for good; one that is started again may lead again."""
        leading = lambda: [c.name for c in self.controllers if self.leads(c)]
        return wait_until(lambda: f"one controller leads{f', not {but.name}' if but else ''}: {leading()} do\n{self.tails()}", lambda: self.leader(but))

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
        for process in [*self.controllers, *self.members]:
            process.kill()
        super().close()
