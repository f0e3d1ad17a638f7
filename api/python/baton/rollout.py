"""Generation for a rollout loop: which engines may be asked, how much may be on the way, and which version every token is of.

    from baton import Rollout

    rollout = Rollout(model="qwen3-8b-grpo")
    with rollout.slots(1) as slots:
        answer = rollout.generate(prompt_token_ids, max_tokens=512, max_lag=1)
        if rollout.evaluate([answer])[0].accept:
            slots.consume(1)

See ROLLOUT.md.
"""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import functools
import http.client
import json
import os
import random
import threading
import time
import typing
import uuid

from . import _control, _http, _libbaton

_CALL_S = 10.0  # Most that one call to the controller may take.
_RENEW_S = 2.0  # The same where an older answer will do.
_PAUSE_S, _PAUSE_MAX_S = 0.05, 1.0
_BATCH = 1024  # Samples of one call.
_UNITS = {"publishes": 1, "optimizer_steps": 2, "samples": 3, "seconds": 4}
_STAGES = {"dispatch": 1, "completion": 2, "consumption": 3}
_FAULTS = (
    "UNSPECIFIED", "NO_SPANS", "VERSION_UNKNOWN", "UNRELATED", "LATER_THAN_CONSUMER", "TOO_STALE", "QUARANTINED", "UNDONE", "UNIT_UNKNOWN",
)  # fmt: skip
# What a guard, a full queue or a proxy says of the moment, not of the request.
_LATER = {408, 409, 429, 500, 502, 503, 504}
_ANSWERS_FAILED_MAX = 5  # Engines that answer 500, or what is no answer: it may be the request.
_TELLERS = 16  # Threads for short calls to the controller.


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """A group that may take requests, with the version that it serves and the addresses of its engines."""

    group: str
    version: int
    digest: str
    lag: typing.Optional[int]  # publishes behind the newest version; None: on another branch
    urls: typing.Tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Span:
    """So many tokens by that version."""

    version: int
    tokens: int


