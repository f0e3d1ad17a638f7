"""Limits on hand-written code: functions of at most 70 lines, files of at most 700, at most 6 parameters."""

import ast
import re

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 700
PARAMETERS_MAX = 6
# Functions whose parameters a library fixes.
LIBRARY_SHAPES = {
    ("tests/miniengine/server.c", "on_request"),  # libmicrohttpd's MHD_AccessHandlerCallback
    ("api/web/server.c", "on_request"),
    ("api/rpc/handshakes.c", "on_message"),  # OpenSSL's SSL_set_msg_callback
}
CHECKED = (".c", ".h", ".cu", ".py", ".js", ".sh", ".proto")

C_HEAD = re.compile(r"([A-Za-z_]\w*)\s*\(")
SH_HEAD = re.compile(r"^\s*(?:function\s+)?([A-Za-z_][\w-]*)\s*\(\)\s*\{\s*$")
JS_HEAD = re.compile(r"^(\s*)(?:export\s+)?(?:async\s+)?function\s*\*?\s*(\w+)\s*\(([^)]*)\)")


def split_parameters(text):
    """The parameters between the parentheses that open at the start of 'text'."""
    depth, parts, part = 0, [], ""
    for char in text:
        if char == ")" and depth == 1:
            break
        if char == "," and depth == 1:
            parts.append(part)
            part = ""
            continue
        if char == "(":
            depth += 1
            if depth == 1:
                continue
        elif char == ")":
            depth -= 1
        part += char
    return [p for p in parts + [part] if p.strip() not in ("", "void")]


def c_functions(lines):
    """(name, first line, lines, parameters) of each function; its braces stand in column 0."""
    start = None
    for i, line in enumerate(lines):
        if line.startswith("{"):
            start = i
        elif line.startswith("}") and start is not None:
            head = start - 1
            while head > 0 and lines[head - 1].strip() and not lines[head - 1].rstrip().endswith((";", "}", "*/")):
                head -= 1
            text = " ".join(lines[head:start])
            match = C_HEAD.search(text)
            if match and not text.lstrip().startswith(("struct {", "enum", "union")):
                yield match.group(1), start + 1, i - start - 1, len(split_parameters(text[match.end() - 1:]))
            start = None


def py_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            a = node.args
            names = [x.arg for x in a.posonlyargs + a.args + a.kwonlyargs if x.arg not in ("self", "cls")]
            yield node.name, node.lineno, node.end_lineno - node.lineno, len(names)


def sh_functions(lines):
    name = start = None
    for i, line in enumerate(lines):
        match = SH_HEAD.match(line)
        if match:
            name, start = match.group(1), i
        elif line.startswith("}") and start is not None:
            yield name, start + 1, i - start - 1, 0
            start = None


def js_functions(lines):
    for i, line in enumerate(lines):
        match = JS_HEAD.match(line)
        if not match:
            continue
        end = next((j for j in range(i + 1, len(lines)) if lines[j].startswith(match.group(1) + "}")), i)
        yield match.group(2), i + 1, end - i - 1, len([p for p in match.group(3).split(",") if p.strip()])


def functions_of(path, text):
    lines = text.splitlines()
    if path.endswith((".c", ".h", ".cu")):
        return list(c_functions(lines))
    if path.endswith(".py"):
        return list(py_functions(text))
    if path.endswith(".js"):
        return list(js_functions(lines))
    if path.endswith(".sh") or text.startswith(("#!/bin/sh", "#!/usr/bin/env bash", "#!/bin/bash")):
        return list(sh_functions(lines))
    return []


def is_checked(path, text):
    return path.endswith(CHECKED) or text.startswith("#!")


def check_sizes(root, files):
    """Faults, and the share of functions of at most 10 lines."""
    faults, short, all_functions = [], 0, 0
    for path in files:
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        if not is_checked(path, text):
            continue
        lines = text.count("\n")
        if lines > FILE_LINES_MAX:
            faults.append(f"{path}: {lines} lines; at most {FILE_LINES_MAX}: split it by what its parts do")
        for name, line, size, parameters in functions_of(path, text):
            all_functions += 1
            short += size <= 10
            if size > FUNCTION_LINES_MAX:
                faults.append(f"{path}:{line}: {name} has {size} lines; at most {FUNCTION_LINES_MAX}")
            if parameters > PARAMETERS_MAX and (path, name) not in LIBRARY_SHAPES:
                faults.append(f"{path}:{line}: {name} takes {parameters} parameters; at most {PARAMETERS_MAX}")
    return faults, short, all_functions
