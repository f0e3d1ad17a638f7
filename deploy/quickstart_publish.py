"""Publishes from PyTorch what changed between two checkpoints, as a trainer would after a step.

usage: quickstart_publish.py MODEL OLD_DIR NEW_DIR
"""

import pathlib
import sys

import baton
from safetensors.torch import load_file


def load(directory):
    tensors = {}
    for path in sorted(pathlib.Path(directory).glob("*.safetensors")):
        tensors.update(load_file(path))
    return tensors


def main():
    model, old, new = sys.argv[1], load(sys.argv[2]), load(sys.argv[3])
    changed = {name: tensor for name, tensor in new.items() if not tensor.equal(old[name])}
    result = baton.Publisher(model=model).publish(changed, optimizer_step=205, partial=True)
    print(f"published {len(changed)} of {len(new)} tensors as v{result.seq}, digest {result.digest}")


if __name__ == "__main__":
    main()
