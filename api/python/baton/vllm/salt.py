"""Each version's requests get a cache salt of their own, so KV of another version is never matched.

Policy "kv: salt" (deploy/docs/swap.md).  The request's own salt is kept behind it."""

import json

LARGEST = 64 << 20
# They make no KV.
_WITHOUT = {"/tokenize", "/detokenize"}


def applies(scope, path):
    return scope["type"] == "http" and scope.get("method") == "POST" and path not in _WITHOUT


async def _read(receive):
    """The whole body; None if the client left."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST:
            raise ValueError(f"a body of more than {LARGEST} bytes cannot get its cache salt")
        more = message.get("more_body", False)
    return b"".join(parts)


def salted(body, version):
    """The body with the version's salt.  ValueError: it is no JSON object."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise ValueError("the body must be a JSON object: it gets the cache salt of the version")
    own = request.get("cache_salt")
    request["cache_salt"] = f"baton-{version}.{own}" if own else f"baton-{version}"
    return json.dumps(request).encode()


async def add(scope, receive, version):
    """(scope, receive) of the same request with the salt in its body.  ValueError: it cannot be."""
    body = await _read(receive)
    if body is None:

        async def gone():
            return {"type": "http.disconnect"}

        return scope, gone
    text = salted(body, version)
    fixed = [(k, v) for k, v in scope["headers"] if k not in (b"content-length", b"transfer-encoding")]
    scope = {**scope, "headers": [*fixed, (b"content-length", b"%d" % len(text))]}
    sent = False

    async def salted_receive():
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": text, "more_body": False}

    return scope, salted_receive
