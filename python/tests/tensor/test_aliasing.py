"""Which results share storage with their operand: as in PyTorch, found by writing through the result.

A result that is an alias changes its operand when it is written to; a copy does not. Each case is done under both
libraries, over contiguous, transposed and sliced operands; values agree too, and the strides of a view.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import oracle
import pytest
import torch

import torchlette
import torchlette.torch

Tensor = Any
#: name: (shape of the operand, what gives one tensor or several from it).
CASES: dict[str, tuple[tuple[int, ...], Callable[[Any, Tensor], Any]]] = {
    "getitem int": ((3, 4), lambda lib, x: x[1]),
    "getitem slices": ((3, 4), lambda lib, x: x[1:, ::2]),
    "getitem None": ((3, 4), lambda lib, x: x[:, None]),
    "getitem Ellipsis": ((2, 3, 4), lambda lib, x: x[..., 0]),
    "getitem whole": ((3, 4), lambda lib, x: x[:]),
    "getitem ()": ((3, 4), lambda lib, x: x[()]),
    "getitem list": ((3, 4), lambda lib, x: x[[0, 1]]),
    "getitem True": ((3, 4), lambda lib, x: x[True]),
    "getitem tensor": ((3, 4), lambda lib, x: x[:, lib.tensor([1, 0])]),
    "getitem mask": ((3, 4), lambda lib, x: x[lib.tensor([True, False, True])]),
    "T": ((3, 4), lambda lib, x: x.T),
    "mT": ((3, 4), lambda lib, x: x.mT),
    "t": ((3, 4), lambda lib, x: x.t()),
    "transpose": ((3, 4), lambda lib, x: x.transpose(0, 1)),
    "swapaxes": ((3, 4), lambda lib, x: x.swapaxes(0, 1)),
    "permute": ((2, 3, 4), lambda lib, x: x.permute(2, 0, 1)),
    "movedim": ((2, 3, 4), lambda lib, x: x.movedim(0, -1)),
    "view": ((3, 4), lambda lib, x: x.view(-1)),
    "view_as": ((3, 4), lambda lib, x: x.view_as(lib.zeros(2, 6))),
    "reshape": ((3, 4), lambda lib, x: x.reshape(2, 6)),
    "reshape same": ((3, 4), lambda lib, x: x.reshape(3, 4)),
    "reshape_as": ((3, 4), lambda lib, x: x.reshape_as(lib.zeros(12))),
    "flatten": ((3, 4), lambda lib, x: x.flatten()),
    "flatten one dim": ((12,), lambda lib, x: x.flatten()),
    "ravel": ((3, 4), lambda lib, x: x.ravel()),
    "unflatten": ((3, 4), lambda lib, x: x.unflatten(1, (2, 2))),
    "squeeze": ((1, 3, 1), lambda lib, x: x.squeeze()),
    "squeeze dim": ((1, 3, 1), lambda lib, x: x.squeeze(0)),
    "squeeze nothing": ((3, 4), lambda lib, x: x.squeeze()),
    "unsqueeze": ((3, 4), lambda lib, x: x.unsqueeze(1)),
    "expand": ((3, 4), lambda lib, x: x.expand(3, 4)),
    "expand_as": ((3, 4), lambda lib, x: x.expand_as(lib.zeros(3, 4))),
    "broadcast_to": ((3, 4), lambda lib, x: lib.broadcast_to(x, (1, 3, 4))),
    "broadcast_tensors": ((3, 4), lambda lib, x: lib.broadcast_tensors(x, lib.zeros(4))[0]),
    "narrow": ((3, 4), lambda lib, x: x.narrow(1, 1, 2)),
    "select": ((3, 4), lambda lib, x: x.select(1, 1)),
    "diagonal": ((3, 4), lambda lib, x: x.diagonal()),
    "diag of a matrix": ((3, 4), lambda lib, x: x.diag()),
    "unfold": ((3, 4), lambda lib, x: x.unfold(1, 2, 2)),
    "unbind": ((3, 4), lambda lib, x: x.unbind(1)),
    "split": ((3, 4), lambda lib, x: x.split(3, 1)),
    "split sizes": ((3, 4), lambda lib, x: x.split([1, 3], 1)),
    "split_with_sizes": ((3, 4), lambda lib, x: x.split_with_sizes([1, 3], 1)),
    "chunk": ((3, 4), lambda lib, x: x.chunk(2)),
    "tensor_split": ((3, 4), lambda lib, x: x.tensor_split(2)),
    "hsplit": ((3, 4), lambda lib, x: x.hsplit(2)),
    "vsplit": ((3, 4), lambda lib, x: x.vsplit([1])),
    "dsplit": ((2, 3, 4), lambda lib, x: x.dsplit(2)),
    "meshgrid": ((4,), lambda lib, x: lib.meshgrid(x, indexing="ij")),
    "atleast_1d": ((3, 4), lambda lib, x: lib.atleast_1d(x)),
    "atleast_2d": ((4,), lambda lib, x: lib.atleast_2d(x)),
    "atleast_3d": ((3, 4), lambda lib, x: lib.atleast_3d(x)),
    "as_strided": ((3, 4), lambda lib, x: x.as_strided((2, 2), (1, 2), 1)),
    "detach": ((3, 4), lambda lib, x: x.detach()),
    "data": ((3, 4), lambda lib, x: x.data),
    "contiguous": ((3, 4), lambda lib, x: x.contiguous()),
    "clone": ((3, 4), lambda lib, x: x.clone()),
    "to the same": ((3, 4), lambda lib, x: x.to(lib.float32)),
    "to the same, copy": ((3, 4), lambda lib, x: x.to(lib.float32, copy=True)),
    "to another dtype": ((3, 4), lambda lib, x: x.to(lib.float16)),
    "float": ((3, 4), lambda lib, x: x.float()),
    "type_as": ((3, 4), lambda lib, x: x.type_as(x)),
    "sum_to_size": ((3, 4), lambda lib, x: x.sum_to_size(3, 4)),
    "repeat once": ((3, 4), lambda lib, x: x.repeat(1, 1)),
    "tile once": ((3, 4), lambda lib, x: x.tile(1)),
    "flip of nothing": ((3, 4), lambda lib, x: x.flip(())),
    "roll by nothing": ((3, 4), lambda lib, x: x.roll(0, 0)),
    "rot90 by nothing": ((3, 4), lambda lib, x: x.rot90(0)),
    "cat of one": ((3, 4), lambda lib, x: lib.cat([x])),
    "stack of one": ((3, 4), lambda lib, x: lib.stack([x])),
    "cartesian_prod of one": ((4,), lambda lib, x: lib.cartesian_prod(x)),
    "index_select": ((3, 4), lambda lib, x: x.index_select(0, lib.tensor([0, 1, 2]))),
    "gather": ((4,), lambda lib, x: x.gather(0, lib.tensor([0, 1, 2, 3]))),
    "triu": ((3, 4), lambda lib, x: x.triu()),
    "positive": ((3, 4), lambda lib, x: +x),
    "dropout in eval": ((3, 4), lambda lib, x: lib.nn.functional.dropout(x, 0.5, training=False)),
    "as_tensor": ((3, 4), lambda lib, x: lib.as_tensor(x)),
    "requires_grad_": ((3, 4), lambda lib, x: x.requires_grad_(False)),
    "squeeze_": ((3, 1), lambda lib, x: x.view(3, 1).squeeze_()),
    "unsqueeze_": ((3, 4), lambda lib, x: x.view(3, 4).unsqueeze_(0)),
    "transpose_": ((3, 4), lambda lib, x: x.view(3, 4).transpose_(0, 1)),
    "t_": ((3, 4), lambda lib, x: x.view(3, 4).t_()),
    "resize_ to less": ((3, 4), lambda lib, x: x.view(3, 4).resize_(2, 5)),
    "set_": ((3, 4), lambda lib, x: lib.zeros(2).set_(x)),
}

#: Layouts of the operand: views of a row-major tensor of its shape, or of a larger one.
LAYOUTS: dict[str, Callable[[Any, tuple[int, ...]], Tensor]] = {
    "contiguous": lambda lib, shape: _numbers(lib, shape),
    "transposed": lambda lib, shape: _numbers(lib, shape[::-1]).permute(*range(len(shape) - 1, -1, -1)),
    "sliced": lambda lib, shape: _numbers(lib, (*shape[:-1], 2 * shape[-1] + 1))[..., 1::2],
}


def _numbers(lib: Any, shape: tuple[int, ...]) -> Tensor:
    n = 1
    for k in shape:
        n *= k
    return lib.arange(n, dtype=lib.float32).reshape(shape)


def written(lib: Any, layout: str, case: str) -> tuple[Tensor, list[Tensor]] | Exception:
    """Apply the case and write through each result; return the operand and the results, or what was raised."""
    shape, view = CASES[case]
    x = LAYOUTS[layout](lib, shape)
    try:
        results = view(lib, x)
    except RuntimeError as error:
        return error
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    for i, y in enumerate(results):
        y += 100 * (i + 1)
    return x, results


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_write_through_the_result(case: str, layout: str) -> None:
    got, want = written(torchlette, layout, case), written(torch, layout, case)
    if isinstance(want, Exception):
        assert isinstance(got, type(want)), f"got {got!r}, want {want!r}"
        return
    assert not isinstance(got, Exception), f"got {got!r}"
    oracle.assert_equal(got[0], want[0], "the operand")
    oracle.assert_equal(got[1], want[1], "the results")
    for a, e in zip(got[1], want[1], strict=True):  # copies of ours are row-major; views have strides of their own
        if e.untyped_storage().data_ptr() == want[0].untyped_storage().data_ptr():
            assert [s for s, n in zip(a.stride(), a.shape, strict=True) if n > 1] == [
                s for s, n in zip(e.stride(), e.shape, strict=True) if n > 1
            ]
            assert a.storage_offset() == e.storage_offset()


@pytest.mark.parametrize(
    "case", ["getitem slices", "transpose", "reshape", "unfold", "narrow", "diagonal", "as_strided", "expand"]
)
def test_gradient_of_a_write_through_a_view(case: str) -> None:
    """A value written through a view of a computed tensor receives its gradient; the replaced value receives none."""

    def gradients(lib: Any) -> list[Tensor]:
        shape, view = CASES[case]
        x = _numbers(lib, shape).requires_grad_()
        base = x * 2
        parts = view(lib, base)
        part = parts[0] if isinstance(parts, (tuple, list)) else parts
        value = lib.ones(tuple(part.shape)).requires_grad_()
        part.mul_(value * 3)
        (base * base).sum().backward()
        return [x.grad, value.grad]

    oracle.assert_equal(gradients(torchlette), gradients(torch))


#: Programs of a leaf that requires grad and one that does not; each returns what is seen of versions and values.
VERSIONS: dict[str, Callable[[Any], Any]] = {
    "a write through .data is not the tensor's": lambda lib: (
        lambda x: (x.data.add_(1).tolist(), x._version, x.tolist(), x.data._version)
    )(lib.ones(3)),
    ".data counts its own writes": lambda lib: (
        lambda x, d: (d.add_(1), d[0].add_(1), x.add_(1), x._version, d._version, d[1:]._version, x.tolist())[3:]
    )(*(lambda x: (x, x.data))(lib.ones(3))),
    "an alias of .data counts with it": lambda lib: (
        lambda x, d: (d.view(3).detach().mul_(2), x._version, d._version, d.data._version, x.tolist())[1:]
    )(*(lambda x: (x, x.data))(lib.ones(3))),
    "a write through detach is the tensor's": lambda lib: (
        lambda x, d: (d.add_(1), x._version, d._version, x.tolist())[1:]
    )(*(lambda x: (x, x.detach()))(lib.ones(3))),
    "views that are views": lambda lib: [
        t._is_view()
        for x in [lib.ones(2, 3)]
        for t in (
            *(x, x[0], x[:], x.t(), x.view(6), x.reshape(6), x.t().reshape(6), x.view_as(x), x.expand(2, 2, 3)),
            *(x.unbind(0)[1], x.contiguous(), x.detach(), x.data, x[0].detach(), x[0].data, x.clone(), x * 1),
            *(x.diagonal(), x.unsqueeze(0), lib.nn.Parameter(x[0]), x.to(lib.float32), x.float()),
        )
    ],
}


@pytest.mark.parametrize("name", VERSIONS)
def test_versions_and_views_are_pytorchs(name: str) -> None:
    """Each program twice: what a call's cached trace gives is what the call gives."""
    want = VERSIONS[name](torch)
    for lib in (torchlette, torchlette.torch):
        assert [VERSIONS[name](lib), VERSIONS[name](lib)] == [want, want]


