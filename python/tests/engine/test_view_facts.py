"""Facts about a stored value do not carry over to its views: fills, layouts, aliases, donated storages, reads,
versions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oracle
import pytest
import torch

import torchlette.torch as facade


def _x(lib: Any, device: str, *shape: int) -> Any:
    return lib.arange(float(torch.Size(shape).numel()), device=device).reshape(shape)


def _zeros(lib: Any, device: str, *shape: int) -> Any:
    return lib.zeros(shape, device=device)


def _summed(lib: Any, device: str, shape: tuple[int, ...], *cotangents: Any) -> list[Any]:
    """Return sums of cotangents as autograd adds them, in their order and in the other one."""
    leaf = _zeros(lib, device, *shape).requires_grad_()
    return [
        lib.autograd.grad([leaf.view(shape) for _ in order], [leaf], list(order))[0]
        for order in (cotangents, cotangents[::-1])
    ]


# Zeros with a part: autograd adds the part alone.


def zeros_written_through_a_transpose(lib: Any, d: str) -> Any:
    z = _zeros(lib, d, 4, 4)
    v = z.t()[1:, ::2]
    z[1] = 5.0
    return v + 1, z


def part_in_a_transpose_of_zeros(lib: Any, d: str) -> Any:
    part = _zeros(lib, d, 4, 4).t().select_scatter(_x(lib, d, 4), 0, 1)
    return _summed(lib, d, (4, 4), part, _x(lib, d, 4, 4)), _summed(lib, d, (4, 4), part.t(), _x(lib, d, 4, 4))


def parts_of_which_one_is_transposed(lib: Any, d: str) -> Any:
    parts = [_zeros(lib, d, 4, 4).slice_scatter(_x(lib, d, 1, 4) + k, 0, k, k + 1) for k in range(4)]
    return _summed(lib, d, (4, 4), parts[0].t(), *parts[1:]), _summed(lib, d, (4, 4), *parts[:3], parts[3].t())


def part_in_a_transpose_of_a_part(lib: Any, d: str) -> Any:
    first = _zeros(lib, d, 4, 4).slice_scatter(_x(lib, d, 4, 2) + 1, 1, 0, 2)
    both = first.t().slice_scatter(_x(lib, d, 2, 4) * 3 + 1, 0, 2, 4)
    return _summed(lib, d, (4, 4), both, _zeros(lib, d, 4, 4).slice_scatter(_x(lib, d, 2, 4) + 7, 0, 0, 2))


def part_written_over_itself(lib: Any, d: str) -> Any:
    over = lib.as_strided_scatter(_zeros(lib, d, 6), lib.ones(2, 2, device=d) * 3, (2, 2), (1, 1), 1)
    return _summed(lib, d, (6,), over, _x(lib, d, 6))


def interleaved_parts(lib: Any, d: str) -> Any:
    even, odd = _zeros(lib, d, 6), _zeros(lib, d, 6)
    even[::2] = _x(lib, d, 3) + 1
    odd[1::2] = _x(lib, d, 3) + 5
    return _summed(lib, d, (6,), even, odd), _summed(lib, d, (2, 3), even.view(2, 3), odd.view(3, 2).t().reshape(2, 3))


def parts_in_other_shapes(lib: Any, d: str) -> Any:
    flat = _zeros(lib, d, 6).slice_scatter(_x(lib, d, 3) + 1, 0, 0, 3).view(2, 3)
    tall = _zeros(lib, d, 3, 2).slice_scatter(_x(lib, d, 1, 2) + 5, 0, 1, 2).view(2, 3)
    return _summed(lib, d, (2, 3), flat, tall)


# Reads, each after a write to the base.


def items_of_a_view(lib: Any, d: str) -> Any:
    x = _x(lib, d, 3, 4)
    v = x.t()[1]
    found = [v[2].item()]
    x.mul_(2)
    found.append(v[2].item())
    x[2, 1] = 100.0
    found.append(v[2].item())
    v.add_(1)
    return found, x, v


def lists_of_expanded_and_strided_views(lib: Any, d: str) -> Any:
    x = _x(lib, d, 3, 4)
    wide, strided = x[:, :1].expand(3, 4), x.as_strided((2, 2), (5, 2), 1)
    found = [wide.tolist(), strided.tolist()]
    x[:, 0] = 9.0
    found += [wide.tolist(), strided.tolist()]
    x.zero_()
    return found, wide, strided


def arrays_of_views(lib: Any, d: str) -> Any:
    x = _x(lib, d, 3, 4)
    return [v.cpu().numpy().tolist() for v in (x.t()[1:], x[::2, 1:], x[1], x[:, 1].expand(2, 3), x.flatten()[1::3])]


def dlpack_of_views(lib: Any, d: str) -> Any:
    x = _x(lib, "cpu", 3, 4)
    return [torch.from_dlpack(v).tolist() for v in (x[::2, 1:], x.t()[1:], x[1:], x[:, 1])]


def truth_of_views(lib: Any, d: str) -> Any:
    x = lib.tensor([[1, 0], [0, 0]], device=d).bool()
    return x[:, 1].any(), x[0].any(), x[1:].any(), x.t()[0].nonzero(), x[:, :1].expand(2, 3).all(1)


def numbers_of_a_column(lib: Any, d: str) -> Any:
    x = lib.tensor([[1, 77], [2, 80]], device=d)
    good = x[:, 0]
    return good.max(), x[:, 1].min(), good.unique(), good.bincount(), lib.nn.functional.one_hot(good)


# Layouts and versions.


def contiguity(lib: Any, d: str) -> Any:
    x = _x(lib, d, 3, 4)
    views = [
        x,
        x.t(),
        x[1:],
        x[:, 1:],
        x[::2],
        x[:, 0],
        x[:1, 1:],
        x[:, :1],
        x[:, :0],
        x.t()[:1],
        x[1:2, 1:2],
        x.expand(2, 3, 4),
        x[0].expand(1, 4),
    ]
    return [
        (v.is_contiguous(), v.storage_offset(), v.stride())
        for v in (*views, x.as_strided((2, 2), (2, 1)), x.t().t(), x[1:].t()[1:])
    ]


def versions(lib: Any, d: str) -> Any:
    x = _x(lib, d, 3, 4)
    v = x[1]
    w = v[::2]
    found = [t._version for t in (x, v, w)]
    w.add_(1)
    found += [t._version for t in (x, v, w)]
    x.t().mul_(2)
    x.detach().add_(1)
    return found, [t._version for t in (x, v, w, x.detach())], x


# Aliases, donated storages and exclusive ones.


def copy_of_its_transpose(lib: Any, d: str) -> Any:
    x = _x(lib, d, 4, 4)
    y = x + x.t()
    x.add_(x.clone().t())
    return x, y


def interleaved_writes(lib: Any, d: str) -> Any:
    x = _x(lib, d, 6)
    even, odd = x[::2], x[1::2]
    even.add_(odd)
    odd.mul_(even)
    return x, even, odd


def old_values_stay(lib: Any, d: str) -> Any:
    x = _x(lib, d, 6)
    y = x.view(2, 3)
    z = y.t()
    old = z + 0
    y.add_(1)
    new = z * 2
    x.neg_()
    return old, new, z


def a_view_outlives_its_base(lib: Any, d: str) -> Any:
    y = _x(lib, d, 6) * 1
    v = y[2:4]
    y.add_(10)
    kept = v.clone()
    y[3] = 0
    del y
    return v, kept, v * 2


def optimizer_steps_on_views(lib: Any, d: str) -> Any:
    base, other = _x(lib, d, 8), _x(lib, d, 4, 2)
    parts = [base[2:6].requires_grad_(), other.t().requires_grad_()]
    steps = [lib.optim.Adam(parts[:1], lr=0.5), lib.optim.SGD(parts[1:], lr=0.1, momentum=0.9)]
    for _ in range(3):
        for p, opt in zip(parts, steps, strict=True):
            opt.zero_grad()
            (p * p).sum().backward()
            opt.step()
    return base.detach(), other.detach(), parts[0].detach(), parts[1].detach()


def saved_values_of_views(lib: Any, d: str) -> Any:
    x = _x(lib, d, 4).requires_grad_()
    y = x * 1
    v = y[:2].exp()
    y[3] = 0.0
    a, b = y[:2], y[2:]
    a.mul_(3)
    (b * a + v).sum().backward()
    return x.grad, y.detach()


def products_of_views(lib: Any, d: str) -> Any:
    x, w = _x(lib, d, 5, 3), _x(lib, d, 3, 2)
    v = x[::2]
    y = (v @ w).relu()
    x[0] = -1.0
    return y, v.t().contiguous().t() @ w, (x[1:4] @ w) + x[:3, :2]


def residuals_of_other_strides(lib: Any, d: str) -> Any:
    b, p = _x(lib, d, 4, 4), _x(lib, d, 4, 4)
    return p @ p + b.t(), (p @ p).t() + b, (p @ p) + b[:1].expand(4, 4), ((p @ p).t() + 1).relu()


def sums_of_views(lib: Any, d: str) -> Any:
    x = _x(lib, d, 2, 6)
    found = x[:, ::2].sum(0), x.expand(3, 2, 6).sum(0), x.t().sum(1)
    x[0] = 1.0
    return found, x[:, 1::2].t().sum(1)


def new_data_under_a_view(lib: Any, d: str) -> Any:
    x = _x(lib, d, 3, 4)
    v = x[1]
    x.data = _x(lib, d, 2, 2) + 50
    v.add_(1)
    return x, v


def overlapping_copy(lib: Any, d: str) -> Any:
    x = _x(lib, d, 6)
    return x[1:].copy_(x[:-1])


def overlapping_out(lib: Any, d: str) -> Any:
    x = _x(lib, d, 6)
    return lib.add(x[:-1], 1, out=x[1:])


def out_that_is_the_operand(lib: Any, d: str) -> Any:
    x = _x(lib, d, 6)
    lib.add(x[1:], 1, out=x[1:])
    return x, lib.mul(x[:3], 2, out=x[3:]), x


def write_to_an_expanded_tensor(lib: Any, d: str) -> Any:
    return _x(lib, d, 3, 1).expand(3, 4).add_(1)


PROGRAMS = [
    zeros_written_through_a_transpose,
    part_in_a_transpose_of_zeros,
    parts_of_which_one_is_transposed,
    part_in_a_transpose_of_a_part,
    part_written_over_itself,
    interleaved_parts,
    parts_in_other_shapes,
    items_of_a_view,
    lists_of_expanded_and_strided_views,
    arrays_of_views,
    dlpack_of_views,
    truth_of_views,
    numbers_of_a_column,
    contiguity,
    versions,
    copy_of_its_transpose,
    interleaved_writes,
    old_values_stay,
    a_view_outlives_its_base,
    optimizer_steps_on_views,
    saved_values_of_views,
    products_of_views,
    residuals_of_other_strides,
    sums_of_views,
    new_data_under_a_view,
    overlapping_copy,
    overlapping_out,
    out_that_is_the_operand,
    write_to_an_expanded_tensor,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_program(device: str, program: Callable[[Any, str], Any]) -> None:
    """Results and errors are PyTorch's, at the first time and when its windows are replayed."""

    def outcome(lib: Any, on: str) -> Any:
        try:
            return program(lib, on)
        except RuntimeError as error:
            return error

    want = outcome(torch, "cpu")
    for _ in range(3):
        got = outcome(facade, device)
        if isinstance(want, Exception):
            assert isinstance(got, RuntimeError), f"got {got!r}, want {want!r}"
            continue
        assert not isinstance(got, Exception), f"got {got!r}"
        oracle.assert_equal(got, want)
