"""Weights of a model with PEFT adapters, merged into what they adapt: engines are given whole weights, and only those that changed.

    publisher.publish(baton.merged(model), partial=True, optimizer_step=step)

Written for PEFT's own layers (LoRA: linear, embedding, convolution; modules to save), which say themselves what they add.
"""

from . import _entries

_PREFIX = "base_model.model."
_WHOLE = "merge_and_unload() a copy and publish that"
# Of an adapter's configuration: each makes it change what is no weight of a layer that says what it adds.
_MORE = {"bias": "none", "lora_bias": False, "trainable_token_indices": None, "target_parameters": None}


def _plain(name):
    return name[len(_PREFIX) :] if name.startswith(_PREFIX) else name


def _active(module):
    names = getattr(module, "active_adapters", None) or getattr(module, "active_adapter", [])
    return [names] if isinstance(names, str) else list(names)


def _merged_weight(name, module):
    """The base layer's weight with what each active adapter adds."""
    base = module.get_base_layer().weight
    adding = [adapter for adapter in _active(module) if adapter in module.lora_A or adapter in module.lora_embedding_A]
    if any((getattr(module, "use_dora", None) or {}).get(adapter) for adapter in adding):
        raise _entries.refusal(f"'{name}' has a DoRA adapter; what it makes of the weight is no sum", _WHOLE)
    if getattr(module, "disable_adapters", False) or not adding or module.merged:
        return base.detach()
    weight = base.detach().clone()
    for adapter in adding:
        weight += module.get_delta_weight(adapter).detach().to(weight.dtype)
    return weight


def _check(model):
    """Refuses adapters that change more than merged() would give: the rest would stay as it was, unnoticed."""
    configs = getattr(model, "peft_config", None) or {}
    for adapter in [name for name in _active(model) if name in configs]:
        more = [f"{key}={getattr(configs[adapter], key)!r}" for key, plain in _MORE.items() if (getattr(configs[adapter], key, plain) or plain) != plain]
        if more:
            raise _entries.refusal(f"adapter '{adapter}' has {', '.join(more)}: it changes more than its layers' weights", _WHOLE)


def merged(model):
    """(name, tensor) of each weight that an adapter changes, by the base model's names; one at a time, so that one copy exists at most.

    InvalidArgument for adapters that are not sums (DoRA), that change biases or single tokens, or where there are none.
    """
    _check(model)
    found = False
    for name, module in model.named_modules():
        if hasattr(module, "get_delta_weight") and hasattr(module, "get_base_layer"):
            found = True
            yield _plain(name) + ".weight", _merged_weight(name, module)
        elif hasattr(module, "modules_to_save") and hasattr(module, "original_module"):
            found = True
            for adapter in [a for a in _active(module) if a in module.modules_to_save]:
                for inner, value in module.modules_to_save[adapter].state_dict().items():
                    yield f"{_plain(name)}.{inner}", value.detach()
    if not found:
        raise _entries.refusal("the model has no adapter of PEFT", "publish(model) for a plain one")
