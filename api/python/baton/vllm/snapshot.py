"""A model's state before an update, and the way back to it."""

import torch
from vllm.model_executor.model_loader.reload import layerwise

from baton.vllm.refusal import RESTORE_FAILED, Refusal


def is_torn(model):
    """Whether an earlier load, not ours, was left half done: nothing sound to return to."""
    return any(
        layerwise.get_layerwise_info(layer).can_load()
        or any(p is not None and p.is_meta for p in layer._parameters.values())
        for layer in model.modules()
    )


def _bytes(tensor):
    return tensor.reshape(-1).view(torch.uint8)


class Snapshot:
    """Copies of all parameters and buffers, and every module's attributes as they are.

    A CPU layer's packed weights are not copied: loading builds new ones beside them, and the
    attribute that leads to the old ones is kept.  Copies of accelerator tensors lie in host
    memory."""

    def __init__(self, model):
        self._modules = [self._of(module) for module in model.modules()]
        self._copies = {}
        for _, _, parameters, buffers in self._modules:
            for tensor in (*parameters.values(), *buffers.values()):
                if tensor is not None and id(tensor) not in self._copies:
                    copy = tensor.detach().to("cpu", copy=True)
                    self._copies[id(tensor)] = (tensor, copy)

    @staticmethod
    def _of(module):
        attributes = dict(module.__dict__)
        attributes["_non_persistent_buffers_set"] = set(module._non_persistent_buffers_set)
        return module, attributes, dict(module._parameters), dict(module._buffers)

    def _restore_module(self, module, attributes, parameters, buffers):
        layerwise.get_layerwise_info(module).reset()
        module.__dict__.clear()
        module.__dict__.update(attributes)
        # The dictionaries are kept as objects: others may hold them.
        for kept, saved in ((module._parameters, parameters), (module._buffers, buffers)):
            kept.clear()
            kept.update(saved)

    @torch.no_grad()
    def restore(self):
        """Put everything back and compare.  Refusal: RESTORE_FAILED; the engine is then unsound."""
        for saved in self._modules:
            self._restore_module(*saved)
        layerwise.LOADING_LAYERS.clear()
        for tensor, copy in self._copies.values():
            tensor.data.copy_(copy)
            if not torch.equal(_bytes(tensor.detach().to("cpu")), _bytes(copy)):
                raise Refusal(RESTORE_FAILED, "a tensor did not take its saved value back")
