"""Every operator under vmap, on PyTorch's samples: a batch beside its elements."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import database
import pytest
import scope
import torch
from torch.testing._internal.opinfo.core import UnaryUfuncInfo

import torchlette

#: Operators whose results depend on how many elements a call draws, that read elements on the host, or that write to a
#: shared argument, as the running statistics of batch_norm. PyTorch refuses these samples too.
UNMAPPABLE = scope.DRAWS | {
    "nn.functional.batch_norm", "nn.functional.instance_norm",
    "nonzero", "nonzero_static", "masked_select", "unique", "unique_consecutive", "argwhere", "bincount", "allclose",
    "equal", "item", "tensor_split", "histc", "histogram", "histogramdd", "repeat_interleave", "combinations",
}  # fmt: skip
ENTRIES = {
    database.label(op): op
    for op in database.entries(scope.TIER_1 | scope.TIER_2)
    if op.name not in UNMAPPABLE
    and not isinstance(op, UnaryUfuncInfo)  # maps share one rule, which the others use too
    and op.variant_test_name != "tensor_overload"
}


def _tensors(value: Any) -> Iterator[torchlette.Tensor]:
    """Yield the tensors of nested lists and tuples."""
    if isinstance(value, torchlette.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


@pytest.mark.parametrize("label", ENTRIES)
def test_an_operator_of_a_batch_is_that_of_its_elements(label: str) -> None:
    op = ENTRIES[label]
    try:
        ours = database.counterpart(op)
    except AttributeError:
        pytest.skip("no such operator")
    if torch.float32 not in op.dtypes:
        pytest.skip("no such operator")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = next((s for s in op.sample_inputs("cpu", torch.float32) if isinstance(s.input, torch.Tensor)), None)
        if sample is None:
            pytest.skip("no sample of one tensor")
        convert = database.Converter("cpu")
        x = convert(sample.input)
        args, kwargs = convert(sample.args), convert(sample.kwargs)
        rows = [x, x.flip(0) if x.dim() else x * 1]
        if x.dim() > 1 and x.shape[-1] == x.shape[-2]:
            rows[1] = x.transpose(-1, -2).contiguous()
        apart = [list(_tensors(ours(r, *args, **kwargs))) for r in rows]

        def call(row: torchlette.Tensor) -> tuple[torchlette.Tensor, ...]:
            return tuple(_tensors(ours(row, *args, **kwargs)))

        mapped = torchlette.func.vmap(call)(torchlette.stack(rows))
    for k, whole in enumerate(mapped):
        for got, want in zip(whole.unbind(0), (a[k] for a in apart), strict=True):
            torch.testing.assert_close(
                torch.from_numpy(got.detach().numpy()), torch.from_numpy(want.detach().numpy()), equal_nan=True
            )