#: Writes that replace elements of x by elements of b.
OVERWRITES: dict[str, Callable[[Any, Tensor, Tensor], Any]] = {
    "x[:] = b": lambda lib, x, b: x.__setitem__(slice(None), b),
    "x[...] = b": lambda lib, x, b: x.__setitem__(..., b),
    "x[...] = b[0]": lambda lib, x, b: x.__setitem__(..., b[0]),
    "x[1:] = b[1:]": lambda lib, x, b: x.__setitem__(slice(1, None), b[1:]),
    "x[index] = b": lambda lib, x, b: x.__setitem__(lib.arange(3), b),
    "x[mask] = b[0, 0]": lambda lib, x, b: x.__setitem__(lib.ones(3, 4) > 0, b[0, 0]),
    "x.copy_(b)": lambda lib, x, b: x.copy_(b),
    "x.copy_(x)": lambda lib, x, b: x.copy_(x),
    "a view of x is overwritten with x": lambda lib, x, b: (x.view(3, 4), x.mul_(2))[0].copy_(x),
    "x.fill_(b[0, 0])": lambda lib, x, b: x.fill_(b[0, 0]),
    "x.zero_()": lambda lib, x, b: x.zero_(),
}


@pytest.mark.parametrize("case", OVERWRITES)
def test_the_gradient_of_overwritten_elements_is_zero(case: str) -> None:
    """What was computed before the write gets zeros, not None, and its hooks are called, as in PyTorch."""
    seen = []
    for lib in (torch, torchlette.torch):
        a, b = (lib.full((3, 4), v, requires_grad=True) for v in (1.0, 2.0))
        x = a * 2
        hooked: list[Any] = []
        x.register_hook(lambda g, hooked=hooked: hooked.append(g.tolist()))
        OVERWRITES[case](lib, x, b)
        (x * 3).sum().backward()
        seen.append([a.grad.tolist(), b.grad if b.grad is None else b.grad.tolist(), hooked])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("case", [c for c in OVERWRITES if re.search(r"\bb\b", c)])
