#!/usr/bin/env python3
"""loop_test.py with two real vLLM servers as the engines."""

import os
import sys
import unittest

import loop_test

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vllm"))

from vllm_fleet import SWAP_SECONDS, VllmFleet  # noqa: E402

# As in ../vllm: of agents on a machine whose few cores the engines and the trainer share.
PATIENT = {"engineLost": "120s", "opShort": "60s", "opLong": "240s", "restoreBound": "480s"}


class Vllm(loop_test.Loop):
    """They compute in bf16, which lands up to 0.15 from the trainer's float32; a version before lies several nats away."""

    STEPS, RATE, TOLERANCE, SECONDS = 6, 4e-3, 0.3, SWAP_SECONDS

    @staticmethod
    def make_fleet():
        return VllmFleet({"node": {"g0": [1], "g1": [1]}}, times=PATIENT)


if __name__ == "__main__":
    unittest.main()
