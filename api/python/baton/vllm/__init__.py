"""What runs inside a vLLM server: the guard and the weight-transfer engine ``baton``.

    vllm serve MODEL --middleware baton.vllm.Guard --weight-transfer-config '{"backend":"baton"}'

Both keep deploy/docs/engine-contract.md.  Importing this package imports the standard library only.
"""

from baton.vllm.guard import Guard

__all__ = ["Guard", "register"]

BACKEND = "baton"


def register():
    """Entry point of the group ``vllm.general_plugins``: vLLM calls it in each of its processes."""
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

    try:
        WeightTransferEngineFactory.register_engine(BACKEND, "baton.vllm.engine", "BatonEngine")
    except ValueError:
        # A second call in one process: the name is ours already.
        pass
