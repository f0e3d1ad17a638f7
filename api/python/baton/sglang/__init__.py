"""What runs inside an SGLang server: the guard.

SGLang 0.5.23 calls ``register`` by itself in each of its processes (entry point group ``sglang.srt.plugins``; where
``SGLANG_PLUGINS`` is set it must name ``baton``).  Without BATON_GUARD_PAGE in the environment it does nothing.
Importing this package imports the standard library only.
"""

import multiprocessing
import os

from baton.vllm.guard import Guard

__all__ = ["Guard", "register"]


def register():
    """Put the guard before every route of the server.  Only its first process serves HTTP."""
    if not os.environ.get("BATON_GUARD_PAGE") or multiprocessing.parent_process() is not None:
        return
    try:
        from sglang.srt.entrypoints import http_server

        http_server.app.add_middleware(Guard)
    except Exception as error:
        # SGLang logs what a plug-in raises and serves on, without a gate.
        raise SystemExit(f"baton: the guard cannot be put before this server: {error}") from error
