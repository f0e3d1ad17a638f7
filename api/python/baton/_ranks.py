"""How the ranks of a torch.distributed job publish one version together: who has what, and the way of the parts to the first rank.

Each rank says what it has, all compute the same plan from that, and go through it in the same order; the parts travel over gloo, one tensor at a
time, so that the first rank holds one whole tensor at most.  Nobody waits for longer than the group's timeout.  Private.
"""

import dataclasses
import datetime
import pickle
import sys
import time

from . import _entries, _libbaton, _tensors

WHOLE, DTENSOR, SHARD = "whole", "dtensor", "shard"


@dataclasses.dataclass(frozen=True)
class Piece:
    """What one rank has of one tensor."""

    name: str
    kind: str
    dtype: str
    shape: tuple
    shard: object  # _entries.Shard, of kind SHARD.
    tied: bool


# A rank that waits for the first one's version hears from it this often within the group's timeout.
_TURNS = 3


def portable(error):
    """What of an exception can be told to other ranks; itself where it can travel."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:  # pylint: disable=broad-except
        return _libbaton.exception(13, "INTERNAL", "", f"{type(error).__name__}: {error}")


class _Job:
    """This rank among the others."""

    groups = {}  # By timeout: making one is a call of all ranks, too.

    def __init__(self, torch, timeout):
        self.torch, self.dist = torch, torch.distributed
        self.rank, self.size, self.turn = self.dist.get_rank(), self.dist.get_world_size(), timeout / _TURNS
        limit = datetime.timedelta(seconds=timeout)
        key = (id(self.dist.group.WORLD), timeout)
        try:
            if key not in _Job.groups:
                _Job.groups[key] = self.dist.new_group(backend="gloo", timeout=limit)
            self.group = _Job.groups[key]
            self.dist.monitored_barrier(self.group, timeout=limit, wait_all_ranks=True)
        except RuntimeError as error:
            hint = "all ranks call publish(), or the Publisher is made with ranks='one'"
            raise _libbaton.exception(4, "DEADLINE_EXCEEDED", "RANKS_MISSING", f"not all ranks came to publish(): {error}", hint) from None

    def all_say(self, value):
        """What each rank says, by rank."""
        said = [None] * self.size
        self.dist.all_gather_object(said, value, group=self.group)
        return said

    def tell(self, value):
        """What the first rank says, at all."""
        said = [value]
        self.dist.broadcast_object_list(said, src=0, group=self.group)
        return said[0]

    def plan(self, given, prepare):
        """(plan, what prepare() gives here); what is wrong at any rank is raised at all.  The first of what prepare() gives is the cast, or None."""
        pieces, values, prepared, refusal = [], {}, None, None
        try:
            prepared = prepare()
            pieces, values = _pieces(given, prepared[0])
        except Exception as failure:  # pylint: disable=broad-except
            refusal = _entries.refusal(f"rank {self.rank}: {getattr(failure, 'message', failure)}", getattr(failure, "hint", ""))
        said = self.all_say((pieces, refusal))
        for _, refused in said:
            if refused is not None:
                raise refused
        return Plan(self, [pieces for pieces, _ in said], values, prepared[0]), prepared


def job(timeout):
    """The job that this process is a rank of; None where it is alone."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return None
    return _Job(torch, timeout) if torch.distributed.get_world_size() > 1 else None


def _pieces(given, cast):
    pieces, values, seen = [], {}, set()
    for name, value, shard in _entries.entries(given):
        if not _tensors.is_torch(value):
            raise _entries.refusal(f"tensor '{name}': a {type(value).__name__}; a job of several ranks publishes tensors of torch")
        sharded = _tensors.is_sharded(value)
        _tensors.check_dense(name, value.to_local() if sharded else value)
        if sharded and shard is not None:
            raise _entries.refusal(f"tensor '{name}': a DTensor says itself which part it is; give no placement")
        kind = DTENSOR if sharded else SHARD if shard is not None else WHOLE
        memory = _tensors.memory_of(value)
        dtype = cast if cast is not None and value.is_floating_point() else value.dtype
        pieces.append(Piece(name, kind, str(dtype).rpartition(".")[2], tuple(value.shape), shard, memory is not None and memory in seen))
        seen.add(memory)
        values[name] = value
    return pieces, values


