"""Prove that an environment works: SGLang's server imports, torch multiplies, the plug-in is found."""

import importlib.metadata
import os

os.environ["SGLANG_USE_CPU_ENGINE"] = "1"

import torch  # noqa: E402

product = torch.ones(8, 8, dtype=torch.bfloat16) @ torch.ones(8, 8, dtype=torch.bfloat16)
assert product[0, 0] == 8, "bf16 matrix product is wrong"
assert not torch.cuda.is_available(), "a CUDA device appeared through libraries that stand in"

import sglang  # noqa: E402
from sglang.srt.entrypoints import http_server  # noqa: E402

assert hasattr(http_server, "update_weights_from_disk"), "not the server that was meant"
names = [e.name for e in importlib.metadata.entry_points(group="sglang.srt.plugins")]
assert "baton" in names, f"Baton's plug-in is not installed; found {names}"
print(f"  sglang {sglang.__version__}, torch {torch.__version__}, plug-ins {names}")
