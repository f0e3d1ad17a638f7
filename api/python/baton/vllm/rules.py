"""What a guard decides about a path and its headers.  No I/O."""

import re

ALWAYS, GENERATION, STATE, CONTROL = "always", "generation", "state", "control"

_ALWAYS = {"/health", "/ping", "/metrics", "/metrics/", "/version", "/v1/models", "/load"}
_GENERATION = {
    "/generate", "/tokenize", "/detokenize", "/invocations", "/pooling", "/classify", "/score",
    "/rerank", "/embeddings",
}  # fmt: skip
_GENERATION_BELOW = ("/v1/", "/inference/")
# Below /v1/, yet they change what is served.
_CONTROL = {"/v1/load_lora_adapter", "/v1/unload_lora_adapter"}
_STATE = "/baton/guard"

TOKEN = b"x-baton-token"
MIN_VERSION = b"x-baton-min-version"
EXACT_VERSION = b"x-baton-exact-version"
VERSION = b"x-baton-version"
VERSION_END = b"x-baton-version-end"

_DECIMAL = re.compile(rb"[0-9]{1,20}")
_LARGEST = 2**64 - 1


def kind_of(path):
    """One of ALWAYS, GENERATION, STATE, CONTROL."""
    if path in _ALWAYS:
        return ALWAYS
    if path == _STATE:
        return STATE
    if path in _CONTROL:
        return CONTROL
    if path in _GENERATION or path.startswith(_GENERATION_BELOW):
        return GENERATION
    return CONTROL


def path_of(scope):
    """The path that the router behind will match: without the root path of a proxy."""
    path, root = scope["path"], scope.get("root_path", "")
    if root and (path == root or path.startswith(root + "/")):
        path = path[len(root) :]
    return path


def header(scope, name):
    """A header's value, or None.  Of a repeated header the first, as the engine reads it."""
    for key, value in scope.get("headers", ()):
        if key == name:
            return value
    return None


def wanted_versions(scope):
    """(min, exact), None where not asked for.  ValueError names the header that is no number."""
    found = []
    for name in (MIN_VERSION, EXACT_VERSION):
        text = header(scope, name)
        if text is None:
            found.append(None)
            continue
        if not _DECIMAL.fullmatch(text) or int(text) > _LARGEST:
            raise ValueError(f"header {name.decode()} must be an unsigned decimal number")
        found.append(int(text))
    return tuple(found)


def unmet(wanted, version):
    """Why a version does not satisfy a request, or None."""
    least, exact = wanted
    if least is not None and version < least:
        return f"this engine serves version {version}; the request needs at least {least}"
    if exact is not None and version != exact:
        return f"this engine serves version {version}; the request needs exactly {exact}"
    return None
