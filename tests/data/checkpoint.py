"""The shape of the small Qwen3, its byte tokenizer, and its files."""

import json
import os

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import Qwen3Config, Qwen3ForCausalLM

END_OF_TEXT, PADDING = 256, 257

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": None,
    "eos_token_id": END_OF_TEXT,
    "head_dim": 32,
    "hidden_act": "silu",
    "hidden_size": 128,
    "initializer_range": 0.04,
    "intermediate_size": 192,
    "max_position_embeddings": 2048,
    "max_window_layers": 4,
    "model_type": "qwen3",
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "pad_token_id": PADDING,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 258,
}
GENERATION = {"do_sample": False, "eos_token_id": END_OF_TEXT, "pad_token_id": PADDING}
TOKENIZER = {
    "add_bos_token": False,
    "add_prefix_space": False,
    "clean_up_tokenization_spaces": False,
    "eos_token": "<|endoftext|>",
    "model_max_length": 2048,
    "pad_token": "<|pad|>",
    "tokenizer_class": "PreTrainedTokenizerFast",
}


def new_model():
    """A model in float32 with fresh weights."""
    wanted = {k: v for k, v in CONFIG.items() if k != "torch_dtype"}
    return Qwen3ForCausalLM(Qwen3Config(**wanted, dtype="float32"))


def byte_alphabet():
    """The printable character that stands for each byte in a byte-level tokenizer."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def tokenizer():
    """One token a byte, id = the byte's value; two special tokens after them."""
    vocabulary = {character: byte for byte, character in enumerate(byte_alphabet())}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([TOKENIZER["eos_token"], TOKENIZER["pad_token"]])
    return made


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(value, out, indent=2)
        out.write("\n")


def save_tensors(tensors, folder, shards):
    """One file, or `shards` files of whole tensors with an index."""
    if shards == 1:
        save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
        return
    names, index = sorted(tensors), {}
    for part in range(shards):
        file = f"model-{part + 1:05d}-of-{shards:05d}.safetensors"
        mine = names[part * len(names) // shards : (part + 1) * len(names) // shards]
        save_file({n: tensors[n] for n in mine}, os.path.join(folder, file), {"format": "pt"})
        index.update(dict.fromkeys(mine, file))
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    write_json(
        os.path.join(folder, "model.safetensors.index.json"),
        {"metadata": {"total_size": total}, "weight_map": index},
    )


def save(model, folder, shards):
    """Write the float32 masters rounded to bf16, as a Hugging Face checkpoint."""
    os.makedirs(folder, exist_ok=True)
    tensors = {n: p.detach().to(torch.bfloat16).contiguous() for n, p in model.named_parameters()}
    save_tensors(tensors, folder, shards)
    write_json(os.path.join(folder, "config.json"), CONFIG)
    write_json(os.path.join(folder, "generation_config.json"), GENERATION)
    write_json(os.path.join(folder, "tokenizer_config.json"), TOKENIZER)
    tokenizer().save(os.path.join(folder, "tokenizer.json"), pretty=False)


def load(folder, dtype):
    """The checkpoint's bf16 weights, computed with in `dtype`."""
    return Qwen3ForCausalLM.from_pretrained(folder, dtype=dtype).eval()
