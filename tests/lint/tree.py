"""What the tree as a whole must be: the fixed top level, a README in every folder, no traces of one machine."""

import re

TOP = {"CMakeLists.txt", "api", "controller", "agent", "transport", "deploy", "tests", "README.md", "LICENSE"}
# Folders that hold nothing but data or one proto package; the README of the folder above speaks for them.
DATA = re.compile(
    r"^(tests/data/.+|tests/fuzz/corpus.*|api/proto/.+|api/python/.+|transport/include/baton|\.ci|\.github.*|deploy/docs/.+|tests/engines/vllm/faulty.*|tests/engines/sglang/standin.*)$"
)
MACHINE_PATHS = re.compile(r"(?<![\w.])/(work|farm|root|home/\w+)/[a-z]+")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
TEXT = (".c", ".h", ".cu", ".py", ".sh", ".md", ".txt", ".yaml", ".yml", ".json", ".proto", ".cmake", ".js", ".toml")


def check_top(files):
    tops = {path.split("/")[0] for path in files}
    faults = [f"{name}: the top level holds only {', '.join(sorted(TOP))} and dotfiles" for name in tops - TOP if not name.startswith(".")]
    return faults + [f"{name}: missing at the top level" for name in TOP - tops]


def check_readmes(files):
    folders = {path.rsplit("/", 1)[0] for path in files if "/" in path}
    parents = {"/".join(f.split("/")[:n]) for f in folders for n in range(1, f.count("/") + 2)}
    have = set(files)
    return [f"{folder}: has no README.md" for folder in sorted(parents) if not DATA.match(folder) and f"{folder}/README.md" not in have]


def check_texts(root, files):
    faults = []
    for path in files:
        if not path.endswith(TEXT) or path.startswith("tests/lint/") or path.startswith("tests/data/"):
            continue
        for number, line in enumerate((root / path).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if MACHINE_PATHS.search(line):
                faults.append(f"{path}:{number}: a path of one machine")
            if UNFINISHED.search(line):
                faults.append(f"{path}:{number}: a mark of something unfinished")
    return faults


def check_tree(root, files):
    return check_top(files) + check_readmes(files) + check_texts(root, files)
