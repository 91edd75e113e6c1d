"""Shapes, views in place and storage of tensors, and the exception classes of bad ones, are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oracle
import pytest
import torch

import torchlette
import torchlette.torch as facade


def _x(lib: Any, *shape: int) -> Any:
    return lib.arange(float(torch.Size(shape).numel())).reshape(shape)


def _leaf(lib: Any) -> Any:
    return _x(lib, 2, 3).requires_grad_()


#: Programs over ``torch`` or ``torchlette.torch``; each gives tensors, numbers and tuples of them, or raises.
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "broadcast_shapes": lambda lib: tuple(lib.broadcast_shapes((2, 1, 3), 3, (4, 1), ())),
    "broadcast_shapes of nothing": lambda lib: tuple(lib.broadcast_shapes()),
    "broadcast_shapes that do not": lambda lib: lib.broadcast_shapes((2,), (3,)),
    "broadcast_shapes negative": lambda lib: lib.broadcast_shapes((-1,)),
    "combinations": lambda lib: lib.combinations(_x(lib, 4), 3),
    "combinations with replacement": lambda lib: lib.combinations(_x(lib, 3), with_replacement=True),
    "combinations of too few": lambda lib: lib.combinations(_x(lib, 2), 3),
    "combinations of none": lambda lib: lib.combinations(_x(lib, 2), 0),
    "combinations of a matrix": lambda lib: lib.combinations(_x(lib, 2, 2)),
    "combinations negative": lambda lib: lib.combinations(_x(lib, 2), -1),
    "repeat_interleave counts": lambda lib: lib.repeat_interleave(_x(lib, 3, 2), lib.tensor([2, 0, 1]), 0),
    "repeat_interleave one count": lambda lib: _x(lib, 3, 2).repeat_interleave(lib.tensor([2]), dim=1),
    "repeat_interleave flattened": lambda lib: _x(lib, 2, 2).repeat_interleave(lib.tensor([1, 2, 3, 0])),
    "repeat_interleave output_size": lambda lib: lib.repeat_interleave(
        _x(lib, 3), lib.tensor([2, 0, 1]), output_size=3
    ),
    "repeat_interleave of counts": lambda lib: lib.repeat_interleave(lib.tensor([2, 0, 3])),
    "repeat_interleave too few": lambda lib: lib.repeat_interleave(_x(lib, 3), lib.tensor([2, 0])),
    "repeat_interleave negative": lambda lib: lib.repeat_interleave(_x(lib, 3), lib.tensor([2, -1, 1])),
    "tensor_split at a tensor": lambda lib: lib.tensor_split(_x(lib, 7), lib.tensor([2, 5])),
    "tensor_split at indices=": lambda lib: lib.tensor_split(_x(lib, 4, 7), indices=(2, 5), dim=1),
    "tensor_split in sections=": lambda lib: _x(lib, 7).tensor_split(sections=3),
    "tensor_split without": lambda lib: _x(lib, 7).tensor_split(dim=0),
    "tensor_split in a tensor": lambda lib: _x(lib, 7, 2).tensor_split(lib.tensor(3)),
    "tensor_split at floats": lambda lib: lib.tensor_split(_x(lib, 7), lib.tensor([2.0])),
    "index_put None": lambda lib: _x(lib, 3, 4).index_put((None, lib.tensor([0, 2])), lib.tensor(9.0)),
    "index_put mask": lambda lib: lib.index_put(_x(lib, 3), (lib.tensor([True, False, True]),), lib.tensor([7.0, 8.0])),
    "index_put_ accumulate": lambda lib: _x(lib, 3).index_put_([lib.tensor([1, 1])], lib.tensor([7.0, 8.0]), True),
    "index_put dtypes": lambda lib: _x(lib, 3).index_put((lib.tensor([1]),), lib.tensor([1])),
    "index_put out of range": lambda lib: _x(lib, 3).index_put((lib.tensor([3]),), lib.tensor(1.0)).sum().item(),
    "squeeze_": lambda lib: _x(lib, 1, 3, 1).squeeze_(),
    "squeeze_ dim": lambda lib: _x(lib, 1, 3, 1).squeeze_(0),
    "swapaxes_": lambda lib: _x(lib, 2, 3).swapaxes_(0, 1),
    "as_strided_": lambda lib: _x(lib, 12).as_strided_((3, 2), (4, 1), 1),
    "unsqueeze_ of a leaf": lambda lib: _leaf(lib).unsqueeze_(0),
    "unsqueeze_ without grad": lambda lib: _leaf(lib).detach().unsqueeze_(0),
    "t_ of a result": lambda lib: (_leaf(lib) * 2).t_(),
    "resize_ to less": lambda lib: _x(lib, 3, 4).resize_(2, 3),
    "resize_ in its storage": lambda lib: _x(lib, 3, 4)[1].resize_(2, 3),
    "resize_ to more": lambda lib: tuple(_x(lib, 2).resize_(3, 2).shape),
    "resize_ keeps": lambda lib: _x(lib, 2).resize_(3)[:2],
    "resize_ of a leaf": lambda lib: _leaf(lib).resize_(2),
    "resize_ negative": lambda lib: _x(lib, 2).resize_(-2),
    "resize_ of a transpose to less": lambda lib: _x(lib, 3, 4).t().resize_(2, 3),
    "resize_ of a transpose to its size": lambda lib: (lambda x: (x, x.stride()))(_x(lib, 3, 4).t().resize_(4, 3)),
    "resize_ of a transpose to as many": lambda lib: _x(lib, 3, 4).t().resize_(3, 4),
    "resize_ of a transpose to more": lambda lib: _x(lib, 3, 4).t().resize_(5, 4)[:3],
    "resize_ of a column": lambda lib: _x(lib, 3, 4)[:, 1].resize_(2),
    "resize_ of a column to its size": lambda lib: _x(lib, 3, 4)[:, 1].resize_(3),
    "resize_ of a column to more": lambda lib: _x(lib, 3, 4)[:, 1].resize_(5),
    "resize_ of an expanded tensor to its size": lambda lib: (lambda x: (x, x.stride()))(
        _x(lib, 3, 1).expand(3, 4).resize_(3, 4)
    ),
    "resize_ of a view of a view": lambda lib: _x(lib, 4, 6)[::2, 1:].t()[1:].resize_(2, 2),
    "resize_ writes to its base": lambda lib: (lambda x: (x.t().resize_(2, 2).zero_(), x))(_x(lib, 3, 4)),
    "resize_ channels_last": lambda lib: (lambda x: (x, x.stride()))(
        _x(lib, 12).resize_(1, 3, 2, 2, memory_format=lib.channels_last)
    ),
    "resize_ to its size in channels_last": lambda lib: _x(lib, 1, 3, 2, 2).resize_(
        1, 3, 2, 2, memory_format=lib.channels_last
    ),
    "resize_ of a channels_last rank": lambda lib: _x(lib, 12).resize_(3, 4, memory_format=lib.channels_last),
    "resize_ preserve_format": lambda lib: _x(lib, 12).resize_(3, 4, memory_format=lib.preserve_format),
    "resize_as_ of a transpose": lambda lib: _x(lib, 3, 4).t().resize_as_(lib.zeros(2, 5)),
    "as_strided_scatter over one place": lambda lib: lib.as_strided_scatter(_x(lib, 12), _x(lib, 3, 2), (3, 2), (0, 1)),
    "resize_as_": lambda lib: lib.zeros(2).resize_as_(lib.zeros(2, 0)),
    "set_ of nothing": lambda lib: _x(lib, 3).set_(),
    "set_ of another dtype": lambda lib: _x(lib, 3).set_(lib.tensor([1])),
    "fill_diagonal_": lambda lib: _x(lib, 3, 4).fill_diagonal_(-1),
    "fill_diagonal_ wrap": lambda lib: _x(lib, 8, 2).fill_diagonal_(-1, wrap=True),
    "fill_diagonal_ of a strided cube": lambda lib: _x(lib, 3, 3, 3).transpose(0, 2).fill_diagonal_(-1),
    "fill_diagonal_ of a box": lambda lib: _x(lib, 3, 2, 3).fill_diagonal_(-1),
    "fill_diagonal_ of a vector": lambda lib: _x(lib, 3).fill_diagonal_(-1),
    "fill_diagonal_ of nothing": lambda lib: lib.zeros(0, 2).fill_diagonal_(-1),
    "narrow at a tensor": lambda lib: _x(lib, 5).narrow(0, lib.tensor(1), 2),
    "narrow_copy": lambda lib: _x(lib, 5).narrow_copy(0, 1, 2),
    "reversed": lambda lib: reversed(_x(lib, 2, 3)),
    "new of sizes": lambda lib: tuple(_x(lib, 2).new(3, 1).shape),
    "new of data": lambda lib: _x(lib, 2).new([3, 1]),
    "is_same_size": lambda lib: (_x(lib, 2).is_same_size(_x(lib, 2)), _x(lib, 2).is_same_size(_x(lib, 1, 2))),
    "is_set_to": lambda lib: (lambda x: (x.is_set_to(x[:]), x.is_set_to(x[1:]), x.is_set_to(x.clone())))(_x(lib, 3)),
    "dim_order": lambda lib: (_x(lib, 2, 3, 4).dim_order(), _x(lib, 2, 3, 4).permute(2, 0, 1).dim_order()),
    "is_signed": lambda lib: (_x(lib, 2).is_signed(), lib.tensor([True]).is_signed(), lib.tensor([1]).is_signed()),
    "is_nonzero": lambda lib: (lib.tensor(2.0).is_nonzero(), lib.tensor([0]).is_nonzero()),
    "is_nonzero of two": lambda lib: _x(lib, 2).is_nonzero(),
    "flags": lambda lib: (
        lambda x: (
            x.is_cpu,
            x.is_conj(),
            x.is_inference(),
            x.is_neg(),
            x.is_shared(),
            x.is_nested,
            x.is_mps,
            x.output_nr,
            x.name,
        )
    )(_x(lib, 2)),
    "storage": lambda lib: (
        lambda x: (
            x[1:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr(),
            x[1:].untyped_storage().nbytes(),
        )
    )(_x(lib, 3)),
    "layout": lambda lib: _x(lib, 2).layout is lib.strided,
    "to_dense": lambda lib: _x(lib, 2).to_dense(),
    "view of the same dtype": lambda lib: _x(lib, 2).view(lib.float32),
    "fftshift": lambda lib: lib.fft.fftshift(_x(lib, 3, 4)),
    "fftshift of a dim": lambda lib: lib.fft.fftshift(_x(lib, 3, 4), 1),
    "ifftshift": lambda lib: lib.fft.ifftshift(_x(lib, 3, 5), (0, 1)),
    "meshgrid without indexing": lambda lib: lib.meshgrid(_x(lib, 2), _x(lib, 3)),
    "meshgrid of a bad indexing": lambda lib: lib.meshgrid(_x(lib, 2), _x(lib, 3), indexing="yx"),
    "scatter of a bad reduce": lambda lib: _x(lib, 3).scatter(0, lib.tensor([0]), lib.ones(1), reduce="mean"),
    "scatter_reduce of a bad reduce": lambda lib: _x(lib, 3).scatter_reduce(0, lib.tensor([0]), lib.ones(1), "median"),
    "masked_scatter too short": lambda lib: (
        _x(lib, 3).masked_scatter(lib.tensor([True, True, False]), lib.ones(1)).sum().item()
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    def outcome(lib: Any) -> Any:
        try:
            return PROGRAMS[name](lib)
        except Exception as error:
            return error

    want, got = outcome(torch), outcome(facade)
    if isinstance(want, Exception):
        assert isinstance(got, type(want)), f"got {got!r}, want {want!r}"
        return
    assert not isinstance(got, Exception), f"got {got!r}"
    oracle.assert_equal(got, want)


@pytest.mark.parametrize(
    "base",
    [
        lambda x: x,
        lambda x: x.reshape(4, 6),
        lambda x: x.reshape(4, 6).t(),
        lambda x: x.reshape(4, 6)[::2, 1::2],
        lambda x: x[5:20],
        lambda x: x.reshape(2, 3, 4).permute(2, 0, 1),
    ],
    ids=["vector", "matrix", "transpose", "steps", "offset", "permuted"],
)
@pytest.mark.parametrize(
    "geometry",
    [((3, 2), (4, 1), 0), ((2, 2), (1, 2), 3), ((2, 3), (6, 2), None), ((), (), 7), ((2, 0), (1, 1), 0)],
    ids=str,
)
def test_as_strided_scatter_has_the_gradient_of_what_it_computes(base: Callable[[Any], Any], geometry: Any) -> None:
    """Both derivatives agree with differences: PyTorch's own gradient of the first operand does not."""
    size, stride, offset = geometry
    x = torchlette.arange(24.0, dtype=torchlette.float64).requires_grad_()
    src = (torchlette.ones(size, dtype=torchlette.float64) * 3).requires_grad_()

    def loss(x: Any, src: Any) -> Any:
        y = torchlette.as_strided_scatter(base(x * 1), src, size, stride, offset)
        return (y.pow(2) * torchlette.arange(1.0, y.numel() + 1, dtype=torchlette.float64).reshape(y.shape)).sum()

    assert torchlette.autograd.gradcheck(loss, (x, src))
    assert torchlette.autograd.gradgradcheck(loss, (x, src))


def test_sparse_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="index_add"):
        torchlette.ones(2).to_sparse()
