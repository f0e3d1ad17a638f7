"""Why a call on the weight-transfer engine was refused: a value that is reported, never a crash."""

FENCED = "FENCED"
BAD_REQUEST = "BAD_REQUEST"
LANDING_UNREADABLE = "LANDING_UNREADABLE"
DIGEST_MISMATCH = "DIGEST_MISMATCH"
MISSING_TENSOR = "MISSING_TENSOR"
UNEXPECTED_TENSOR = "UNEXPECTED_TENSOR"
SHAPE_MISMATCH = "SHAPE_MISMATCH"
DTYPE_MISMATCH = "DTYPE_MISMATCH"
PEER_FAILED = "PEER_FAILED"
LOAD_FAILED = "LOAD_FAILED"
VERIFY_FAILED = "VERIFY_FAILED"
RESTORE_FAILED = "RESTORE_FAILED"
INTERNAL = "INTERNAL"

_LONGEST = 500


class Refusal(Exception):
    """Carries one of the codes above, a sentence, and the tensor it is about (or None)."""

    def __init__(self, code, message, tensor=None):
        super().__init__(message)
        self.code = code
        self.tensor = tensor

    def record(self, rank):
        """The error object of a report."""
        return {
            "code": self.code,
            "message": str(self)[:_LONGEST],
            "tensor": self.tensor,
            "rank": rank,
        }


def of(error, code):
    """A Refusal for any exception; `code` names those that are not one already."""
    if isinstance(error, Refusal):
        return error
    return Refusal(code, f"{type(error).__name__}: {error}")