@dataclasses.dataclass(frozen=True)
class Answer:
    """What engines generated.  ``logprobs`` are those of the tokens, as the engine that generated each said them.

    ``spans`` are in the order of generation.  ``mixed``: an engine was swapped within a span (in flight ``keep``); the span is then named by the
    version before, the older one.  ``continued``: how often it was taken up again after an engine gave it back unfinished.
    """

    text: str
    token_ids: typing.Tuple[int, ...]
    logprobs: typing.Tuple[float, ...]
    spans: typing.Tuple[Span, ...]
    finish_reason: str
    groups: typing.Tuple[str, ...]
    mixed: bool
    continued: int

    @property
    def version(self):
        """Version of its oldest token."""
        return min((span.version for span in self.spans), default=0)

    @property
    def versions(self):
        """Version of each token."""
        return tuple(span.version for span in self.spans for _ in range(span.tokens))


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether a sample may be trained on; ``faults`` says why not ("TOO_STALE", "UNDONE", ...)."""

    accept: bool
    faults: typing.Tuple[str, ...]
    oldest: int
    max_lag: int
    mean_lag: float
    consumer: int
    message: str


@dataclasses.dataclass(frozen=True)
class _Want:
    """What a request asks of the version."""

    min_version: int = 0
    exact_version: int = 0
    max_lag: typing.Optional[int] = None
    unit: str = "publishes"

    def fields(self):
        if self.unit not in _UNITS:
            raise ValueError(f"unit: '{self.unit}' is none of {', '.join(_UNITS)}")
        fields = {"min_seq": self.min_version, "exact_seq": self.exact_version}
        return fields if self.max_lag is None else {**fields, "max_lag": {"bound": self.max_lag, "unit": _UNITS[self.unit]}}


def _split(keywords):
    """(what is asked of the version, what goes to the engine)."""
    names = {field.name for field in dataclasses.fields(_Want)}
    return _Want(**{k: v for k, v in keywords.items() if k in names}), {k: v for k, v in keywords.items() if k not in names}


def _spans_of(sample):
    """Of an Answer, or of pairs (version, tokens)."""
    spans = getattr(sample, "spans", sample)
    return {"spans": [{"seq": s.version, "tokens": s.tokens} if isinstance(s, Span) else {"seq": s[0], "tokens": s[1]} for s in spans]}


def _endpoint(raw):
    return Endpoint(raw.group, raw.seq, raw.digest, None if raw.relation == 3 else raw.lag_publishes, tuple(e.endpoint for e in raw.engines))


def _verdict(raw):
    faults = tuple(_FAULTS[f] if f < len(_FAULTS) else str(f) for f in raw.faults)
    return Verdict(raw.accept, faults, raw.oldest_seq, raw.max_lag, raw.mean_lag, raw.consumer_seq, raw.message)


class _Patience:
    """Until when, and how long to pause before the next try."""

    def __init__(self, timeout, flight=None):
        self.deadline, self.flight, self._pause = time.monotonic() + timeout, flight or _http.Flight(), _PAUSE_S

    def left(self):
        return self.deadline - time.monotonic()

    def pause(self, error, at_least=None):
        """Waits a little; raises 'error' if there is no time for another try, Cancelled if the caller gave up."""
        wait = max(self._pause * random.uniform(0.5, 1.0), min(at_least or 0, _PAUSE_MAX_S))
        self._pause = min(2 * self._pause, _PAUSE_MAX_S)
        if wait >= self.left():
            raise error
        self.flight.cancelled.wait(wait)
        self.check()

    def check(self):
        """Raises what ends the request, if anything does."""
        if self.flight.cancelled.is_set():
            raise _libbaton.exception(1, "CANCELLED", "CANCELLED", "the request was given up")

    def calm(self):
        """After a success the next pause is a short one again."""
        self._pause = _PAUSE_S


class _Work:
    """One answer as it grows over one or several engines."""

    def __init__(self, prompt, max_tokens, sampling):
        if sampling.get("stream") or sampling.get("n", 1) != 1:
            raise ValueError("a prompt has one whole answer: neither stream nor n")
        self.prompt, self.max_tokens, self.sampling = prompt, max_tokens, sampling
        self.given = None if isinstance(prompt, str) else [int(token) for token in prompt]
        self.text, self.tokens, self.logprobs, self.spans, self.groups = "", [], [], [], []
        self.finish, self.mixed, self.continued, self.failures = None, False, 0, 0

    def body(self):
        """What is to be asked next: the rest, after the prompt and what is there already."""
        prompt = self.prompt if self.given is None else self.given + self.tokens
        asked = {"logprobs": 0, **self.sampling, "prompt": prompt, "max_tokens": self.max_tokens - len(self.tokens), "return_token_ids": True}
        return json.dumps(asked).encode()

    def take(self, endpoint, headers, choice):
        """Adds an engine's answer; True if it is whole."""
        tokens = [int(token) for token in choice.get("token_ids") or []]
        aborted = choice.get("finish_reason") == "abort"
        if self.given is None and choice.get("prompt_token_ids"):
            self.given = [int(token) for token in choice["prompt_token_ids"]]
        if aborted and self.given is None:
            return False  # The text may be cut within a token: it is asked anew from the start.
        self.finish = choice.get("finish_reason")
        self._add(endpoint, headers, choice, tokens)
        if aborted and len(self.tokens) < self.max_tokens:
            self.continued += bool(tokens)
            return False
        self.finish = "length" if aborted else self.finish
        return True

    def _add(self, endpoint, headers, choice, tokens):
        version = int(headers.get("x-baton-version") or endpoint.version)
        mixed = int(headers.get("x-baton-version-end") or version) != version
        logprobs = [*((choice.get("logprobs") or {}).get("token_logprobs") or [])]
        self.text += choice.get("text") or ""
        self.mixed = self.mixed or mixed
        self.tokens += tokens
        self.logprobs += logprobs
        if not tokens:
            return
        self.groups.append(endpoint.group)
        if self.spans and self.spans[-1].version == version:
            self.spans[-1] = Span(version, self.spans[-1].tokens + len(tokens))
        else:
            self.spans.append(Span(version, len(tokens)))

    def answer(self):
        lists = (self.tokens, self.logprobs, self.spans)
        return Answer(self.text, *map(tuple, lists), self.finish, tuple(self.groups), self.mixed, self.continued)


