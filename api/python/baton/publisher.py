"""Publishing new weights from a trainer, through the Baton agent on this node.

    from baton import Publisher

    publisher = Publisher(model="qwen3-8b-grpo")
    version = publisher.publish(model.state_dict(), optimizer_step=step)
    print(version.seq, version.digest)

The agent keeps the bytes and rolls them through the fleet; this process links no gRPC and starts no thread.
See PUBLISHER.md.
"""

import ctypes
import dataclasses
import json
import os
import pathlib
import time
import typing
import uuid

from . import _entries, _libbaton, _ranks, _tensors

# Other reasons to lose the agent in the middle pass within seconds: its restart, its upgrade.
_RETRY_PAUSE_S = 1.0
_REPORT_S = 0.2
_FILE_BYTES_MAX = 1 << 30
# What engines should answer; publish_directory() takes it from the directory.
REFERENCES_FILE = "baton.references.json"
# As the agent's reader of checkpoint directories: weights, texts for people, and Baton's own do not travel.
_NO_FILE_SUFFIXES = {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx", ".md"}


@dataclasses.dataclass(frozen=True)
class Version:
    """A published version.  ``repeated``: this request id had been published before."""

    model: str
    seq: int
    uid: str
    digest: str
    bytes: int
    tensors: int
    files: int
    bytes_carried: int
    directory: str
    repeated: bool


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a publish is.  ``remaining_s`` is None where it is not known."""

    phase: str
    bytes_done: int
    bytes_total: int
    bytes_per_s: int
    remaining_s: typing.Optional[float]
    elapsed_s: float
    detail: str


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a publish says besides its tensors; the keywords of publish() and publish_directory()."""

    optimizer_step: int = 0
    rollout_iteration: int = 0
    samples_trained: int = 0
    partial: bool = False
    parent: int = 0  # seq to inherit from; 0: the newest
    request_id: typing.Optional[str] = None  # same id, same version
    reason: typing.Optional[str] = None
    timeout: float = 3600.0  # seconds, for the whole publish
    progress: typing.Optional[typing.Callable[[Progress], object]] = None  # may return True to cancel
    attempts: int = 3  # when the agent is lost in the middle
    inline: bool = False  # send bytes through the socket instead of shared memory


def _version(out):
    return Version(
        model=out.model.decode(),
        seq=out.seq,
        uid=out.uid.decode(),
        digest=out.digest.decode(),
        bytes=out.bytes,
        tensors=out.tensors,
        files=out.files,
        bytes_carried=out.bytes_carried,
        directory=os.fsdecode(out.directory),
        repeated=out.repeated != 0,
    )


def _progress(raw):
    unknown = raw.remaining_ms == 2**64 - 1
    return Progress(
        phase=raw.phase_name.decode(),
        bytes_done=raw.bytes_done,
        bytes_total=raw.bytes_total,
        bytes_per_s=raw.bytes_per_s,
        remaining_s=None if unknown else raw.remaining_ms / 1000,
        elapsed_s=raw.elapsed_ms / 1000,
        detail=raw.detail.decode("utf-8", "replace"),
    )


class Pending:
    """A publish that the agent finishes by itself.  From publish(..., wait=False).

    Waiting is done in small steps, so that Ctrl-C and the progress callback have their turn between them.
    """

    def __init__(self, agent, handle, said):
        self._agent = agent
        self._handle = handle
        self._said = said
        self._started = self._told = time.monotonic()
        self._version = None

    @property
    def request_id(self):
        """Publishing again with it gives the same version."""
        return self._said.request_id

    @property
    def deadline(self):
        """Of the whole publish, by time.monotonic()."""
        return self._started + self._said.timeout

    def result(self, timeout=None):
        """Waits for the version.  DeadlineExceeded after ``timeout`` seconds: ask again."""
        deadline = self.deadline if timeout is None else time.monotonic() + timeout
        while self._version is None:
            if self._handle is None:
                raise ValueError("the publish was closed")
            self._wait(deadline)
        return self._version

    def wait(self, timeout=None):
        """The same as result()."""
        return self.result(timeout)

    def progress(self):
        """How far it is, as last heard."""
        raw = _libbaton.new(_libbaton.Progress)
        _libbaton.load().baton_publish_get_progress(self._handle, ctypes.byref(raw))
        return _progress(raw)

    def cancel(self):
        """Asks the agent to give up; result() says whether it came in time."""
        _libbaton.call("baton_publish_cancel", self._handle)

    def close(self):
        """Frees the connection.  A publish that was handed over goes on without us, any other is dropped."""
        handle, self._handle = self._handle, None
        agent, self._agent = self._agent, None
        if handle is not None:
            _libbaton.load().baton_publish_end(handle)
        if agent is not None:
            _libbaton.load().baton_close(agent)

    def report(self):
        """Runs the callback if it is due; one that returns True cancels."""
        now = time.monotonic()
        if self._said.progress is not None and now - self._told >= _REPORT_S:
            self._told = now
            if self._said.progress(self.progress()) is True:
                self.cancel()

    def call(self, function, *arguments):
        """A function of libbaton on this publish."""
        _libbaton.call(function, self._handle, *arguments)

    def _wait(self, deadline):
        left = deadline - time.monotonic()
        step_ms = max(1, int(min(left, _REPORT_S) * 1000))
        out = _libbaton.new(_libbaton.Published)
        try:
            self.call("baton_publish_wait", step_ms, ctypes.byref(out))
        except _libbaton.DeadlineExceeded:
            if left <= _REPORT_S:
                raise
            self.report()
            return
        self._version = _version(out)
        self.close()

    def __del__(self):
        self.close()


class Publisher:
    """Publishes versions of one model.

    ``agent`` is the address of the local agent ("unix:/run/baton/agent.sock"), by default BATON_AGENT from the
    environment.  Each publish has a connection of its own, so that a Publisher may be used after a fork.

    ``ranks="all"``: where torch.distributed is initialised, all its ranks call publish() and put their parts together, and the first one's agent is
    given them.  ``ranks="one"``: whoever calls publishes what it has.  ``rank_timeout``: seconds that a rank waits for the others.
    """

    def __init__(self, model, agent=None, connect_timeout=10.0, ranks="all", rank_timeout=300.0):
        if ranks not in ("all", "one"):
            raise ValueError(f"ranks: '{ranks}' is neither 'all' nor 'one'")
        self.model = model
        self.agent = agent
        self.connect_timeout = connect_timeout
        self.ranks, self.rank_timeout = ranks, rank_timeout

    def publish(self, weights, files=None, dtype=None, wait=True, references=None, **facts):
        """Publishes weights: a module, a mapping of names to tensors of torch or numpy, memoryviews, or (dtype, shape, bytes), or an iterable of
        (name, tensor) or (name, tensor, placement).

        Without ``partial=True`` they are the whole model.  In a job of several ranks all of them call (see ``ranks``): a DTensor says itself which
        part it is, other parts are given with a ``baton.Shard`` as their placement.  ``files`` gives config and tokenizer: a directory, or a
        mapping of names to bytes, text or paths; those that are not given are inherited from the parent version.  ``dtype`` casts floating
        point tensors of torch ("bfloat16" or torch.bfloat16).  Tensors that are the same memory as one before (tied embeddings) are left out.
        ``references`` are what engines should answer under these weights, for a canary's Probe check: at most 8 dicts of "prompt" (token ids),
        "logprobs" (of the tokens that follow greedily) and "tolerance" (nats).  The keywords are those of ``Facts``.

        Returns a Version; with ``wait=False`` a Pending, as soon as every tensor was copied: the weights may change from there on.
        """
        job = _ranks.job(self.rank_timeout) if self.ranks == "all" else None
        prepare = lambda: (_cast(dtype), self._facts(facts), _contents(files, references) if job is None or job.rank == 0 else {})
        if job is not None:
            plan, (_, said, contents) = job.plan(weights, prepare)
            return self._publish_together(job, plan, said, contents, wait)
        cast, said, contents = prepare()
        bytes_expected = _entries.bytes_of(weights, cast)
        if not _entries.is_repeatable(weights):
            said = dataclasses.replace(said, attempts=1)

        def attempt(agent):
            pending = self._start(agent, "baton_publish_begin", said, bytes_expected)
            tensors = _entries.whole(_entries.untied(_entries.entries(weights)))
            return _finish(pending, wait, lambda: _hand_over(pending, tensors, cast, contents))

        return self._retrying(said, attempt)

    def _publish_together(self, job, plan, said, contents, wait):
        """The part of each rank: the first one publishes what all give; all learn what came of it."""
        while True:
            pending, error, again = None, None, False
            tensors = plan.collect()
            try:
                if job.rank == 0:
                    pending = self._start(self._connect(), "baton_publish_begin", said, plan.bytes)
                    _finish(pending, False, lambda: _hand_over(pending, tensors, None, contents))
            except Exception as failure:  # pylint: disable=broad-except
                error, again = _ranks.portable(failure), isinstance(failure, _libbaton.Unavailable) and said.attempts > 1
            for _ in tensors:
                pass  # Also after a failure: the others are sending, or have nobody else to tell them.
            error, again = job.tell((error, again))
            said = dataclasses.replace(said, attempts=said.attempts - 1)
            if error is None:
                shared = _ranks.Together(job, pending, said.request_id)
                return shared.result() if wait else shared
            if not again:
                raise error
            time.sleep(_RETRY_PAUSE_S)

    def publish_directory(self, directory, wait=True, **facts):
        """Publishes a Hugging Face checkpoint directory that the agent can read.  Returns as publish() does."""
        said = self._facts(facts)
        path = os.fsencode(os.path.abspath(directory))

        def attempt(agent):
            return _finish(self._start(agent, "baton_publish_directory_start", said, path), wait)

        return self._retrying(said, attempt)

    def agent_info(self):
        """What the agent says about itself: name, version, controller, connected, directory."""
        agent = self._connect()
        try:
            info = _libbaton.new(_libbaton.AgentInfo)
            _libbaton.call("baton_get_agent_info", agent, int(self.connect_timeout * 1000), ctypes.byref(info))
        finally:
            _libbaton.load().baton_close(agent)
        texts = {key: getattr(info, key).decode() for key in ("name", "version", "controller", "directory")}
        return {**texts, "connected": bool(info.connected), "publishing": info.publishing}

    def _facts(self, facts):
        said = Facts(**facts)
        return dataclasses.replace(said, request_id=said.request_id or uuid.uuid4().hex)

    def _connect(self):
        agent = ctypes.c_void_p()
        address = None if self.agent is None else os.fsencode(self.agent)
        _libbaton.call("baton_connect", address, int(self.connect_timeout * 1000), ctypes.byref(agent))
        return agent

    def _options(self, said):
        options = _libbaton.new(_libbaton.Options)
        options.partial = int(said.partial)
        options.model = self.model.encode()
        options.request_id = said.request_id.encode()
        for key in ("optimizer_step", "rollout_iteration", "samples_trained"):
            setattr(options, key, int(getattr(said, key)))
        options.parent_seq = int(said.parent)
        options.reason = None if said.reason is None else said.reason.encode()
        options.timeout_ms = max(1, int(said.timeout * 1000))
        options.inline_bytes = int(said.inline)
        return options

    def _retrying(self, said, attempt):
        """Runs attempt(agent) until it is through; starts over, under the same request id, when the agent is lost."""
        was_connected = False
        for left in range(max(1, said.attempts), 0, -1):
            try:
                agent = self._connect()
                was_connected = True
                return attempt(agent)
            except _libbaton.Unavailable:
                if left == 1 or not was_connected:
                    raise
            time.sleep(_RETRY_PAUSE_S)
        raise AssertionError("the loop returns or raises")

    def _start(self, agent, function, said, what):
        """Begins a publish; ``what`` is the path of a directory, or the bytes of the tensors to come."""
        handle = ctypes.c_void_p()
        options = self._options(said)
        arguments = [what] if isinstance(what, bytes) else []
        options.bytes_expected = 0 if arguments else what
        try:
            _libbaton.call(function, agent, ctypes.byref(options), *arguments, ctypes.byref(handle))
        except BaseException:
            _libbaton.load().baton_close(agent)
            raise
        return Pending(agent, handle, said)


def _hand_over(pending, tensors, cast, contents):
    for tensor in _tensors.prepared(tensors, cast):
        pending.call("baton_publish_tensor", ctypes.byref(tensor.struct()))
        pending.report()
    for name, content in contents.items():
        pending.call("baton_publish_file", name.encode(), content, len(content))
    pending.call("baton_publish_send")


def _finish(pending, wait, before=None):
    """Runs ``before`` and waits for the version; whatever fails, or interrupts, also cancels the publish."""
    try:
        if before is not None:
            before()
        return pending.result() if wait else pending
    except BaseException as exc:
        _cancel_quietly(pending, exc)
        raise


def _cancel_quietly(pending, exc):
    """After an interrupt the agent must not go on; after its own refusal there is nothing to cancel."""
    try:
        if not isinstance(exc, _libbaton.BatonError):
            pending.cancel()
    except _libbaton.BatonError:
        pass
    finally:
        pending.close()


def _cast(dtype):
    """torch.bfloat16 for "bfloat16"; torch is imported only where it is asked for."""
    if not isinstance(dtype, str):
        return dtype
    import torch

    return getattr(torch, dtype.rpartition(".")[2])


def _content(value):
    if isinstance(value, os.PathLike):
        return pathlib.Path(value).read_bytes()
    return value.encode() if isinstance(value, str) else bytes(value)


def _is_version_file(path):
    name = path.name
    return (
        path.is_file()
        and (not name.startswith((".", "baton.")) or name == REFERENCES_FILE)
        and path.suffix not in _NO_FILE_SUFFIXES
        and name != "model.safetensors.index.json"
        and path.stat().st_size <= _FILE_BYTES_MAX
    )


def _contents(files, references):
    """_files(), and what engines should answer."""
    found = _files(files)
    if references is not None:
        found[REFERENCES_FILE] = json.dumps({"references": list(references)}).encode()
    return found


def _files(files):
    """Names and contents of a directory's config and tokenizer files, or of a mapping."""
    if files is None:
        return {}
    if isinstance(files, (str, os.PathLike)):
        found = {p.name: p for p in sorted(pathlib.Path(files).iterdir()) if _is_version_file(p)}
        if not found:
            raise FileNotFoundError(f"{os.fspath(files)}: no config or tokenizer file there")
        files = found
    return {name: _content(value) for name, value in files.items()}