def test_overwriting_with_a_value_of_another_shape_raises(case: str) -> None:
    """A value that does not fit leaves x as it was."""
    for lib in (torch, torchlette.torch):
        x, b = lib.ones(3, 4), lib.zeros(5, 5, 7)
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            OVERWRITES[case](lib, x, b)
        assert x.tolist() == [[1.0] * 4] * 3


def test_a_write_through_data_is_not_seen_by_backward() -> None:
    """The gradient is that of the forward pass as it ran; a write through the tensor itself is an error."""
    for _ in range(2):
        w = torchlette.ones(3, requires_grad=True)
        y, z = w * w, w.exp()
        w.data.add_(1)
        z.data.zero_()
        (y + z).sum().backward()
        assert w.tolist() == [2.0] * 3
        assert w.grad.tolist() == pytest.approx([2 + math.e] * 3)
        z = torchlette.ones(3, requires_grad=True).exp()
        z.detach().zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()


def test_views_are_not_detached_in_place() -> None:
    for lib in (torch, torchlette):
        with pytest.raises(RuntimeError, match="Can't detach views in-place"):
            lib.ones(2, 3).t().detach_()


def test_the_base_of_a_view_is_the_tensor_that_was_viewed() -> None:
    for lib in (torch, torchlette.torch):
        y = lib.ones(2, 3, requires_grad=True)
        assert y._base is None and y.detach()._is_view() == (y.detach()._base is not None)
        plain = lib.arange(6.0).clone()
        assert plain[1:]._base is plain and plain[1:].view(5, 1)._base is plain
        data = y.data
        x, z = y[1], y.t()[0].view(-1)
        assert x._base is y and z._base is y and data is not y


