#!/usr/bin/env python3
"""Writes the golden files beside it: bf16 matrices and what torch, vLLM's and compressed-tensors' formulas make of them.

Needs torch and compressed-tensors: run it with the Python of tests/engines/vllm/install.sh. Seeded: the same files come out again.
Format of NAME.bin, little endian: u32 scaling (0 tensor, 1 channel, 2 block), u32 rows, u32 columns, u32 scales; bf16 values;
float32 scales; e4m3 codes.
"""
import pathlib
import struct

import torch
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.utils import calculate_qparams

HERE = pathlib.Path(__file__).resolve().parent
MAX = torch.finfo(torch.float8_e4m3fn).max
TENSOR, CHANNEL, BLOCK = 0, 1, 2


def to_fp8(x):
    return torch.clamp(x, -MAX, MAX).to(torch.float8_e4m3fn)


def compressed_tensors_scale(x, strategy, dims):
    args = QuantizationArgs(num_bits=8, type="float", symmetric=True, strategy=strategy)
    low, high = (x.amin(), x.amax()) if dims is None else (x.amin(dims, keepdim=True), x.amax(dims, keepdim=True))
    return calculate_qparams(low, high, args)[0].float()


def by_tensor(x):
    """vLLM's scaled_fp8_quant: amax / 448, times the reciprocal. The scale is also compressed-tensors'."""
    scale = x.abs().amax() / MAX
    assert torch.equal(scale, compressed_tensors_scale(x, "tensor", None).reshape(()))
    return to_fp8(x * (1.0 / scale)), scale.reshape(1)


def by_channel(x):
    """vLLM's scaled_fp8_quant a token: a floor, and a division. Above the floor it is also compressed-tensors'."""
    scale = torch.maximum(x.abs().amax(1, keepdim=True) / MAX, torch.tensor(1.0 / (MAX * 512)))
    above = scale > 1.0 / (MAX * 512)
    assert torch.equal(scale[above], compressed_tensors_scale(x, "channel", 1)[above])
    return to_fp8(x / scale), scale.reshape(-1)


def by_block(x):
    """DeepGEMM's per_block_cast_to_fp8: amax of at least 1e-4, times the reciprocal."""
    rows, columns = x.shape
    padded = torch.zeros((-(-rows // 128) * 128, -(-columns // 128) * 128))
    padded[:rows, :columns] = x
    view = padded.view(-1, 128, padded.size(1) // 128, 128)
    scale = view.abs().amax(dim=(1, 3), keepdim=True).clamp(1e-4) / MAX
    values = (view * (1.0 / scale)).to(torch.float8_e4m3fn)
    return values.view_as(padded)[:rows, :columns].contiguous(), scale.reshape(-1)


def matrices():
    """Weights as trained ones are spread; wide ranges; every finite bf16; zeros of both signs; blocks cut at both edges."""
    generator = torch.Generator().manual_seed(20261201)
    normal = torch.randn((96, 160), generator=generator) * 0.02
    wide = torch.randn((140, 130), generator=generator) * torch.exp2(torch.randint(-20, 20, (140, 130), generator=generator).float())
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).reshape(512, 128)
    every = torch.where(torch.isfinite(every.float()), every, torch.zeros((), dtype=torch.bfloat16))
    zeros = torch.zeros((130, 129))
    zeros[::2] = -0.0
    zeros[0, 0] = 3.0
    return {"normal": normal, "wide": wide, "every": every, "zeros": zeros}


def write(name, scaling, x, made):
    values, scales = made
    with open(HERE / f"{name}.bin", "wb") as file:
        file.write(struct.pack("<4I", scaling, *x.shape, scales.numel()))
        file.write(x.contiguous().view(torch.int16).numpy().astype("<i2").tobytes())
        file.write(scales.float().numpy().astype("<f4").tobytes())
        file.write(values.contiguous().view(torch.uint8).numpy().tobytes())


def main():
    for name, matrix in matrices().items():
        x = matrix.to(torch.bfloat16)
        for suffix, scaling, make in (("tensor", TENSOR, by_tensor), ("channel", CHANNEL, by_channel), ("block", BLOCK, by_block)):
            if name != "every" or scaling != TENSOR:
                write(f"{name}-{suffix}", scaling, x, make(x.float()))


if __name__ == "__main__":
    main()
