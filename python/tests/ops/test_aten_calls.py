"""``torch.ops.aten`` calls operators under PyTorch's names, with PyTorch's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
import torch

import torchlette.torch as facade

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "packet": lambda T, x: T.ops.aten.add(x, x, alpha=2),
    "add.Tensor": lambda T, x: T.ops.aten.add.Tensor(x, 1.5),
    "bmm": lambda T, x: T.ops.aten.bmm.default(x, x.transpose(1, 2)),
    "_softmax": lambda T, x: T.ops.aten._softmax.default(x, -1, False),
    "_safe_softmax": lambda T, x: T.ops.aten._safe_softmax.default(T.where(x < 0, float("-inf"), x), 2),
    "_softmax_backward_data": lambda T, x: T.ops.aten._softmax_backward_data(x, x.softmax(1), 1, T.float32),
    "slice.Tensor": lambda T, x: T.ops.aten.slice.Tensor(x, 2, 1, 3),
    "index.Tensor": lambda T, x: T.ops.aten.index.Tensor(x, [None, T.tensor([0, 2])]),
    "view": lambda T, x: T.ops.aten.view.default(x, [6, 4]),
    "convolution": lambda T, x: T.ops.aten.convolution.default(
        x, x[:, :, :3].contiguous(), None, [1], [1], [1], False, [0], 1
    ),
    "native_layer_norm": lambda T, x: T.ops.aten.native_layer_norm.default(x, [4], None, None, 1e-5),
    "embedding": lambda T, x: T.ops.aten.embedding.default(x[0], T.tensor([2, 0])),
    "_to_copy": lambda T, x: T.ops.aten._to_copy.default(x, dtype=T.float64, device=T.device("cpu")),
    "in place": lambda T, x: T.ops.aten.add_.Tensor(x.clone(), x),
    "native_dropout_backward": lambda T, x: T.ops.aten.native_dropout_backward(x, x > 0, 2.0),
    "max_pool2d_with_indices_backward": lambda T, x: T.ops.aten.max_pool2d_with_indices_backward(
        T.ones(1, 1, 1, 2), T.ones(1, 1, 2, 4), 2, 2, 0, 1, False, T.tensor([[[[5, 2]]]])
    ),
    "max_pool2d": lambda T, x: T.ops.aten.max_pool2d(x.unsqueeze(0), [2, 2], [1, 1]),
    "flash attention": lambda T, x: T.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        x[None, :, :2], x[None], x[None], is_causal=True, scale=0.4
    ),
    "flash attention, masked": lambda T, x: T.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        x[None, :, :2], x[None], x[None], 0.0, attn_mask=x[0, :2, :3]
    ),
    "_chunk_cat": lambda T, x: T.ops.aten._chunk_cat([x, x[:, :2]], 1, 2),
    "_unsafe_masked_index": lambda T, x: T.ops.aten._unsafe_masked_index(
        x[0], T.tensor([[True], [False]]), [T.tensor([1, 9])], 0.5
    ),
    "_unsafe_masked_index_put_accumulate": lambda T, x: T.ops.aten._unsafe_masked_index_put_accumulate(
        x[0], T.tensor([[True], [False]]), [T.tensor([1, 1])], x[1, :2]
    ),
    "upsample with size and factors": lambda T, x: T.ops.aten.upsample_bilinear2d.default(
        x[None], [5, 9], False, 1.7, 2.3
    ),
    "_upsample_bilinear2d_aa": lambda T, x: T.ops.aten._upsample_bilinear2d_aa.default(
        x[None], [2, 2], False, None, None
    ),
    "sum.dim_IntList": lambda T, x: T.ops.aten.sum.dim_IntList(x, [1], True),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_gives_pytorchs_result(name: str) -> None:
    got = CALLS[name](facade, facade.tensor(X.copy()))
    oracle.assert_equal(got, CALLS[name](torch, torch.tensor(X.copy())), name)


def test_gradients_flow_through_calls() -> None:
    def grad(T: Any) -> Any:
        x = T.tensor(X[0].copy(), requires_grad=True)
        aten = T.ops.aten
        aten.sum.default(
            aten.mul.Tensor(aten._softmax.default(aten.mm.default(x, x.t()), 1, False), 3.0)[0] ** 2
        ).backward()
        return x.grad

    oracle.assert_equal(grad(facade), grad(torch))


def test_an_operator_that_is_missing_says_so() -> None:
    with pytest.raises(NotImplementedError, match="aten._cudnn_rnn: no such operator"):
        facade.ops.aten._cudnn_rnn.default(facade.ones(1))