def test_views_outlive_their_base() -> None:
    y = torchlette.torch.arange(6.0).reshape(2, 3).clone()
    x, z = y[1], y.t()[0]
    alias = y.data
    del y
    assert x._base is alias
    del alias
    y = x._base
    assert x._base is z._base and y.shape == (6,)
    y = y.view(2, 3)
    x._base[3] = 9
    assert y[1, 0].item() == 9


#: Writes of a part of a tensor to the tensor itself. The value is expanded first, so it may be one that is written to.
OWN_PARTS: dict[str, Callable[[Tensor], Any]] = {
    "an element to its row": lambda x: x.__setitem__(0, x[0][1]),
    "a slice of one element to its row": lambda x: x.__setitem__(0, x[0][1:2]),
    "a row to all rows": lambda x: x.__setitem__(slice(None), x[1]),
    "an element where a mask holds": lambda x: x.__setitem__(x > 1, x[1, 1]),
    "an element to all": lambda x: x.__setitem__(Ellipsis, x[1, 1]),
    "masked_fill_": lambda x: x.masked_fill_(x > 1, x[1, 1]) is None,
    "a row moved by one": lambda x: x[0].__setitem__(slice(1, None), x[0, :-1]),
    "copy_ of an element": lambda x: x[0].copy_(x[0][0]) is None,
}


@pytest.mark.parametrize("name", OWN_PARTS)
def test_writes_of_a_part_of_a_tensor_to_itself(name: str) -> None:
    found = []
    for lib in (torch, torchlette.torch):
        x = lib.arange(6.0).reshape(2, 3)
        try:
            OWN_PARTS[name](x)
        except RuntimeError as error:
            found.append(str(error).partition("Please")[0])
        else:
            found.append(x.tolist())
    assert found[0] == found[1]
