"""Reads back the weights that a vLLM model computes with, and compares them with a version's.

On a CPU a linear layer's weights live packed inside a closure.  They are read by pushing an
identity matrix through the layer's own kernel: products with 1 and sums with 0 are exact, so what
comes out is the weights, bit for bit (a negative zero reads as zero).  Elsewhere the layer's
parameter is what its kernel reads, and is compared directly."""

import torch

ROWS_AT_ONCE = 256


def _slice(tensor, part):
    return tensor.narrow(part.dim, part.start, part.length)


def _expected(piece, tensors, like):
    """(name, our slice of the version's tensor in the layer's dtype) of each part."""
    for part in piece.parts:
        yield part.name, _slice(tensors[part.name], part).to(like.dtype)


def _differing_direct(piece, resident, tensors):
    """Names of the parts that differ from the parameter itself."""
    place, wrong = 0, []
    for name, expected in _expected(piece, tensors, resident):
        rows = resident[place : place + expected.shape[0]].to("cpu")
        place += expected.shape[0]
        if not torch.equal(rows, expected.reshape(rows.shape)):
            wrong.append(name)
    return wrong


def _identity(start, rows, width, like):
    block = torch.zeros(rows, width, dtype=like.dtype, device=like.device)
    block[torch.arange(rows), torch.arange(start, start + rows)] = 1
    return block


def _differing_probed(piece, resident, tensors):
    """Names of the parts that differ from what the layer's kernel multiplies by."""
    expected = list(_expected(piece, tensors, resident))
    width, wrong = expected[0][1].shape[1], set()
    for start in range(0, width, ROWS_AT_ONCE):
        rows = min(ROWS_AT_ONCE, width - start)
        block = _identity(start, rows, width, resident)
        found = piece.layer.quant_method.apply(piece.layer, block, None)
        place = 0
        for name, whole in expected:
            columns = found[:, place : place + whole.shape[0]].to("cpu")
            place += whole.shape[0]
            if not torch.equal(columns, whole[:, start : start + rows].t()):
                wrong.add(name)
    return sorted(wrong)


@torch.no_grad()
def _differing(piece, tensors):
    resident, wrong = piece.layer._parameters.get(piece.parameter), []
    if resident is None or resident.is_meta:
        return [part.name for part in piece.parts]
    if resident.numel():
        wrong += _differing_direct(piece, resident.detach(), tensors)
    if piece.multiplies and resident.device.type == "cpu":
        wrong += _differing_probed(piece, resident, tensors)
    elif not resident.numel() and any(part.length for part in piece.parts):
        wrong += [part.name for part in piece.parts]
    return wrong


def compare(pieces, tensors):
    """(number of checkpoint tensors compared, sorted names of those that differ)."""
    names, wrong = set(), set()
    for piece in pieces:
        names.update(part.name for part in piece.parts)
        wrong.update(_differing(piece, tensors))
    return len(names), sorted(wrong)