class _Choice:
    """Which engine is asked next: of those that may, the one with the fewest requests of ours that did not just refuse."""

    def __init__(self):
        self._lock, self._open = threading.Lock(), {}

    @contextlib.contextmanager
    def of(self, endpoints, refused):
        """(endpoint, url) as long as the request runs; None if all have refused."""
        with self._lock:
            pairs = [(endpoint, url) for endpoint in endpoints for url in endpoint.urls if url not in refused]
            random.shuffle(pairs)
            picked = min(pairs, key=lambda pair: self._open.get(pair[1], 0), default=None)
            if picked is not None:
                self._open[picked[1]] = self._open.get(picked[1], 0) + 1
        try:
            yield picked
        finally:
            if picked is not None:
                self._leave(picked[1])

    def _leave(self, url):
        with self._lock:
            self._open[url] -= 1
            if self._open[url] == 0:
                del self._open[url]


class Rollout:
    """Generates with the engines of one model.  Any thread may call; make it after a fork, as all that uses gRPC.

    ``server`` is the controller, or several ("a:7070,b:7070"), by default BATON_SERVER, else 127.0.0.1:7070.  ``refresh``: for how many seconds an
    answer of the controller about endpoints is used again.  ``tls``: ``ca`` with ``cert`` and ``key``, or with ``token_file``; batonctl's options.
    """

    def __init__(self, model, server=None, refresh=0.5, **tls):
        self.model, self.refresh = model, refresh
        self._control = _control.Control(server or os.environ.get("BATON_SERVER") or _control.DEFAULT_SERVER, **tls)
        self._http, self._choice = _http.Pool(), _Choice()
        self._lock, self._known = threading.Lock(), {}

    # --- the controller ---

    def _call(self, name, timeout=_CALL_S, **fields):
        return self._control.call(name, min(timeout, _CALL_S), model=self.model, **fields)

    def _settled(self, name, timeout, **fields):
        """A call that changes something, sent again under one request id while the controller is away."""
        patience, options = _Patience(timeout), {"request_id": uuid.uuid4().hex}
        while True:
            try:
                return self._call(name, max(0.001, patience.left()), options=options, **fields)
            except (_libbaton.Unavailable, _libbaton.DeadlineExceeded) as error:
                patience.pause(error)

    def endpoints(self, min_version=0, exact_version=0, max_lag=None, unit="publishes", timeout=0.0):
        """Groups that may take requests now, newest version first; waits up to ``timeout`` seconds for one that meets the conditions.

        FailedPrecondition with reason VERSION_NOT_READY where there is none: an older version is never given instead.
        """
        want, patience = _Want(min_version, exact_version, max_lag, unit), _Patience(timeout)
        while True:
            try:
                return self._resolve(want)[0]
            except (_libbaton.FailedPrecondition, _libbaton.Unavailable) as error:
                patience.pause(error, getattr(error, "retry_after", None))

    def _resolve(self, want, timeout=_CALL_S, **session):
        """(all endpoints, the last answer)."""
        found, token = [], ""
        while True:
            answer = self._call("Resolve", timeout, page_token=token, **want.fields(), **session)
            found += map(_endpoint, answer.endpoints)
            token = answer.next_page_token
            if not token:
                return found, answer

    def _usable(self, want, fresh=False):
        """Endpoints for requests; an answer of the last moments is used again.  A controller that is away stops nobody: what engines serve is
        checked by their guards."""
        with self._lock:
            at, known = self._known.get(want, (0.0, None))
        if known and not fresh and time.monotonic() - at < self.refresh:
            return known
        try:
            known = self._resolve(want, _RENEW_S if known else _CALL_S)[0]
        except (_libbaton.Unavailable, _libbaton.DeadlineExceeded):
            if not known:
                raise
        with self._lock:
            self._known = {**self._known, want: (time.monotonic(), known)} if len(self._known) < _BATCH else {want: (time.monotonic(), known)}
        return known

    def evaluate(self, samples, consumer=0, max_lag=None, unit="publishes"):
        """A Verdict for each sample (an Answer, or pairs of version and tokens), for a trainer that starts from version ``consumer`` (0: the newest).

        ``max_lag`` instead of the model's bound.
        """
        limit = {} if max_lag is None else {"max_lag": _Want(max_lag=max_lag, unit=unit).fields()["max_lag"]}
        verdicts, listed = [], [_spans_of(sample) for sample in samples]
        for at in range(0, len(listed), _BATCH):
            verdicts += self._call("EvaluateSamples", samples=listed[at : at + _BATCH], consumer_seq=consumer, **limit).verdicts
        return [_verdict(raw) for raw in verdicts]

    def report(self, samples, stage, consumer=0, timeout=60.0):
        """Counts samples by their lag at a ``stage``: "dispatch", "completion" or "consumption"."""
        if stage not in _STAGES:
            raise ValueError(f"stage: '{stage}' is none of {', '.join(_STAGES)}")
        listed = [_spans_of(sample) for sample in samples]
        for at in range(0, len(listed), _BATCH):
            self._settled("ReportSamples", timeout, stage=_STAGES[stage], samples=listed[at : at + _BATCH], consumer_seq=consumer)

    def slots(self, count, partial=False, holder="", timeout=600.0):
        """Room for ``count`` samples on the way, so that none is too stale when the trainer takes it; waits for it up to ``timeout`` seconds.

        For ``with``: what was not consumed by its end is given back.  ``partial``: fewer are welcome, ``granted`` says how many.
        """
        return Slots(self, count, partial, holder, timeout)

    def session(self, name=None, ttl=None, **want):
        """A conversation of several turns that keeps its version; ``want`` as of endpoints()."""
        return Session(self, name or uuid.uuid4().hex, ttl, _Want(**want))

    # --- generation ---

    def generate(self, prompt, max_tokens=256, timeout=600.0, **keywords):
        """An Answer to a prompt (token ids, or text), by engines that serve what ``min_version``, ``exact_version``, ``max_lag`` and ``unit`` ask
        for, as of endpoints(); the other keywords go to the engine (``temperature``, ``seed``, ``stop_token_ids``, ...).

        An answer that a swap cut short is taken up again from its tokens, by whichever engine may; ``spans`` tells them apart.  A text is taken up
        so only where the engine says its token ids, else begun anew.  Refusals of the moment (a shut gate, another version by now, a dead engine)
        are retried within ``timeout``; what is wrong with the request is raised at once.
        """
        want, sampling = _split(keywords)
        return self._generate(want, _Work(prompt, max_tokens, sampling), _Patience(timeout))

    def _generate(self, want, work, patience, session=None):
        refused, fresh = set(), False
        while True:
            patience.check()
            before = len(work.tokens)
            try:
                endpoints = session.resolve() if session else self._usable(want, fresh)
            except (_libbaton.FailedPrecondition, _libbaton.Unavailable, _libbaton.DeadlineExceeded, _libbaton.ResourceExhausted) as error:
                if error.reason == "SESSION_EXPIRED":
                    raise
                patience.pause(error, getattr(error, "retry_after", None))
                continue
            with self._choice.of(endpoints, refused) as picked:
                outcome = picked and self._ask(picked, work, bool(want.exact_version or session), patience)
            if outcome is True:
                return work.answer()
            if outcome is None or outcome is False:  # All have refused; or it was given back in the middle.
                patience.calm() if len(work.tokens) > before else patience.pause(self._nobody(refused))
                refused, fresh = set(), True
                continue
            refused.add(picked[1])
            fresh = True

    def _nobody(self, refused):
        return _libbaton.exception(14, "UNAVAILABLE", "NO_ENGINE", f"model {self.model}: no engine took the request", f"asked: {sorted(refused)}")

    def _ask(self, picked, work, exactly, patience):
        """True: the answer is whole; False: the engine gave it back; a text: why it did not take it."""
        endpoint, url = picked
        headers = {"Content-Type": "application/json", f"x-baton-{'exact' if exactly else 'min'}-version": str(endpoint.version)}
        try:
            left = patience.left()
            status, said, raw = self._http.post(url, "/v1/completions", work.body(), headers, max(0.001, left), patience.flight)
            answer = json.loads(raw) if status == 200 else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            patience.check()
            if patience.left() <= 0:
                raise _libbaton.exception(4, "DEADLINE_EXCEEDED", "TIMEOUT", f"{endpoint.group} at {url}: no whole answer in time") from error
            return f"{type(error).__name__}: {error}"
        if status == 200:
            with contextlib.suppress(AttributeError, LookupError, TypeError, ValueError):  # Else it is no answer of /v1/completions.
                return work.take(endpoint, said, answer["choices"][0])
        return self._refusal(endpoint, url, work, status, raw)

    def _refusal(self, endpoint, url, work, status, raw):
        text = f"{endpoint.group} at {url}: HTTP {status}: {raw[:300].decode('utf-8', 'replace')}"
        internal = status >= 500 or status == 200
        work.failures += status in (200, 500)
        if not (internal or status in _LATER) or work.failures >= _ANSWERS_FAILED_MAX:
            raise _libbaton.exception(13 if internal else 3, "INTERNAL" if internal else "INVALID_ARGUMENT", "ENGINE_REFUSED", text)
        return text

    def close(self):
        """Ends all connections."""
        self._http.close()
        self._control.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Slots:
    """Room for samples on the way, renewed in the background until the end of the ``with``.  From Rollout.slots()."""

    def __init__(self, rollout, count, partial, holder, timeout):
        self._rollout, self._timeout = rollout, timeout
        self._asked = {"count": count, "partial": partial, "holder": holder}
        self._ended, self._lock, self._keeper, self._flight = threading.Event(), threading.Lock(), None, _http.Flight()
        self.lease, self.granted, self.held, self.lost = None, 0, 0, False

    def __enter__(self):
        patience = _Patience(self._timeout, self._flight)
        while self.lease is None:
            patience.check()
            try:
                self._take(self._rollout._settled("AcquireSlots", max(0.001, patience.left()), **self._asked))
            except _libbaton.ResourceExhausted as error:
                patience.pause(error, getattr(error, "retry_after", None))
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()
        return self

    def give_up(self):
        """Ends the wait for room, from another thread; one that has it keeps it."""
        self._flight.cancel()

    def _take(self, answer):
        self.lease, self.held, self._until = answer.lease, answer.held, answer.expires_at.seconds
        self.granted = self.granted or answer.granted

    def _keep(self):
        while not self._ended.wait(max(0.2, (self._until - time.time()) / 3)):
            with self._lock:  # What is held is said by the later of two answers.
                if not self.held:
                    return  # The lease went with the last of them.
                try:
                    self._take(self._rollout._call("AcquireSlots", lease=self.lease))
                except (_libbaton.NotFound, _libbaton.FailedPrecondition):
                    self.lost = True  # It was away for longer than the lease lives: the slots have returned.
                    return
                except _libbaton.BatonError:
                    continue  # It is away, or has too much to do: again in a moment.

    def consume(self, count=1):
        """The trainer took so many of them."""
        self._release(consumed=count)

    def drop(self, count=1):
        """So many of them will not be taken."""
        self._release(dropped=count)

    def _release(self, **counts):
        with self._lock:
            if not self.lost and any(counts.values()):
                self.held = self._rollout._settled("ReleaseSlots", 60.0, lease=self.lease, **counts).held

    def __exit__(self, *_):
        self._ended.set()
        self._keeper.join()
        if self.held and not self.lost:
            with contextlib.suppress(_libbaton.BatonError):  # They return with the lease, if not now.
                self.drop(self.held)


