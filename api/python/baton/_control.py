"""The controller's API over gRPC.  Its messages are learnt by reflection from the controller itself, so that this package has no generated
code that could differ from it.  Needs grpcio and protobuf.  Private to the package."""

import contextlib
import threading
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from . import _libbaton

DEFAULT_SERVER = "127.0.0.1:7070"
_SERVICE = "baton.v1.Admission"
_DETAILS = ("google.rpc.Status", "google.rpc.ErrorInfo", "google.rpc.RetryInfo")
_REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
# A controller that restarts is found again within a second.
_CHANNEL = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000), ("grpc.use_local_subchannel_pool", 1)]
_MESSAGES_MAX = 64  # Files of one reflection; a guard against a server that never ends.


def _classes(pool):
    """A function from the name of a message to its class, for old and new releases of protobuf."""
    if hasattr(message_factory, "GetMessageClass"):
        return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    factory = message_factory.MessageFactory(pool)
    return lambda name: factory.GetPrototype(pool.FindMessageTypeByName(name))


def _reflection_classes():
    """Request and response of gRPC's reflection, as far as they are needed."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="baton/python/reflection.proto", package="baton.python", syntax="proto2")
    for message, fields in (
        ("Request", [("file", 3, field.TYPE_STRING, ""), ("symbol", 4, field.TYPE_STRING, "")]),
        ("Files", [("files", 1, field.TYPE_BYTES, "")]),
        ("Response", [("files", 4, field.TYPE_MESSAGE, ".baton.python.Files")]),
    ):
        made = file.message_type.add(name=message)
        for name, number, kind, type_name in fields:
            label = field.LABEL_REPEATED if kind == field.TYPE_BYTES else field.LABEL_OPTIONAL
            made.field.add(name=name, number=number, type=kind, label=label, type_name=type_name or None)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return [_classes(pool)(f"baton.python.{name}") for name in ("Request", "Response")]


class _Schema:
    """Messages and methods of one controller."""

    def __init__(self, channel, timeout):
        request, response = _reflection_classes()
        self._ask = channel.stream_stream(_REFLECTION, request_serializer=request.SerializeToString, response_deserializer=response.FromString)
        self._request, self._timeout, self._known = request, timeout, set()
        self.pool = descriptor_pool.DescriptorPool()
        for symbol in (_SERVICE, *_DETAILS):
            self._load(symbol=symbol)
        self.message = _classes(self.pool)

    def _load(self, **question):
        for answer in self._ask(iter([self._request(**question)]), timeout=self._timeout):
            for raw in answer.files.files:
                self._add(raw)

    def _add(self, raw):
        file = descriptor_pb2.FileDescriptorProto.FromString(raw)
        if file.name in self._known:
            return
        if len(self._known) >= _MESSAGES_MAX:
            raise _libbaton.BatonError(13, "INTERNAL", "MALFORMED", "the server's reflection does not end", "is it a baton-controller?")
        self._known.add(file.name)
        for name in file.dependency:
            self._load(file=name)
        self.pool.AddSerializedFile(raw)


class _Server:
    """One address."""

    def __init__(self, address, credentials, metadata):
        self.address, self._metadata, self._methods = address, metadata, {}
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options=_CHANNEL)
        else:
            self._channel = grpc.secure_channel(address, credentials, options=_CHANNEL)
        self._schema = None

    def _method(self, name, timeout):
        if self._schema is None:
            self._schema = _Schema(self._channel, timeout)
        if name not in self._methods:
            method = self._schema.pool.FindServiceByName(_SERVICE).methods_by_name[name]
            request, response = (self._schema.message(kind.full_name) for kind in (method.input_type, method.output_type))
            call = self._channel.unary_unary(
                f"/{_SERVICE}/{name}", request_serializer=request.SerializeToString, response_deserializer=response.FromString
            )
            self._methods[name] = call, request
        return self._methods[name]

    def call(self, name, fields, timeout):
        try:
            method, request = self._method(name, timeout)
            return method(request(**fields), timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._translated(name, error) from None

    def _details(self, error):
        """{short name of a message: message} of what the server said beside its code."""
        trailers = dict(error.trailing_metadata() or ()) if hasattr(error, "trailing_metadata") else {}
        raw, found = trailers.get("grpc-status-details-bin"), {}
        if raw and self._schema is not None:
            for detail in self._schema.message("google.rpc.Status").FromString(raw).details:
                name = detail.type_url.rpartition("/")[2]
                with contextlib.suppress(KeyError):  # A detail that this client does not read.
                    found[name.rpartition(".")[2]] = self._schema.message(name).FromString(detail.value)
        return found

    def _translated(self, name, error):
        code, number = error.code().name, error.code().value[0]
        details = self._details(error)
        info, retry = details.get("ErrorInfo"), details.get("RetryInfo")
        hint = f"is a baton-controller there? (Rollout's server= or BATON_SERVER: {self.address})" if code == "UNAVAILABLE" and info is None else ""
        out = _libbaton.exception(number, code, info.reason if info else "", f"{name} at {self.address}: {error.details()}", hint)
        out.retry_after = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9 if retry else None
        return out

    def close(self):
        self._channel.close()


def _read(path):
    with open(path, "rb") as file:
        return file.read()


class Control:
    """A client of one controller, or of several of which one leads.  Any thread may call."""

    def __init__(self, server, ca=None, cert=None, key=None, token_file=None):
        if (cert is None) != (key is None):
            raise ValueError("cert and key are given together")
        if ca is None and (cert or token_file):
            raise ValueError("cert, key and token_file need ca: they are sent over TLS only")
        files = [None if path is None else _read(path) for path in (ca, key, cert)]
        credentials = grpc.ssl_channel_credentials(*files) if ca else None
        metadata = [("authorization", "Bearer " + _read(token_file).decode().strip())] if token_file else []
        self._servers = [_Server(address.strip(), credentials, metadata) for address in server.split(",") if address.strip()]
        if not self._servers:
            raise ValueError("server names no address")
        self._lock = threading.Lock()

    def call(self, name, timeout, **fields):
        """One call of Admission; asks the next address where one is away or does not lead."""
        deadline, servers = time.monotonic() + timeout, self._servers
        for at, server in enumerate(servers):
            share = (deadline - time.monotonic()) / (len(servers) - at)  # One that hangs leaves time for those after it.
            try:
                answer = server.call(name, fields, max(0.001, share))
            except (_libbaton.Unavailable, _libbaton.DeadlineExceeded) as error:
                last = error
                continue
            self._prefer(server)
            return answer
        raise last

    def _prefer(self, server):
        with self._lock:
            # Never changed in place: calls of other threads go through the list.
            self._servers = [server, *(other for other in self._servers if other is not server)]

    def close(self):
        """Ends all connections."""
        for server in self._servers:
            server.close()
