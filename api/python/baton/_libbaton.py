"""ctypes binding of libbaton (api/client/baton.h): structs, functions, errors.  Private to the package.

The library is looked for in: the file or folder that BATON_LIB names, this package's folder, build folders of the
source tree that this file lies in, and where the system's loader looks.
"""

import ctypes
import ctypes.util
import os
import pathlib

ABI_MAJOR = 1

_FILE_NAMES = ("libbaton.so.1", "libbaton.so")


class Error(ctypes.Structure):
    """struct baton_error."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("code", ctypes.c_int32),
        ("reason", ctypes.c_char * 32),
        ("message", ctypes.c_char * 320),
        ("hint", ctypes.c_char * 184),
    ]


class Published(ctypes.Structure):
    """struct baton_published."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("repeated", ctypes.c_uint32),
        ("model", ctypes.c_char * 64),
        ("seq", ctypes.c_uint64),
        ("uid", ctypes.c_char * 33),
        ("digest", ctypes.c_char * 33),
        ("bytes", ctypes.c_uint64),
        ("tensors", ctypes.c_uint64),
        ("files", ctypes.c_uint64),
        ("bytes_carried", ctypes.c_uint64),
        ("directory", ctypes.c_char * 512),
    ]


class Progress(ctypes.Structure):
    """struct baton_progress."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("phase", ctypes.c_uint32),
        ("bytes_done", ctypes.c_uint64),
        ("bytes_total", ctypes.c_uint64),
        ("bytes_per_s", ctypes.c_uint64),
        ("remaining_ms", ctypes.c_uint64),
        ("elapsed_ms", ctypes.c_uint64),
        ("phase_name", ctypes.c_char_p),
        ("detail", ctypes.c_char_p),
    ]


class Options(ctypes.Structure):
    """struct baton_publish_options."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("partial", ctypes.c_uint32),
        ("model", ctypes.c_char_p),
        ("request_id", ctypes.c_char_p),
        ("optimizer_step", ctypes.c_uint64),
        ("rollout_iteration", ctypes.c_uint64),
        ("samples_trained", ctypes.c_uint64),
        ("parent_seq", ctypes.c_uint64),
        ("bytes_expected", ctypes.c_uint64),
        ("reason", ctypes.c_char_p),
        ("timeout_ms", ctypes.c_uint64),
        ("inline_bytes", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("progress", ctypes.c_void_p),  # Not used: Python waits in small steps.
        ("context", ctypes.c_void_p),
    ]


