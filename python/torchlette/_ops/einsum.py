"""Einstein summation over permute, matmul and sum."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torchlette
from torchlette import _C
from torchlette._runtime.casts import autocast_inputs

__all__ = ["einsum"]

Tensor = _C.Tensor

# Labels of the dimensions under "...", one for each, counted from the right.
_Label = str | int


def _parse_operand(text: str, tensor: Tensor, number: int) -> list[_Label]:
    head, dots, tail = text.partition("...")
    letters = head + tail
    for letter in letters:
        if not (letter.isascii() and letter.isalpha()):
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {text.find(letter)} in the equation string, subscripts "
                f"must be in [a-zA-Z]"
            )
    hidden = tensor.ndim - len(letters)
    if hidden < 0 or (hidden and not dots):
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({len(letters)}) "
            f"{'is more than' if hidden < 0 else 'does not match'} the number of dimensions ({tensor.ndim}) for "
            f"operand {number}" + ("" if hidden < 0 else " and no ellipsis was given")
        )
    return [*head, *range(hidden, 0, -1), *tail]


def _parse_output(text: str | None, operands: list[list[_Label]]) -> list[_Label]:
    hidden = max((label for labels in operands for label in labels if isinstance(label, int)), default=0)
    counts = Counter(label for labels in operands for label in labels if isinstance(label, str))
    if text is None:
        return [*range(hidden, 0, -1), *sorted(letter for letter, n in counts.items() if n == 1)]
    head, dots, tail = text.partition("...")
    for letter in head + tail:
        if letter not in counts:
            raise RuntimeError(
                f"einsum(): output subscript {letter} does not appear in the equation for any input operand"
            )
    if any(n > 1 for n in Counter(head + tail).values()):
        letter = next(letter for letter, n in Counter(head + tail).items() if n > 1)
        raise RuntimeError(f"einsum(): output subscript {letter} appears more than once in the output")
    return [*head, *(range(hidden, 0, -1) if dots else ()), *tail]


def _sublists(args: Sequence[Any]) -> tuple[str, list[Tensor]]:
    """Translate the form ``einsum(a, [0, 1], b, [1, 2], [0, 2])`` into an equation."""

    def text(sublist: Sequence[Any]) -> str:
        letters = []
        for label in sublist:
            if label is Ellipsis:
                letters.append("...")
            elif 0 <= label < 52:
                letters.append(chr(ord("A") + label) if label < 26 else chr(ord("a") + label - 26))
            else:
                raise ValueError(f"einsum(): expected subscript {label} to be within the valid range [0, 52)")
        return "".join(letters)

    operands = list(args[0 : len(args) // 2 * 2 : 2])
    inputs = ",".join(text(sublist) for sublist in args[1::2])
    return (f"{inputs}->{text(args[-1])}" if len(args) % 2 else inputs), operands


def _diagonal(t: Tensor, labels: list[_Label]) -> tuple[Tensor, list[_Label]]:
    """Merge dimensions of one operand that carry the same label."""
    labels = list(labels)
    for label in [label for label, n in Counter(labels).items() if n > 1]:
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            if t.shape[i] != t.shape[j]:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for one operand but the sizes don't match, {t.shape[j]} "
                    f"!= {t.shape[i]}"
                )
            t = t.diagonal(0, i, j)
            labels = [x for k, x in enumerate(labels) if k not in (i, j)] + [label]
    return t, labels


def _sum_out(t: Tensor, labels: list[_Label], wanted: set[_Label]) -> tuple[Tensor, list[_Label]]:
    """Sum the dimensions whose labels appear in no other operand and not in the result."""
    dims = [i for i, label in enumerate(labels) if label not in wanted]
    if not dims:
        return t, labels
    return t.sum(dims), [label for label in labels if label in wanted]


def _contract(
    a: Tensor, la: list[_Label], b: Tensor, lb: list[_Label], wanted: set[_Label]
) -> tuple[Tensor, list[_Label]]:
    """Multiply two operands by one batched matmul, summing shared labels that appear nowhere else."""
    size_a, size_b = dict(zip(la, a.shape, strict=True)), dict(zip(lb, b.shape, strict=True))
    shared = [label for label in la if label in size_b]
    # A summed dimension of size 1 broadcasts: sum the other operand over it first, which gives the same result.
    batch = [label for label in shared if label in wanted]
    inner = [label for label in shared if label not in wanted]
    left = [label for label in la if label not in size_b]
    right = [label for label in lb if label not in size_a]

    def arrange(t: Tensor, labels: list[_Label], order: list[_Label]) -> Tensor:
        t = t.permute([labels.index(label) for label in order])
        return t.expand(
            [
                max(size_a.get(label, 1), size_b.get(label, 1))
                if 0 not in (size_a.get(label), size_b.get(label))
                else 0
                for label in order
            ]
        )

    a, b = arrange(a, la, batch + left + inner), arrange(b, lb, batch + inner + right)
    nb, nl = len(batch), len(left)
    sizes_batch, sizes_left = a.shape[:nb], a.shape[nb : nb + nl]
    sizes_right = b.shape[nb + len(inner) :]
    m, k, n = math.prod(sizes_left), math.prod(a.shape[nb + nl :]), math.prod(sizes_right)
    rows = math.prod(sizes_batch)
    if a.dtype != b.dtype:  # a sum of small integers is int64
        a, b = (t.to((a.new_empty(0) + b.new_empty(0)).dtype) for t in (a, b))
    a, b = a.reshape(rows, m, k), b.reshape(rows, k, n)
    # Autocast casts products of matrices only, so others must be no matmul.
    if k == 1:
        product = a * b
    elif not (batch or left or right) and a.is_floating_point():
        product = _C.dot(a.reshape(k), b.reshape(k))
    else:
        product = _C.matmul(a, b)
    return product.reshape([*sizes_batch, *sizes_left, *sizes_right]), batch + left + right


def _check_sizes(operands: list[Tensor], labels: list[list[_Label]]) -> None:
    sizes: dict[_Label, int] = {}
    for number, (t, names) in enumerate(zip(operands, labels, strict=True)):
        for label, size in zip(names, t.shape, strict=True):
            known = sizes.setdefault(label, size)
            if known != size and 1 not in (known, size):
                raise RuntimeError(
                    f"einsum(): subscript {label} has size {size} for operand {number} which does not broadcast with "
                    f"previously seen size {known}"
                )
            sizes[label] = size if known == 1 else known


@autocast_inputs(gpu="lower")
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sum products of operands over labelled dimensions, as in ``einsum("bij,bjk->bik", a, b)``.

    Operands are contracted from left to right, two at a time, each time by one batched matrix product.

    Args:
        equation: The labels of each operand and, after ``->``, of the result; ``...`` stands for leading batch
            dimensions. The form ``einsum(a, [0, 1], b, [1, 2], [0, 2])`` is taken too.
        operands: The tensors.
    """
    if not isinstance(equation, str):
        equation, operands = _sublists((equation, *operands))
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        return torchlette.einsum(equation, *operands[0])  # by its public name, so that classes may answer the call
    tensors = list(operands)
    if not tensors:
        raise ValueError("einsum(): must provide at least one operand")
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    texts = inputs.split(",")
    if len(texts) != len(tensors):
        more = "fewer" if len(tensors) < len(texts) else "more"
        raise RuntimeError(f"einsum(): {more} operands were provided than specified in the equation")
    labels = [_parse_operand(text, t, i) for i, (text, t) in enumerate(zip(texts, tensors, strict=True))]
    result_labels = _parse_output(output if arrow else None, labels)
    _check_sizes(tensors, labels)
    pairs = [_diagonal(t, names) for t, names in zip(tensors, labels, strict=True)]
    t, names = pairs.pop(0)
    while True:
        wanted = {*result_labels, *(label for _, other in pairs for label in other)}
        t, names = _sum_out(t, names, wanted)
        if not pairs:
            break
        u, other = pairs.pop(0)
        later = {*result_labels, *(label for _, rest in pairs for label in rest)}
        u, other = _sum_out(u, other, later | set(names))
        t, names = _contract(t, names, u, other, later)
    return t.permute([names.index(label) for label in result_labels])
