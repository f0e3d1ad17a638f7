"""Runs a page of deploy/docs: its files are written and its commands run as they stand, in one shell, on this machine.

A fence "```yaml PATH" is a file, a fence "```sh" is run. Addresses and folders of the page become ones of this test: SUBSTITUTES.
"""

import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from fleet import BUILD, CLAIMS, DATA, ROOT, Fleet, free_ports, processes_naming, program, wait_until

PROGRAMS = ("baton-controller", "baton-agent", "batonctl", "miniengine")
HEADING, FENCE = re.compile(r"^##+ (.*)$"), re.compile(r"^```(\w*) ?(\S*)$")


def read_page(name):
    """{heading: [(language, path or "", text)]} of a page's blocks; what stands before the first heading is of ""."""
    sections, heading, block = {"": []}, "", None
    for line in (ROOT / "deploy/docs" / name).read_text(encoding="utf-8").splitlines():
        fence = FENCE.match(line)
        if block is not None and line == "```":
            sections[heading].append((block[0], block[1], "\n".join(block[2]) + "\n"))
            block = None
        elif block is not None:
            block[2].append(line)
        elif fence:
            block = (fence[1], fence[2], [])
        elif HEADING.match(line):
            heading = HEADING.match(line)[1]
            assert heading not in sections, f"{name}: two sections are called '{heading}'"
            sections[heading] = []
    assert block is None, f"{name}: a block does not end"
    return sections


def claim_network():
    """The first three numbers of loopback addresses that no other test process uses."""
    while True:
        prefix, claim = f"127.{random.SystemRandom().randint(2, 254)}.{random.SystemRandom().randint(0, 255)}.", socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0baton-test-network-{prefix}")
        except OSError:
            claim.close()
            continue
        CLAIMS[prefix] = claim
        return prefix


class Page:
    """One page, one shell, one scratch folder. close() ends all that was started, by pid."""

    start_traffic = Fleet.start_traffic

    def __init__(self, name, folders, engines):
        """'folders': of the page, which become the test's; 'engines': {name: port on the page}."""
        self.sections, self.extra, self.count, self.ran = read_page(name), [], 0, []
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="baton-e2e."))
        self.shm = pathlib.Path(tempfile.mkdtemp(prefix="baton-e2e.", dir="/dev/shm"))
        self.network = claim_network()
        ports = dict(zip(engines.values(), free_ports(len(engines))))
        self.engines = {engine: f"http://127.0.0.1:{ports[port]}" for engine, port in engines.items()}
        self.substitutes = [(rf"{port}\b", str(mine)) for port, mine in ports.items()]
        self.substitutes += [(r"127\.0\.0\.1:7070\b", f"127.0.0.1:{free_ports(1)[0]}"), (r"192\.0\.2\.", self.network)]
        # Loopback connections come from 127.0.0.1, and etcd's members compare where one comes from with its certificate.
        self.substitutes += [(r"--ip (\S+)", r"--ip \1 --ip 127.0.0.1"), (r"/models/step-", f"{DATA}/v"), (r"/dev/shm/baton\b", str(self.shm))]
        self.substitutes += [(rf"{folder}(?![\w-])", str(self.dir / folder[1:].replace("/", "-"))) for folder in folders]
        for folder in folders:
            self.path(folder).mkdir()
        self.shell, self.log = self.start_shell(), self.dir / "shell.log"
        self.run("")

    def path(self, of_page):
        """Where a path of the page is."""
        return pathlib.Path(self.translate(of_page))

    def translate(self, text):
        for pattern, mine in self.substitutes:
            text = re.sub(pattern, mine, text)
        return text

    def start_shell(self):
        paths = [os.path.dirname(program(name)) for name in PROGRAMS]
        env = {**os.environ, "PATH": ":".join([*paths, os.environ["PATH"]])}
        with open(self.dir / "shell.log", "ab") as out:
            return subprocess.Popen(["bash", "-euo", "pipefail"], stdin=subprocess.PIPE, stdout=out, stderr=out, env=env, cwd=self.dir, text=True)

    def run(self, heading, seconds=180):
        """A section: its files, its commands; fails with what they said. 'seconds': of one block."""
        assert self.sections[heading], f"no section '{heading}' with a block"
        self.ran.append(heading)
        for language, path, text in self.sections[heading]:
            if language == "yaml":
                self.path(path).write_text(self.translate(text))
            elif language == "sh":
                self.sh(text, heading, seconds)

    def sh(self, text, what="", seconds=180):
        """Commands as they stand on a page; what they wrote to stdout and stderr."""
        self.count += 1
        done, before = self.dir / f"done{self.count}", self.log.stat().st_size
        (self.dir / f"block{self.count}").write_text(self.translate(text))
        self.shell.stdin.write(f"source {self.dir}/block{self.count}\ntouch {done}\n")
        self.shell.stdin.flush()
        said = lambda: self.log.read_bytes()[before:].decode(errors="replace")
        tell = lambda: f"'{what}' is done:\n{text}\n{said()[-3000:]}\n{self.tails()}"
        wait_until(tell, lambda: done.exists() or self.shell.poll() is not None, seconds)
        assert done.exists(), f"not {tell()}"
        return said()

    def pid(self, name):
        return int(self.sh(f'echo "${{pid[{name}]}}"\n').split()[-1])

    def kill(self, *names):
        """kill -9, as a power cut does it."""
        for name in names:
            self.sh(f"kill -9 ${{pid[{name}]}}; wait ${{pid[{name}]}} || true\n")

    def daemon_log(self, name):
        path = self.path("/var/log/baton") / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def tails(self):
        return "\n".join(f"--- {p.name}\n" + "\n".join(p.read_text(errors="replace").splitlines()[-12:]) for p in self.path("/var/log/baton").glob("*.log"))

    def close(self):
        for process in self.extra:
            process.kill()
        self.shell.kill()
        self.shell.stdin.close()
        self.shell.wait()
        deadline = time.monotonic() + 20
        while (pids := processes_naming(self.dir)) and time.monotonic() < deadline:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.02)
        shutil.rmtree(self.dir, ignore_errors=True)
        shutil.rmtree(self.shm, ignore_errors=True)
