"""What runs inside a vLLM server: the guard and the weight-transfer engine ``baton``.

    vllm serve MODEL --middleware baton.vllm.Guard --weight-transfer-config '{"backend":"baton"}'

Both keep deploy/docs/engine-contract.md.  Importing this package imports the standard library only.
"""

from baton.vllm.guard import Guard

__all__ = ["Guard", "register"]

BACKEND = "baton"


def register():
    """Entry point of the group ``vllm.general_plugins``: vLLM calls it in each of its processes.  A trainer that uses vLLM's trainer-side
    factory (0.28 on) calls it once; see ``baton.vllm.trainer``."""
    from vllm.distributed.weight_transfer import factory

    _register(factory.WeightTransferEngineFactory, "baton.vllm.engine", "BatonEngine")
    if hasattr(factory, "WeightTransferTrainerFactory"):
        _register(factory.WeightTransferTrainerFactory, "baton.vllm.trainer", "BatonTrainer")


def _register(registry, module, name):
    try:
        registry.register_engine(BACKEND, module, name)
    except ValueError:
        # A second call in one process: the name is ours already.
        pass
