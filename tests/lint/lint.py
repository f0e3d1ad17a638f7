#!/usr/bin/env python3
"""Runs one lint check and prints its faults; exit 1 if there are any.

usage: lint.py ROOT (tree|reports|sizes|includes|symbols BUILD|format|shell|proto BUF)
"""

import pathlib
import re
import shutil
import subprocess
import sys

import layers
import reports
import sizes
import tree


def tracked(root):
    """Files that git tracks or would track, as paths from the root."""
    out = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, check=True
    ).stdout
    return sorted(p for p in out.decode().split("\0") if p and (root / p).is_file())


def run(command, root):
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines() or [f"{command[0]} failed"]


def check_sizes(root, files):
    faults, short, count = sizes.check_sizes(root, files)
    print(f"sizes: {count} functions, {100 * short // max(count, 1)} % of at most 10 lines")
    return faults


def check_format(root, files):
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=True).stdout
    major = re.search(r"version (\d+)", version)
    if major is None or major.group(1) != "14":
        print(f"format: skipped, the committed layout is clang-format 14's, this is {version.strip()}")
        return []
    return run(["clang-format", "--dry-run", "--Werror"] + [f for f in files if f.endswith((".c", ".h", ".cu"))], root)


def check_shell(root, files):
    scripts = [f for f in files if f.endswith(".sh") or (root / f).read_bytes()[:64].startswith((b"#!/bin/sh", b"#!/usr/bin/env bash", b"#!/bin/bash"))]
    return run(["shellcheck", "-x", "-P", "SCRIPTDIR"] + scripts, root) if shutil.which("shellcheck") else ["shellcheck is not installed"]


def main():
    root, check = pathlib.Path(sys.argv[1]), sys.argv[2]
    files = tracked(root)
    checks = {
        "reports": lambda: reports.check_reports(root, files),
        "tree": lambda: tree.check_tree(root, files),
        "sizes": lambda: check_sizes(root, files),
        "includes": lambda: layers.check_includes(root, files),
        "symbols": lambda: layers.check_symbols(sys.argv[3]),
        "format": lambda: check_format(root, files),
        "shell": lambda: check_shell(root, files),
        "proto": lambda: run([sys.argv[3], "lint"], root / "api/proto"),
    }
    faults = checks[check]()
    print("\n".join(faults) if faults else f"{check}: clean")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
