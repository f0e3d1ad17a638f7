"""Prove that an environment works: vLLM imports, torch multiplies, the plug-in is found."""

import importlib.metadata

import torch
import vllm

product = torch.ones(8, 8, dtype=torch.bfloat16) @ torch.ones(8, 8, dtype=torch.bfloat16)
assert product[0, 0] == 8, "bf16 matrix product is wrong"
assert not torch.cuda.is_available(), "a CUDA device appeared through libraries that stand in"
names = [e.name for e in importlib.metadata.entry_points(group="vllm.general_plugins")]
assert "baton" in names, f"Baton's plug-in is not installed; found {names}"
print(f"  vllm {vllm.__version__}, torch {torch.__version__}, plug-ins {names}")