@dataclasses.dataclass
class _Step:
    """One tensor, and who has what of it: {rank: Piece}."""

    name: str
    held: dict

    @property
    def kind(self):
        return next(iter(self.held.values())).kind

    def senders(self):
        """[(rank, piece)] of those whose parts are taken, in the tensor's order."""
        if self.kind != SHARD:
            return [min(self.held.items())[:1] + (self.held[min(self.held)],)]
        first = {}
        for rank in sorted(self.held):
            first.setdefault(self.held[rank].shard.index, rank)
        return [(first[index], self.held[first[index]]) for index in sorted(first)]

    def check(self):
        """Raises what does not fit together."""
        pieces = list(self.held.values())
        say = lambda what: _entries.refusal(f"tensor '{self.name}': {what}")
        for rank, piece in self.held.items():
            same = (piece.kind, piece.dtype, piece.shard and (piece.shard.dim, piece.shard.count))
            first = (pieces[0].kind, pieces[0].dtype, pieces[0].shard and (pieces[0].shard.dim, pieces[0].shard.count))
            if same != first or (piece.kind != SHARD and piece.shape != pieces[0].shape):
                raise say(f"rank {rank} has {_words(piece)}, rank {min(self.held)} {_words(pieces[0])}")
        if self.kind == SHARD:
            there, count, dim = {p.shard.index for p in pieces}, pieces[0].shard.count, pieces[0].shard.dim
            if len(there) < count:
                missing = min(set(range(count)) - there)
                raise say(f"no rank has part {missing} of {count}")
            rest = {p.shape[:dim] + p.shape[dim + 1 :] for p in pieces if 0 <= dim < len(p.shape)}
            if len(rest) != 1 or any(not 0 <= dim < len(p.shape) for p in pieces):
                raise say(f"its parts {[p.shape for p in pieces]} do not fit together along dimension {dim}")

    def shape(self):
        """Of the whole tensor."""
        first = next(iter(self.held.values()))
        if self.kind != SHARD:
            return first.shape
        dim = first.shard.dim
        return first.shape[:dim] + (sum(piece.shape[dim] for _, piece in self.senders()),) + first.shape[dim + 1 :]


def _words(piece):
    return f"{piece.kind} {piece.dtype} {list(piece.shape)}" + (f" {piece.shard}" if piece.shard else "")


def steps_of(said):
    """The tensors of a version from what each rank said, in the order in which the ranks name them; each has been checked."""
    held, tied = {}, {piece.name for pieces in said for piece in pieces if piece.tied}
    for rank, pieces in enumerate(said):
        for piece in pieces:
            if piece.name not in tied:
                held.setdefault(piece.name, {})[rank] = piece
    steps = [_Step(name, by_rank) for name, by_rank in held.items()]
    for step in steps:
        step.check()
    return steps


class Plan:
    """What is to be published, the same at each rank, with this rank's tensors."""

    def __init__(self, job_, said, values, cast):
        self._job, self._values, self._cast = job_, values, cast
        self._steps = steps_of(said)
        size = lambda dtype: getattr(job_.torch, dtype).itemsize
        self.bytes = sum(_product(step.shape()) * size(next(iter(step.held.values())).dtype) for step in self._steps)

    def collect(self):
        """(name, whole tensor at the first rank, else None) of one tensor after another; all ranks must go through all of it."""
        for step in self._steps:
            yield step.name, self._collect(step)

    def _mine(self, step):
        """This rank's part, dense and on the CPU.  Of a DTensor all that hold it take part in putting it together."""
        value = self._values[step.name]
        return _tensors.torch_ready(step.name, value.full_tensor() if step.kind == DTENSOR else value, self._cast)

    def _collect(self, step):
        job_, senders = self._job, step.senders()
        sends = [rank for rank, _ in senders]
        needed = job_.rank in step.held and (step.kind == DTENSOR or job_.rank in sends)
        mine = self._mine(step) if needed else None
        if job_.rank != 0:
            if job_.rank in sends and mine.numel() > 0:
                job_.dist.send(mine.reshape(-1).view(job_.torch.uint8), dst=0, group=job_.group)
            return None
        parts = [mine if rank == 0 else self._receive(rank, piece) for rank, piece in senders]
        return parts[0] if len(parts) == 1 else job_.torch.cat(parts, dim=senders[0][1].shard.dim)

    def _receive(self, rank, piece):
        torch = self._job.torch
        dtype = getattr(torch, piece.dtype)
        raw = torch.empty(_product(piece.shape) * dtype.itemsize, dtype=torch.uint8)
        if raw.numel() > 0:
            self._job.dist.recv(raw, src=rank, group=self._job.group)
        return raw.view(dtype).reshape(piece.shape)


def _product(shape):
    out = 1
    for size in shape:
        out *= size
    return out


class Together:
    """A publish of several ranks that the first rank's agent finishes by itself: as a Pending, but all ranks call result() together."""

    def __init__(self, job_, pending, request_id):
        self._job, self._pending, self._version = job_, pending, None
        self.request_id = job_.tell(request_id)

    def result(self, timeout=None):
        """Waits for the version, at all ranks."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._version is None:
            self._version, error, again = self._job.tell(self._turn(deadline))
            if error is not None and not again:
                raise error
        return self._version

    def _turn(self, deadline):
        """(version, error, whether there is time left): no rank waits for longer than its group's timeout without a word."""
        if self._pending is None:
            return None
        deadline = self._pending.deadline if deadline is None else deadline
        try:
            return self._pending.result(min(self._job.turn, deadline - time.monotonic())), None, False
        except Exception as failure:  # pylint: disable=broad-except
            again = isinstance(failure, _libbaton.DeadlineExceeded) and time.monotonic() < deadline
            return None, portable(failure), again

    def wait(self, timeout=None):
        """The same as result()."""
        return self.result(timeout)

    def progress(self):
        """How far it is, at the first rank; None at the others."""
        return self._pending and self._pending.progress()

    def cancel(self):
        """At the first rank: asks the agent to give up; elsewhere it does nothing."""
        if self._pending is not None:
            self._pending.cancel()

    def close(self):
        """Frees the connection."""
        if self._pending is not None:
            self._pending.close()
