"""A gRPC client that knows no proto of Baton: it learns all from the server by reflection."""

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

TIMEOUT_S = 30
FIELD = descriptor_pb2.FieldDescriptorProto


def _message(file, name, fields):
    """Adds a message; a field is (name, number, type, label, type name)."""
    message = file.message_type.add(name=name)
    for field_name, number, kind, label, type_name in fields:
        message.field.add(name=field_name, number=number, type=kind, label=label, type_name=type_name or None)


def _reflection_classes():
    """The few messages of the reflection protocol that are needed, so that no generated code is."""
    text, data, inner = FIELD.TYPE_STRING, FIELD.TYPE_BYTES, FIELD.TYPE_MESSAGE
    one, many = FIELD.LABEL_OPTIONAL, FIELD.LABEL_REPEATED
    file = descriptor_pb2.FileDescriptorProto(name="peer/reflection.proto", package="peer", syntax="proto2")
    _message(file, "Request", [("file", 3, text, one, ""), ("symbol", 4, text, one, ""), ("list", 7, text, one, "")])
    _message(file, "Files", [("files", 1, data, many, "")])
    _message(file, "Service", [("name", 1, text, one, "")])
    _message(file, "Services", [("services", 1, inner, many, ".peer.Service")])
    _message(file, "Error", [("code", 1, FIELD.TYPE_INT32, one, ""), ("message", 2, text, one, "")])
    _message(file, "Response", [
        ("files", 4, inner, one, ".peer.Files"),
        ("services", 6, inner, one, ".peer.Services"),
        ("error", 7, inner, one, ".peer.Error"),
    ])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return [factory.GetPrototype(pool.FindMessageTypeByName(f"peer.{name}")) for name in ("Request", "Response")]


REQUEST, RESPONSE = _reflection_classes()


class Reflected:
    """A server, its services and their messages."""

    def __init__(self, target, version="v1"):
        self.channel = grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)])
        self.info = self.channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=REQUEST.SerializeToString,
            response_deserializer=RESPONSE.FromString,
        )
        self.pool = descriptor_pool.DescriptorPool()
        self.factory = message_factory.MessageFactory(self.pool)
        self.known = set()

    def ask(self, **question):
        """One question on a stream of its own, which must end well."""
        answers = list(self.info(iter([REQUEST(**question)]), timeout=TIMEOUT_S))
        assert len(answers) == 1, f"{question}: {len(answers)} answers"
        return answers[0]

    def services(self):
        return sorted(service.name for service in self.ask(list="*").services.services)

    def _add(self, answer, question):
        assert not answer.HasField("error"), f"{question}: {answer.error.message}"
        for data in answer.files.files:
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            if file.name in self.known:
                continue
            self.known.add(file.name)
            for name in file.dependency:
                self._add(self.ask(file=name), name)
            self.pool.Add(file)

    def load(self, symbol):
        self._add(self.ask(symbol=symbol), symbol)

    def service(self, name):
        self.load(name)
        return self.pool.FindServiceByName(name)

    def message(self, name):
        self.load(name)
        return self.factory.GetPrototype(self.pool.FindMessageTypeByName(name))

    def shapes(self, service):
        """Per method of a service whether client and server stream; from the file, as the pool's classes do not say."""
        file = descriptor_pb2.FileDescriptorProto()
        self.service(service).file.CopyToProto(file)
        found = [s for s in file.service if f"{file.package}.{s.name}" == service]
        return {m.name: (m.client_streaming, m.server_streaming) for m in found[0].method}

    def method(self, full_name):
        """A callable for "package.Service/Method", and the classes of its messages."""
        service, name = full_name.split("/")
        method = self.service(service).methods_by_name[name]
        client_streams, server_streams = self.shapes(service)[name]
        request = self.factory.GetPrototype(method.input_type)
        response = self.factory.GetPrototype(method.output_type)
        shape = ("stream" if client_streams else "unary") + "_" + ("stream" if server_streams else "unary")
        call = getattr(self.channel, shape)(
            "/" + full_name, request_serializer=request.SerializeToString, response_deserializer=response.FromString
        )
        return call, request, response
