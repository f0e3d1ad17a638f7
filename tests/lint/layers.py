"""Who may include whom, and what a core may link.

A part may include itself and what its row names. The rows are design 2, "Order of the folders"; nothing points back.
"""

import pathlib
import re
import subprocess

BASE = "api/base"
WIRE = "api/wire"
RPC = "api/rpc"
CONFIG = "api/config"
HTTP = "api/http"
METRICS = "api/metrics"
WEB = "api/web"
CLIENT = "api/client"
MODEL = "transport/model"
LAYOUT = "transport/layout"
LAYOUT_FILE = "transport/layout_file"
TRANSPORT = "transport"
DELTA = "transport/delta"
QUANT = "transport/quant"
CUDA = "transport/cuda"
IPC = "transport/ipc"
NCCL = "transport/nccl"
CAPABILITY = "transport/capability"
P2P = "transport/p2p"

# Longest prefix wins.
MAY_INCLUDE = {
    BASE: [],
    WIRE: [BASE],
    RPC: [BASE, WIRE],
    CONFIG: [BASE],
    HTTP: [BASE],
    WEB: [BASE],
    METRICS: [BASE, WEB],
    CLIENT: [BASE],
    TRANSPORT: [BASE, MODEL],
    MODEL: [BASE],
    LAYOUT: [BASE, MODEL],
    DELTA: [BASE, MODEL],
    QUANT: [],
    # Boxes are made from a plan's copies.
    CUDA: [BASE, MODEL, LAYOUT],
    # Plug-ins: nothing of Baton includes them.
    IPC: [BASE, TRANSPORT, CUDA],
    NCCL: [BASE, TRANSPORT, CUDA],
    LAYOUT_FILE: [BASE, CONFIG, MODEL, LAYOUT],
    CAPABILITY: [BASE, MODEL],
    P2P: [BASE, MODEL, TRANSPORT, CAPABILITY],
    "controller/core": [BASE, MODEL],
    "controller/store": [BASE, MODEL, "controller/core"],
    "controller/dashboard": [BASE, WEB, WIRE, RPC],
    "controller/shell": [
        BASE, CONFIG, HTTP, METRICS, WIRE, RPC, MODEL, CAPABILITY, "controller/core", "controller/store", "controller/dashboard",
    ],
    # The store: to back it up, restore and check it where no controller runs. Engines: to check one before any agent runs.
    "controller/cli": [
        BASE, CONFIG, HTTP, WIRE, RPC, CLIENT, MODEL, LAYOUT, LAYOUT_FILE, DELTA, "controller/store", "agent/engine",
    ],
    "agent/core": [BASE, MODEL],
    "agent/engine": [BASE, HTTP, MODEL],
    "agent/shell": [BASE, CONFIG, HTTP, METRICS, WIRE, RPC, CLIENT, TRANSPORT, MODEL, CAPABILITY, P2P, "agent/core", "agent/engine"],
}

# Foreign libraries, each in one folder (tests aside).
FOREIGN = {
    "grpc/": [RPC],
    "protobuf-c/": [WIRE],
    "sqlite3.h": ["controller/store"],
    "curl/": [HTTP, "controller/store"],
    "microhttpd.h": [WEB],
    "cyaml/": [CONFIG],
    "yaml.h": [CONFIG],
    "openssl/": [RPC, "controller/cli", CAPABILITY, P2P, "agent/engine"],
    "zstd.h": [DELTA],
    "zlib.h": [DELTA],
    "cuda": ["transport/"],
    "nccl": ["transport/"],
}

# Clock, log and the kernel's randomness are base, but not for cores.
IMPURE_BASE = {"api/base/clock.h", "api/base/log.h", "api/base/mailbox.h"}

PURE_SYMBOLS = re.compile(
    r"^(mem(cpy|set|move|cmp|chr)|str(len|nlen|cmp|ncmp|chr|rchr)|v?snprintf|bsearch"
    r"|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__(mem|str)\w+_chk|__v?snprintf_chk"
    r"|baton_(status|assert|ok|code|reason|bytes|read|write|writer|reader|hex|text|crc32c|arena|backoff|random_(seed|u64|below))\w*"
    r"|(digest|manifest|tensor|version_digester|chunk_digester)\w*)$"
)

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def part_of(path):
    """The row of MAY_INCLUDE that a file belongs to, or None."""
    rows = [row for row in MAY_INCLUDE if path == row or path.startswith(row + "/")]
    return max(rows, key=len) if rows else None


def is_generated(name):
    return name.endswith(".pb-c.h")


def check_ours(path, part, name):
    target = part_of(name)
    if target is None:
        return [f"{path}: includes {name}, which belongs to no part"]
    if target != part and target not in MAY_INCLUDE[part]:
        allowed = ", ".join(MAY_INCLUDE[part]) or "nothing else"
        return [f"{path}: {part} must not include {target} ({name}); it may include {allowed}"]
    if (part.endswith("/core") or part == LAYOUT) and name in IMPURE_BASE:
        return [f"{path}: a core must not include {name}"]
    return []


def check_foreign(path, name):
    for prefix, homes in FOREIGN.items():
        if name.startswith(prefix) and not any(path.startswith(home) for home in homes):
            return [f"{path}: {name} may be included only in {', '.join(homes)}"]
    return []


def check_includes(root, files):
    """Faults of the includes of our C files outside tests."""
    faults = []
    for path in files:
        part = part_of(path)
        if part is None or not path.endswith((".c", ".h", ".cu")):
            continue
        text = (root / path).read_text(encoding="utf-8")
        for quote, name in INCLUDE.findall(text):
            if quote == '"' and "/" in name and not is_generated(name) and not name.startswith("baton/"):
                faults += check_ours(path, part, name)
            else:
                faults += check_foreign(path, name)
    return faults


def symbols(archive, flag):
    out = subprocess.run(["nm", flag, str(archive)], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in out.splitlines() if len(line.split()) >= 2}


def check_symbols(build):
    """Faults of what the cores' archives leave undefined; needs a plain (not sanitized) build."""
    faults = []
    cores = ["controller/core/libcontroller_core.a", "agent/core/libagent_core.a", "transport/libbaton_layout.a"]
    archives = [pathlib.Path(build) / core for core in cores]
    for archive in archives:
        if not archive.exists():
            faults.append(f"{archive.name}: not built, so its symbols cannot be checked")
            continue
        for name in sorted(symbols(archive, "-u") - symbols(archive, "--defined-only")):
            if not PURE_SYMBOLS.match(name):
                faults.append(f"{archive.name}: a core must not call {name}")
    return faults
