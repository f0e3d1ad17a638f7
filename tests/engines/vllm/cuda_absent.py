"""Make the CUDA libraries that PyTorch's shared objects name, for a machine that has none.

    cuda_absent.py TORCH_LIB_FOLDER

PyTorch's ordinary wheel does not even import without about fifteen CUDA libraries (6 GB installed).
A CPU-only process calls none of their functions for real: it asks whether there is a device.  For
each missing library this script builds one of a few kilobytes with the right soname and symbol
versions, whose functions answer 100, CUDA's "no device is detected" (functions that return text
answer a constant string).  Needs `cc` and `readelf`.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict

VENDOR = re.compile(r"lib(cu|nv|nccl)")
SYMBOL = re.compile(r"(cu|nv|nccl)")
NO_DEVICE = 100


def readelf(option, path):
    return subprocess.run(
        ["readelf", "--wide", option, path], check=True, capture_output=True, text=True
    ).stdout


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.+?)\]", readelf("-d", path))


def version_needs(path):
    """{version index: (soname, version name)} of one object's version-needs section."""
    found, soname = {}, None
    section = readelf("-V", path).partition(".gnu.version_r")[2]
    for line in section.splitlines():
        head = re.search(r"File: (\S+)\s+Cnt:", line)
        entry = re.search(r"Name: (\S+)\s+Flags: .*Version: (\d+)", line)
        if head:
            soname = head.group(1)
        elif entry:
            found[int(entry.group(2))] = (soname, entry.group(1))
    return found


def symbols(path):
    """(defined names, [(undefined name, version index or None)]) of one object."""
    defined, undefined = set(), []
    for line in readelf("--dyn-syms", path).splitlines():
        fields = line.split(None, 7)
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
            continue
        match = re.match(r"([^@\s]+)(?:@+\S+)?(?:\s+\((\d+)\))?", fields[7])
        if not match:
            continue
        if fields[6] == "UND":
            undefined.append((match.group(1), int(match.group(2)) if match.group(2) else None))
        else:
            defined.add(match.group(1))
    return defined, undefined


def objects(folder):
    return [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if ".so" in n]


def survey(folder):
    """{soname: {version name or None: set of symbols}} of everything that is missing."""
    wanted, defined, loose = defaultdict(lambda: defaultdict(set)), set(), set()
    present = set(os.listdir(folder))
    for path in objects(folder):
        for soname in needed(path):
            if VENDOR.match(soname) and soname not in present:
                wanted[soname]
        versions = version_needs(path)
        own, undefined = symbols(path)
        defined |= own
        for name, index in undefined:
            soname, version = versions.get(index, (None, None))
            if soname in wanted:
                wanted[soname][version].add(name)
            elif soname is None and SYMBOL.match(name):
                loose.add(name)
    if wanted:
        wanted[min(wanted)][None] |= loose - defined
    return wanted


def source_of(names):
    lines = []
    for name in sorted(names):
        if "String" in name or "Name" in name:
            lines.append(f'const char *{name}(void) {{ return "no CUDA here"; }}')
        else:
            lines.append(f"int {name}(void) {{ return {NO_DEVICE}; }}")
    return "\n".join(lines) + "\n"


def version_script(versions):
    nodes = [f"{v} {{ global: {'; '.join(sorted(n))}; }};" for v, n in versions.items() if v and n]
    return "\n".join(nodes) + "\n"


def build(folder, soname, versions):
    names = set().union(*versions.values()) if versions else set()
    with tempfile.TemporaryDirectory() as scratch:
        code, script = os.path.join(scratch, "a.c"), os.path.join(scratch, "a.map")
        with open(code, "w", encoding="ascii") as out:
            out.write(source_of(names))
        with open(script, "w", encoding="ascii") as out:
            out.write(version_script(versions))
        command = ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", "-nostdlib", "-o",
                   os.path.join(folder, soname), code, f"-Wl,-soname,{soname}"]
        if any(versions):
            command.append(f"-Wl,--version-script,{script}")
        subprocess.run(command, check=True)
    return len(names)


def main(folder):
    missing = survey(folder)
    for soname, versions in sorted(missing.items()):
        print(f"  {soname}: {build(folder, soname, versions)} symbols")
    print(f"  {len(missing)} CUDA libraries stand in")


if __name__ == "__main__":
    main(sys.argv[1])
