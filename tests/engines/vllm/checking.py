"""`batonctl engine check` on a server of the tests."""

import json
import os
import subprocess

import servers

# Each call of a server that shares few cores with others.
PATIENCE = f"{servers.CALL_SECONDS}s"


def check(case, code, place, *words):
    """({check: its row}, the engine's facts); `place`: its address, page and token file.  The command must end with
    `code`."""
    url, page, token = map(str, place)
    argv = [os.path.join(os.environ["BATON_BUILD"], "controller/cli/batonctl"), "engine", "check",
            url, "--guard-page", page, "--token-file", token, "--timeout", PATIENCE, "-o", "json",
            *map(str, words)]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=4 * servers.CALL_SECONDS, check=False)
    case.assertEqual(code, done.returncode, done.stdout + done.stderr)
    said = json.loads(done.stdout)
    return {row["name"]: row for row in said["checks"]}, said["engine"]


def verdicts(rows):
    return {name: row["verdict"] for name, row in rows.items()}