class Tensor(ctypes.Structure):
    """struct baton_tensor."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_uint64)),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
    ]


class AgentInfo(ctypes.Structure):
    """struct baton_agent_info."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("connected", ctypes.c_uint32),
        ("name", ctypes.c_char * 64),
        ("version", ctypes.c_char * 32),
        ("controller", ctypes.c_char * 256),
        ("directory", ctypes.c_char * 512),
        ("publishing", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class BatonError(Exception):
    """A call was refused or failed.

    ``code`` is gRPC's number and ``code_name`` its name; ``reason`` is for programs ("CHECKPOINT_INVALID"); ``hint``
    says what to do next and may be empty.  Subclasses name the codes that callers tell apart.
    """

    def __init__(self, code, code_name, reason, message, hint):
        super().__init__(message + (f" ({hint})" if hint else ""))
        self.code = code
        self.code_name = code_name
        self.reason = reason
        self.message = message
        self.hint = hint

    def __reduce__(self):
        """A rank tells the others."""
        return type(self), (self.code, self.code_name, self.reason, self.message, self.hint)


class Cancelled(BatonError):
    """The publish was given up."""


class InvalidArgument(BatonError):
    """What was given is wrong: a name, a shape, a checkpoint."""


class DeadlineExceeded(BatonError, TimeoutError):
    """Time ran out."""


class NotFound(BatonError):
    """The model, the parent version or the directory is not there."""


class ResourceExhausted(BatonError):
    """A disk, a memory or a table is full."""


class FailedPrecondition(BatonError):
    """Somebody must act before the same call can work."""


class Unavailable(BatonError, ConnectionError):
    """The agent or the controller is away; the same call with the same request id may be repeated."""


_BY_CODE = {
    1: Cancelled,
    3: InvalidArgument,
    4: DeadlineExceeded,
    5: NotFound,
    8: ResourceExhausted,
    9: FailedPrecondition,
    14: Unavailable,
}

_P = ctypes.POINTER
_VOID = ctypes.c_void_p
_TEXT = ctypes.c_char_p
_U64 = ctypes.c_uint64

_SIGNATURES = {
    "baton_abi_version": (ctypes.c_uint32, []),
    "baton_strerror": (_TEXT, [ctypes.c_int]),
    "baton_connect": (ctypes.c_int, [_TEXT, _U64, _P(_VOID), _P(Error)]),
    "baton_close": (None, [_VOID]),
    "baton_get_agent_info": (ctypes.c_int, [_VOID, _U64, _P(AgentInfo), _P(Error)]),
    "baton_publish_directory_start": (ctypes.c_int, [_VOID, _P(Options), _TEXT, _P(_VOID), _P(Error)]),
    "baton_publish_begin": (ctypes.c_int, [_VOID, _P(Options), _P(_VOID), _P(Error)]),
    "baton_publish_tensor": (ctypes.c_int, [_VOID, _P(Tensor), _P(Error)]),
    "baton_publish_file": (ctypes.c_int, [_VOID, _TEXT, _TEXT, _U64, _P(Error)]),
    "baton_publish_send": (ctypes.c_int, [_VOID, _P(Error)]),
    "baton_publish_wait": (ctypes.c_int, [_VOID, _U64, _P(Published), _P(Error)]),
    "baton_publish_get_progress": (None, [_VOID, _P(Progress)]),
    "baton_publish_cancel": (ctypes.c_int, [_VOID, _P(Error)]),
    "baton_publish_end": (None, [_VOID]),
}


def _in_folder(folder):
    return [folder / name for name in _FILE_NAMES]


def candidates():
    """Where the library may be, best first."""
    given = os.environ.get("BATON_LIB")
    if given:
        path = pathlib.Path(given)
        return _in_folder(path) if path.is_dir() else [path]
    package = pathlib.Path(__file__).resolve().parent
    found = _in_folder(package)
    tree = package.parents[2]
    if (tree / "api" / "client" / "baton.h").exists():
        for build in sorted(tree.glob("build*")):
            found += _in_folder(build / "api" / "client")
    return found


def _open():
    tried = candidates()
    for path in tried:
        if path.exists():
            return ctypes.CDLL(str(path), use_errno=False)
    name = None if os.environ.get("BATON_LIB") else ctypes.util.find_library("baton")
    if name:
        return ctypes.CDLL(name)
    raise ImportError(
        "libbaton.so was not found; build it (cmake --build build --target baton_shared) or set BATON_LIB to the file. "
        f"Looked at: {', '.join(map(str, tried))}"
    )


def load():
    """The library with its signatures; loaded once."""
    if load.library is None:
        library = _open()
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
        major = library.baton_abi_version() >> 16
        if major != ABI_MAJOR:
            raise ImportError(f"libbaton has ABI {major}, this package needs {ABI_MAJOR}: use the same release of both")
        load.library = library
    return load.library


load.library = None


def new(struct):
    """A zeroed struct that knows its size."""
    return struct(size=ctypes.sizeof(struct))


def exception(code, code_name, reason, message, hint=""):
    """The exception for a code of gRPC."""
    return _BY_CODE.get(code, BatonError)(code, code_name, reason, message, hint)


def error_of(error):
    """The exception for a filled struct baton_error."""
    name = load().baton_strerror(error.code).decode()
    return exception(error.code, name, *[part.decode("utf-8", "replace") for part in (error.reason, error.message, error.hint)])


def call(function, *arguments):
    """Calls a function whose last parameter is the error; raises what it says."""
    error = new(Error)
    if getattr(load(), function)(*arguments, ctypes.byref(error)) != 0:
        raise error_of(error)
