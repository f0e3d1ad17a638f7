"""The order of the agents' calls: one made under a lower fence than was seen does nothing."""

from baton.vllm.refusal import BAD_REQUEST, FENCED, Refusal

FIELDS = ("generation", "n", "ownerTerm", "ticket", "step")
_LARGEST = 2**64 - 1


def parse(value):
    """A fence as a tuple.  Refusal: not five unsigned integers."""
    good = (
        isinstance(value, (list, tuple))
        and len(value) == len(FIELDS)
        and all(type(part) is int and 0 <= part <= _LARGEST for part in value)
    )
    if not good:
        names = ", ".join(FIELDS)
        raise Refusal(BAD_REQUEST, f"fence must be five unsigned integers ({names}), got {value!r}")
    return tuple(value)


class Fences:
    """Keeps the highest fence that was seen; None before the first."""

    def __init__(self):
        self.highest = None

    def admit(self, value):
        """Parse, raise the highest, and return the fence.  Refusal: FENCED or BAD_REQUEST."""
        fence = parse(value)
        if self.highest is not None and fence < self.highest:
            message = f"fence {list(fence)} is lower than {list(self.highest)}, seen before"
            raise Refusal(FENCED, message)
        self.highest = fence
        return fence
