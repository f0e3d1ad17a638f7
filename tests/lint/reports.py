"""tests/bug-reports.md: each id of its list has one row, each row says something, and every test or file that it names exists."""

import re

TABLE = "tests/bug-reports.md"
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.*) \| (.*) \|$")
NAMED = re.compile(r"`([\w./-]+)(?:::(\w+))?`")
WITHOUT_TEST = ("does not apply, because ", "open: comes with ")


def check_named(root, here):
    """Faults of what one row names."""
    faults = []
    for path, name in NAMED.findall(here):
        if not (root / path).is_file():
            faults.append(f"there is no {path}")
        elif name and not re.search(rf"\b{name}\b", (root / path).read_text(encoding="utf-8")):
            faults.append(f"{path} has no {name}")
    return faults


def check_rows(root, text):
    listed = re.findall(r"[A-Z]\d+", next((line for line in text.splitlines() if line.startswith("Ids: ")), ""))
    faults = [] if listed else ["it has no list of ids"]
    rows = [match.groups() for match in map(ROW.match, text.splitlines()) if match]
    found = [row[0] for row in rows]
    faults += [f"{name}: {found.count(name)} rows" for name in dict.fromkeys(listed + found) if found.count(name) != 1 or listed.count(name) != 1]
    for name, _, here in rows:
        if not NAMED.search(here) and not here.startswith(WITHOUT_TEST):
            faults.append(f"{name}: names no test and says neither '{WITHOUT_TEST[0]}…' nor '{WITHOUT_TEST[1]}…'")
        faults += [f"{name}: {fault}" for fault in check_named(root, here)]
    return faults


def check_reports(root, files):
    if TABLE not in files:
        return [f"{TABLE}: missing"]
    return [f"{TABLE}: {fault}" for fault in check_rows(root, (root / TABLE).read_text(encoding="utf-8"))]
