"""Tensors of torch, numpy, memoryview and (dtype, shape, bytes) as name, dtype, shape and memory.  Imports no library.  Private."""

import ctypes

from . import _gpu, _libbaton

# By the name that torch and numpy (with ml_dtypes) give.
DTYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2": "F8_E5M2",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}

# By the format of a memoryview.
_FORMATS = {
    "?": "BOOL",
    "b": "I8",
    "B": "U8",
    "h": "I16",
    "H": "U16",
    "i": "I32",
    "I": "U32",
    "q": "I64",
    "Q": "U64",
    "e": "F16",
    "f": "F32",
    "d": "F64",
}


def is_torch(value):
    """True for torch.Tensor and torch.nn.Parameter."""
    return hasattr(value, "data_ptr") and hasattr(value, "element_size")


def _is_numpy(value):
    return hasattr(value, "__array_interface__") and hasattr(value, "tobytes")


def _refuse(name, what):
    return _libbaton.InvalidArgument(3, "INVALID_ARGUMENT", "BAD_FIELD", f"tensor '{name}': {what}", "")


def _dtype(name, dtype):
    key = str(dtype).rpartition(".")[2]
    if key not in DTYPES:
        raise _refuse(name, f"dtype {dtype} has no safetensors name")
    return DTYPES[key]


def check_dense(name, value):
    """Refuses what has no memory of its own to copy from."""
    if not is_torch(value):
        raise _refuse(name, f"a {type(value).__name__} is no tensor of torch")
    if is_sharded(value):
        raise _refuse(name, "it is sharded (DTensor); publish from all ranks, or gather the state dict first (full_state_dict=True)")
    if str(value.device) == "meta" or str(value.layout) != "torch.strided" or value.is_quantized:
        raise _refuse(name, f"device {value.device}, layout {value.layout}: only dense tensors with memory")


def _torch_cast(name, tensor, cast):
    check_dense(name, tensor)
    tensor = tensor.detach()
    if cast is not None and tensor.is_floating_point():
        tensor = tensor.to(dtype=cast)
    return tensor.resolve_conj().resolve_neg()


def torch_ready(name, tensor, cast):
    """A dense copy on the CPU, or the tensor itself where it is one already."""
    return _torch_cast(name, tensor, cast).cpu().contiguous()


def _numpy_ready(name, array, cast):
    if cast is not None:
        raise _refuse(name, "dtype= is for torch tensors; cast the array before")
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return array if array.flags["C_CONTIGUOUS"] else array.copy(order="C")


class Prepared:
    """A tensor whose memory stays alive as long as this object does.

    One of a GPU is only begun to be copied: ready() waits for it."""

    def __init__(self, name, value, cast=None):
        self.name = name
        self._fetch = None
        if is_torch(value):
            value = _torch_cast(name, value, cast)
            self._fetch = _gpu.fetch(value)
            if self._fetch is None:
                self._take_torch(value.cpu().contiguous())
        elif _is_numpy(value):
            self._take_numpy(_numpy_ready(name, value, cast))
        elif isinstance(value, memoryview):
            self._take_view(value)
        elif isinstance(value, tuple) and len(value) == 3:
            self._take_raw(*value)
        else:
            raise _refuse(name, f"a {type(value).__name__} is no tensor of torch or numpy, and no memoryview")

    def is_fetched(self):
        """Whether its memory is a copy that is only begun."""
        return self._fetch is not None

    def ready(self):
        """Itself, with its memory."""
        if self._fetch is not None:
            fetched, self._fetch = self._fetch, None
            self._take_torch(fetched.wait())
        return self

    def _take_torch(self, value):
        self._keep = value
        self.data = value.data_ptr()
        self.bytes = value.numel() * value.element_size()
        self.dtype = _dtype(self.name, value.dtype)
        self.shape = tuple(value.shape)

    def _take_numpy(self, value):
        self._keep = value
        self.data = value.ctypes.data
        self.bytes = value.nbytes
        self.dtype = _dtype(self.name, value.dtype)
        self.shape = value.shape

    def _take_view(self, value):
        if value.format not in _FORMATS:
            raise _refuse(self.name, f"a memoryview of format '{value.format}' has no safetensors dtype")
        if value.readonly or not value.c_contiguous:
            self._take_raw(_FORMATS[value.format], value.shape, value.tobytes())
            return
        self._keep = (ctypes.c_char * value.nbytes).from_buffer(value.cast("B"))
        self.data = ctypes.addressof(self._keep)
        self.bytes, self.dtype, self.shape = value.nbytes, _FORMATS[value.format], tuple(value.shape)

    def _take_raw(self, dtype, shape, data):
        self._keep = bytes(data)
        self.data = ctypes.cast(ctypes.c_char_p(self._keep), ctypes.c_void_p).value
        self.bytes = len(self._keep)
        self.dtype = dtype
        self.shape = tuple(shape)

    def struct(self):
        """struct baton_tensor over this memory."""
        shape = (ctypes.c_uint64 * max(1, len(self.shape)))(*self.shape)
        out = _libbaton.new(_libbaton.Tensor)
        out.rank = len(self.shape)
        out.name = self.name.encode()
        out.dtype = self.dtype.encode()
        out.shape = shape
        out.data = self.data if self.bytes else None
        out.bytes = self.bytes
        return out


def prepared(pairs, cast=None):
    """Names and tensors as Prepared, in order: one of a GPU is fetched while the caller has the one before.

    The next pair is asked for when nothing reads this one's memory any more: a source may use a buffer again."""
    fetched = None
    for name, value in pairs:
        begun = Prepared(name, value, cast)
        if fetched is not None:
            yield fetched
        fetched = None
        if begun.is_fetched():
            fetched = begun.ready()
        else:
            yield begun
    if fetched is not None:
        yield fetched


def bytes_of(value, cast=None):
    """Bytes that a value will take; 0 for what is no tensor."""
    if is_torch(value):
        size = value.element_size()
        if cast is not None and value.is_floating_point():
            size = cast.itemsize
        return value.numel() * size
    return len(value[2]) if isinstance(value, tuple) and len(value) == 3 else getattr(value, "nbytes", 0)


def is_sharded(value):
    """True for a DTensor."""
    return hasattr(value, "full_tensor")


def _has_memory(value):
    return is_torch(value) and value.numel() > 0 and str(value.layout) == "torch.strided" and str(value.device) != "meta"


def memory_of(value):
    """What is equal for tensors that are the same memory with the same content; None where there is none, or it cannot be told.

    It knows its storage by a weak reference: a tensor that came to lie where another was freed is another one."""
    local = value.to_local() if is_sharded(value) else value
    if not _has_memory(local):
        return None
    from torch.multiprocessing.reductions import StorageWeakRef

    changes = None if local.is_inference() else local._version  # Of a buffer that was filled anew the tensor before is not this one.
    return StorageWeakRef(local.untyped_storage()), local.data_ptr(), tuple(value.shape), local.stride(), str(local.dtype), changes