class Session:
    """Turns of one conversation under one version.  From Rollout.session().

    A lease that is over (a roll waited for it as long as the policy says) raises FailedPrecondition with reason SESSION_EXPIRED: go on with
    restart(), under a newer version, or give the conversation up.
    """

    def __init__(self, rollout, name, ttl, want):
        self._rollout, self._want, self._restart = rollout, want, False
        self.name, self.version = name, 0
        self._fields = {"session": name, **({} if ttl is None else {"session_ttl": {"seconds": int(ttl), "nanos": int(ttl % 1 * 1e9)}})}

    def generate(self, prompt, max_tokens=256, timeout=600.0, **sampling):
        """As Rollout.generate(), with the session's version in each turn."""
        return self._rollout._generate(self._want, _Work(prompt, max_tokens, sampling), _Patience(timeout), self)

    def resolve(self):
        """Endpoints on the session's version; renews the lease."""
        found, answer = self._rollout._resolve(self._want, restart_session=self._restart, **self._fields)
        self.version, self._restart = answer.session.seq, False
        return found

    def restart(self):
        """The next turn begins a new lease, on the version that is newest then."""
        self._restart = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class AsyncRollout:
    """Rollout for asyncio: the same calls, awaited.  At most ``concurrency`` run at once, each on a thread, and so many wait for slots; a cancelled
    task ends its request at the engine."""

    def __init__(self, model, concurrency=256, **options):
        self.sync = Rollout(model, **options)
        # Who waits for room takes no thread from those who give it back, nor do those who wait for an engine.
        counts = {"generate": concurrency, "wait": concurrency, "tell": _TELLERS}
        self._threads = {name: concurrent.futures.ThreadPoolExecutor(n, thread_name_prefix=f"baton-{name}") for name, n in counts.items()}

    async def _run(self, threads, function, *arguments, **keywords):
        call = functools.partial(function, *arguments, **keywords)
        return await asyncio.get_running_loop().run_in_executor(self._threads[threads], call)

    async def _generating(self, want, work, timeout, session=None):
        patience = _Patience(timeout)
        try:
            return await self._run("generate", self.sync._generate, want, work, patience, session)
        except asyncio.CancelledError:
            patience.flight.cancel()
            raise

    async def generate(self, prompt, max_tokens=256, timeout=600.0, **keywords):
        """As Rollout.generate()."""
        want, sampling = _split(keywords)
        return await self._generating(want, _Work(prompt, max_tokens, sampling), timeout)

    async def endpoints(self, **want):
        """As Rollout.endpoints()."""
        return await self._run("generate", self.sync.endpoints, **want)

    async def evaluate(self, samples, **options):
        """As Rollout.evaluate()."""
        return await self._run("tell", self.sync.evaluate, samples, **options)

    async def report(self, samples, stage, **options):
        """As Rollout.report()."""
        return await self._run("tell", self.sync.report, samples, stage, **options)

    @contextlib.asynccontextmanager
    async def slots(self, count, **options):
        """As Rollout.slots(), for ``async with``; consume() and drop() of what it gives are awaited by ``run``."""
        slots = self.sync.slots(count, **options)
        entering = self._threads["wait"].submit(slots.__enter__)
        try:
            await asyncio.wrap_future(entering)
        except asyncio.CancelledError:
            slots.give_up()  # It may have been granted meanwhile: then nobody else would give it back.
            entering.add_done_callback(lambda done: done.cancelled() or done.exception() or slots.__exit__())
            raise
        try:
            yield AsyncSlots(self, slots)
        finally:
            await self._run("tell", slots.__exit__)

    def session(self, name=None, ttl=None, **want):
        """As Rollout.session(), whose generate() is awaited."""
        return AsyncSession(self, self.sync.session(name, ttl, **want))

    async def close(self):
        """Ends all connections."""
        for threads in self._threads.values():
            threads.shutdown(wait=False)
        self.sync.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()


class AsyncSlots:
    """Slots whose calls are awaited."""

    def __init__(self, rollout, slots):
        self._rollout, self.sync = rollout, slots

    async def consume(self, count=1):
        """As Slots.consume()."""
        await self._rollout._run("tell", self.sync.consume, count)

    async def drop(self, count=1):
        """As Slots.drop()."""
        await self._rollout._run("tell", self.sync.drop, count)


class AsyncSession:
    """A Session whose turns are awaited."""

    def __init__(self, rollout, session):
        self._rollout, self.sync = rollout, session

    async def generate(self, prompt, max_tokens=256, timeout=600.0, **sampling):
        """As Session.generate()."""
        return await self._rollout._generating(self.sync._want, _Work(prompt, max_tokens, sampling), timeout, self.sync)

    def restart(self):
        """As Session.restart()."""
        self.sync.restart()
