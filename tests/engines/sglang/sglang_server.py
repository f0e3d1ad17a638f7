"""Starts a stock SGLang server (no guard, an admin key) and speaks HTTP to it."""

import atexit
import http.client
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "vllm"))  # For landings.py, behind this folder.

START_SECONDS = 600
CALL_SECONDS = 300
# Of a plain CPU: SGLang's own torch kernels.  deploy/docs/sglang.md shows the same.
ON_A_CPU = (
    "--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch",
    "--disable-cuda-graph", "--disable-overlap-schedule", "--mem-fraction-static", "0.5",
    "--max-total-tokens", "4096", "--max-running-requests", "16", "--context-length", "512",
)  # fmt: skip
ENVIRONMENT = {"SGLANG_USE_CPU_ENGINE": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def command(checkpoint, port, *flags):
    return [sys.executable, "-W", "ignore", "-m", "sglang.launch_server", "--model-path", str(checkpoint),
            "--host", "127.0.0.1", "--port", str(port), "--skip-server-warmup", *ON_A_CPU, *flags]  # fmt: skip


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Gone(Exception):
    """The server closed the connection without an answer."""


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.text = response.read().decode()

    @property
    def json(self):
        return json.loads(self.text)


class Server:
    """One server in a process group of its own; ended at exit, too."""

    def __init__(self, root, name, checkpoint):
        self.key, self.port = secrets.token_hex(16), free_port()
        self.log_path = pathlib.Path(root, f"{name}.log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                command(checkpoint, self.port, "--admin-api-key", self.key),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **ENVIRONMENT},
                start_new_session=True)  # fmt: skip
        atexit.register(self.stop)

    def tail(self):
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-40:])

    def wait_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended at start:\n{self.tail()}")
            try:
                if self.call("GET", "/ready").status == 200:
                    return self
            except (OSError, Gone):
                pass
            time.sleep(0.3)
        raise RuntimeError(f"the server is not ready in {START_SECONDS} s:\n{self.tail()}")

    def call(self, method, path, body=None, key=True, seconds=CALL_SECONDS):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        headers = {"content-type": "application/json"}
        if key:
            headers["authorization"] = f"Bearer {self.key}"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            return Answer(connection.getresponse())
        except (http.client.HTTPException, ConnectionResetError, BrokenPipeError) as error:
            raise Gone(f"{method} {path}: {error!r}") from error
        finally:
            connection.close()

    def post(self, path, **body):
        return self.call("POST", path, body)

    def must(self, path, **body):
        """A control call that must be answered 200."""
        answer = self.post(path, **body)
        assert answer.status == 200, (path, answer.status, answer.text)
        return answer

    def flush(self):
        """A batch that just ended is in its way for a moment."""
        deadline = time.monotonic() + CALL_SECONDS
        while self.post("/flush_cache").status != 200:
            assert time.monotonic() < deadline, "the cache is never flushed"
            time.sleep(0.05)

    def generate(self, text, tokens=8, **more):
        """/generate, greedily; everybody may."""
        sampling = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
        body = {"text": text, "sampling_params": sampling, "return_logprob": True, **more}
        answer = self.call("POST", "/generate", body, key=False)
        assert answer.status == 200, (answer.status, answer.text)
        return answer.json

    def info(self):
        return self.call("GET", "/model_info").json

    def sums(self):
        """{engine tensor: checksum} of what is resident."""
        (rank,) = self.must("/weights_checker", action="checksum").json["ranks"]
        return rank["checksums"]

    def dies(self, seconds=CALL_SECONDS):
        """Whether the whole server ends by itself."""
        try:
            self.process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    def stop(self):
        """May be called again."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(30)
