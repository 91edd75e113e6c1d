"""Gradients of gradients of the operator database's common entries are PyTorch's, by operands and by cotangents."""

from __future__ import annotations

import warnings
from typing import Any

import database
import pytest
import scope
import torch

#: Entries whose second gradients differ, with the reason.
DIFFERENCES = {
    "as_strided_scatter": "PyTorch gives self the gradient of what was overwritten and none of the rest",
    "cov": "weights of float32: PyTorch rounds in another order",
    "linalg.norm.subgradients_at_zero": "PyTorch's is NaN at zero, ours 0",
    "linalg.pinv.hermitian": "PyTorch's gradient is that of the eigenvectors of one triangle",
    "nn.functional.ctc_loss": "PyTorch has no second gradient",
    "nn.functional.multi_head_attention_forward": "dropout of probability 0.5: another generator draws",
    "nn.functional.one_hot": "it takes indices",
    "nn.functional.scaled_dot_product_attention": "dropout of probability 0.5: another generator draws",
}
#: Entries with names that begin so are compared in complex128, the others in float64.
COMPLEX = ("linalg.", "fft.")
ENTRIES = [
    op
    for op in database.entries(scope.TIER_1 | scope.TIER_2)
    if op.supports_autograd and op.supports_gradgrad and database.label(op) not in scope.DRAWS
    and op.name not in scope.DRAWS and database.label(op) not in DIFFERENCES
]  # fmt: skip


@pytest.mark.parametrize("op", ENTRIES, ids=database.label)
def test_second_gradients_are_pytorchs(op: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        have = op.supported_backward_dtypes("cpu")
        wide = torch.complex128 in have and (op.name.startswith(COMPLEX) or torch.float64 not in have)
        for sample in database.samples(op, torch.complex128 if wide else torch.float64, grad=True, limit=1):
            database.second_gradient(op, sample, "cpu")
