"""Bodies of loops: traced once, compared with what the loop carries, and called by the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime import forward
from torchlette.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

__all__ = ["Body", "BodyTypeError", "Tree", "check_carry", "flatten", "like_elements", "trace", "type_text"]

Tensor = _C.Tensor


class Tree:
    """Containers without their tensors. ``None`` is a container without leaves, as in JAX."""

    __slots__ = ("absent", "spec")

    def __init__(self, spec: TreeSpec, absent: tuple[bool, ...]) -> None:
        self.spec, self.absent = spec, absent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self.spec == other.spec and self.absent == other.absent

    def __hash__(self) -> int:
        return hash((self.spec, self.absent))

    def build(self, tensors: Sequence[Any]) -> Any:
        """Return the tree with these tensors."""
        left = iter(tensors)
        return tree_unflatten([None if absent else next(left) for absent in self.absent], self.spec)

    def __repr__(self) -> str:
        return repr(self.build(["*"] * self.absent.count(False)))

    def paths(self) -> list[str]:
        """Return how each tensor is reached from the root, as in ``['h'][0]``."""
        found: list[str] = []

        def walk(spec: TreeSpec, path: str) -> None:
            if spec.is_leaf():
                found.append(path)
            for n, child in enumerate(spec.children_specs):
                walk(child, f"{path}[{spec.context[n] if spec.type is dict else n!r}]")

        walk(self.spec, "")
        return [path for path, absent in zip(found, self.absent, strict=True) if not absent]


class BodyTypeError(TypeError):
    """A body returns values of other types than its loop needs."""


def flatten(what: str, value: Any) -> tuple[list[Tensor], Tree]:
    """Return the tensors of a tree; Python numbers become tensors without dims."""
    leaves, spec = tree_flatten(value)
    tensors = []
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            tensors.append(leaf)
        elif isinstance(leaf, (bool, int, float)):
            tensors.append(_C.tensor(leaf))
        elif leaf is not None:
            raise BodyTypeError(f"{what}: a leaf is of {type(leaf)}, want a tensor or a number")
    return tensors, Tree(spec, tuple(leaf is None for leaf in leaves))


class Body:
    """A traced body.

    Args:
        number: The body's number in the engine.
        types: Shape, dtype and device of each result.
        tree: The results' structure.
    """

    __slots__ = ("number", "tree", "types")

    def __init__(self, number: int, types: list[tuple[Any, Any, Any]], tree: Tree) -> None:
        self.number, self.types, self.tree = number, types, tree

    def __del__(self, free: Callable[[int], None] = _C._captured_free) -> None:
        free(self.number)

    def loop(
        self, carries: Sequence[Tensor], xs: Sequence[Tensor], length: int, reverse: bool = False, ends: bool = False
    ) -> list[Tensor]:
        """Record the loop; return the last carries, and the stacked results.

        Args:
            carries: The first carries.
            xs: Tensors whose elements along the first dim the iterations take apart.
            length: The number of iterations.
            reverse: Whether iterations go from the last element to the first.
            ends: Whether the loop ends where the first carry is false.
        """
        operands = [_as_real(t) for t in (*carries, *xs)]
        outs = _C._loop(self.number, operands, len(carries), len(xs), length, reverse, ends, len(self.types))
        return [
            _C.view_as_complex(out) if dtype.is_complex else out
            for out, (_, dtype, _) in zip(outs, self.types, strict=True)
        ]


def _as_real(t: Tensor) -> Tensor:
    """Return a complex tensor as pairs of numbers, which is what the engine's loops carry."""
    return _C.view_as_real(t) if t.is_complex() else t


def like_elements(xs: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors like the elements of ``xs`` along the first dim; nothing computes them."""
    return [x.new_empty(x.shape[1:]) for x in xs]


def trace(what: str, f: Callable[[list[Tensor]], Any], like: Sequence[Tensor], *, fresh: bool = False) -> Body:
    """Trace ``f`` on placeholders like tensors. All floating-point ones require a gradient if gradients are recorded.

    Args:
        what: The function's name in errors.
        f: The body.
        like: Tensors like the first carries and the elements of xs.
        fresh: Whether the results after the first are carries that the body does not read.
    """
    tracked = _C.is_grad_enabled()
    args = [_as_real(t.new_empty(t.shape)) for t in like]
    args = [t.new_empty(t.shape, requires_grad=tracked and t.is_floating_point()) for t in args]
    stand_ins = _C._body_begin(args)
    try:
        elements = [_C.view_as_complex(s) if t.is_complex() else s for s, t in zip(stand_ins, like, strict=True)]
        with forward.above():
            leaves, tree = flatten(what, f(elements))
        types = [(t.shape, t.dtype, t.device) for t in leaves]
        leaves = [_as_real(leaf) for leaf in leaves]
    except BaseException:
        _C._body_end(None, 0)
        raise
    return Body(_C._body_end(leaves, len(leaves) - 1 if fresh else 0), types, tree)


def type_text(t: Tensor) -> str:
    """Return dtype and shape, as in float32[2, 3]."""
    return f"{str(t.dtype).rpartition('.')[2]}{list(t.shape)}"


def check_carry(what: str, carry: Any, given: Sequence[Tensor], tree: Tree) -> None:
    """Raise JAX's error unless the carry that a body returns has the types of the one that it got.

    Args:
        what: The function's name in errors.
        carry: The body's result.
        given: The tensors of the carry that it got.
        tree: Their structure.
    """
    got, got_tree = flatten(what, carry)
    if got_tree != tree:
        raise BodyTypeError(
            f"{what} function carry input and carry output must have the same pytree structure, but they differ: the "
            f"input carry is {tree}, and the output carry is {got_tree}."
        )
    wrong = [
        f"  * the input carry component carry{path} has type {type_text(a)} but the corresponding output carry "
        f"component has type {type_text(b)}"
        for path, a, b in zip(tree.paths(), given, got, strict=True)
        if a.dtype != b.dtype or a.shape != b.shape or a.device != b.device
    ]
    if wrong:
        raise BodyTypeError(
            f"{what} function carry input and carry output must have equal types (e.g. shapes and dtypes of tensors), "
            "but they differ:\n\n" + "\n".join(wrong) + "\n\nRevise the function so that all output types match the "
            "corresponding input types."
        )
