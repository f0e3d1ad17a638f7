"""Conformance of api/rpc as gRPC's own Python client sees it, without generated code.

usage: rpc_peer.py --serve PROGRAM   starts the test server and checks every behaviour
       rpc_peer.py TARGET            any Baton daemon: lists its services and calls each method once
"""

import subprocess
import sys

import grpc
from rpc_reflect import TIMEOUT_S, Reflected

# Codes that a well-made daemon never gives to an empty request.
NEVER = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.DATA_LOSS}


def equal(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: {got!r}, not {wanted!r}")


def failure(call, *args, **options):
    """The error of a call that must fail."""
    try:
        result = call(*args, timeout=TIMEOUT_S, **options)
        if hasattr(result, "__next__"):
            list(result)
    except grpc.RpcError as error:
        return error
    raise AssertionError("the call did not fail")


def details_of(server, error):
    """What grpc-status-details-bin holds: {short type name: message}."""
    trailers = dict(error.trailing_metadata())
    status = server.message("google.rpc.Status").FromString(trailers["grpc-status-details-bin"])
    equal(status.code, error.code().value[0], "the code in the details")
    found = {}
    for detail in status.details:
        name = detail.type_url.split("/")[1]
        found[name.split(".")[-1]] = server.message(name).FromString(detail.value)
    return found


def check_reflection(server, target):
    wanted = ["baton.v1.AgentSession", "baton.v1.Fleet", "baton.v1.Models", "baton.v1.Versions", "grpc.health.v1.Health",
              "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"]
    equal(server.services(), wanted, "services")
    equal(Reflected(target, "v1alpha").services(), wanted, "services by v1alpha")
    equal(Reflected(target, "v1alpha").shapes("baton.v1.AgentSession"), {"Session": (True, True)}, "streaming flags")
    equal(server.ask(symbol="baton.v1.Nothing").error.code, grpc.StatusCode.NOT_FOUND.value[0], "an unknown symbol")
    equal(server.ask(file="nothing.proto").error.code, grpc.StatusCode.NOT_FOUND.value[0], "an unknown file")


def check_health(server):
    check, request, _ = server.method("grpc.health.v1.Health/Check")
    for service in ("", "baton.v1.Models"):
        equal(check(request(service=service), timeout=TIMEOUT_S).status, 1, f"health of '{service}'")
    equal(failure(check, request(service="no")).code(), grpc.StatusCode.NOT_FOUND, "health of an unknown service")
    watch, request, _ = server.method("grpc.health.v1.Health/Watch")
    stream = watch(request(service="no"), timeout=TIMEOUT_S)
    equal(next(stream).status, 3, "watched health of an unknown service")
    stream.cancel()


def check_unary(server):
    get, request, _ = server.method("baton.v1.Models/Get")
    equal(get(request(name="größe"), timeout=TIMEOUT_S).meta.name, "größe", "a name")
    equal(get(request(name="zip"), timeout=TIMEOUT_S, compression=grpc.Compression.Gzip).meta.name, "zip", "gzip")
    reply = get(request(name="id"), timeout=TIMEOUT_S, metadata=[("x-baton-request-id", "r-1")])
    equal(reply.meta.name, "r-1", "the request id")
    bomb = failure(get, request(name="0" * (8 << 20)), compression=grpc.Compression.Gzip)
    equal(bomb.code(), grpc.StatusCode.RESOURCE_EXHAUSTED, "a compressed message above the limit")


def check_errors(server):
    get, request, _ = server.method("baton.v1.Models/Get")
    error = failure(get, request(name="held"))
    equal((error.code(), error.details()), (grpc.StatusCode.FAILED_PRECONDITION, "model m is held"), "code and message")
    details = details_of(server, error)
    equal((details["ErrorInfo"].reason, details["ErrorInfo"].domain), ("HELD", "baton"), "ErrorInfo")
    violation = details["PreconditionFailure"].violations[0]
    equal((violation.type, violation.subject), ("HELD", "model/m"), "PreconditionFailure")
    equal(details["RetryInfo"].retry_delay.ToMilliseconds(), 1500, "RetryInfo")
    equal(details["Help"].links[0].description, "resume it", "Help")
    details = details_of(server, failure(get, request(name="field")))
    violation = details["BadRequest"].field_violations[0]
    equal((violation.field, violation.description), ("update.maxUnavailable", "must be above 0"), "BadRequest")
    equal(failure(server.channel.unary_unary("/baton.v1.Models/No"), b"").code(), grpc.StatusCode.UNIMPLEMENTED, "no method")


def check_bad_bytes(server):
    """Requests that no well-made client sends: refused with the field's name, and the server lives on."""
    raw = server.channel.unary_unary("/baton.v1.Models/Get")
    for name, data, part in [
        ("bad UTF-8", b"\x0a\x01\xff", "name: "),
        ("zero byte", b"\x0a\x03a\0b", "name: "),
        ("wrong wire type", b"\x08\x01", "name: "),
        ("cut", b"\x0a\x05a", "GetModelRequest"),
        ("group", b"\x0b\x0c", "GetModelRequest"),
    ]:
        error = failure(raw, data)
        equal(error.code(), grpc.StatusCode.INVALID_ARGUMENT, name)
        assert part in error.details(), f"{name}: {error.details()}"


def check_streams(server):
    events, request, _ = server.method("baton.v1.Fleet/Events")
    numbers = [event.number for event in events(request(after=500), timeout=TIMEOUT_S)]
    equal(numbers, list(range(1, 501)), "a server stream")
    parts, request, _ = server.method("baton.v1.Versions/AddManifestPart")
    reply = parts((request(version_uid="v", part=bytes(100000)) for _ in range(20)), timeout=TIMEOUT_S)
    equal(reply.parts, 20, "a client stream")
    error = failure(parts, iter([request(version_uid="refuse")]))
    equal(error.code(), grpc.StatusCode.INVALID_ARGUMENT, "a refused client stream")
    session, request, _ = server.method("baton.v1.AgentSession/Session")
    replies = list(session((request(hello={"agent": "a"}) for _ in range(50)), timeout=TIMEOUT_S))
    equal([reply.WhichOneof("message") for reply in replies], ["welcome"] * 50, "a bidi stream")
    error = failure(session, iter([request(report={})]))
    equal(error.code(), grpc.StatusCode.ABORTED, "a session that the server ends")


def check_slow_reader(server):
    """The server sends more than its queue holds before anything is read, and must cut us."""
    events, request, _ = server.method("baton.v1.Fleet/Events")
    stream = events(request(object="flood"), timeout=TIMEOUT_S)
    try:
        list(stream)
    except grpc.RpcError as error:
        equal(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED, "a reader that is too slow")
        return
    raise AssertionError("a flood without end was delivered")


def check_all(target):
    server = Reflected(target)
    check_reflection(server, target)
    for check in (check_health, check_unary, check_errors, check_bad_bytes, check_streams, check_slow_reader):
        check(server)
        print(f"ok - {check.__name__}")


def call_once(server, service, name, shape):
    """Calls a method with one empty request; gives its code."""
    call, request, _ = server.method(f"{service}/{name}")
    argument = iter([request()]) if shape[0] else request()
    try:
        result = call(argument, timeout=2)
        if shape[1]:
            next(result, None)
            result.cancel()
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def call_everything(target):
    server = Reflected(target)
    faults = 0
    for service in server.services():
        for name, shape in sorted(server.shapes(service).items()):
            code = call_once(server, service, name, shape)
            is_fault = code in NEVER and not service.startswith("grpc.")
            faults += is_fault
            print(f"{'not ok' if is_fault else 'ok'} - {service}/{name}: {code.name}")
    return faults


def serve(program):
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        target = f"127.0.0.1:{int(process.stdout.readline())}"
        check_all(target)
        process.stdin.close()
        equal(process.wait(timeout=20), 0, "the server's exit code")


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--serve":
        serve(arguments[1])
        return 0
    if len(arguments) == 1:
        return 1 if call_everything(arguments[0]) else 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
