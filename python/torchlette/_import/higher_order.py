"""Functions of graphs in exported graphs: conditions, loops, and blocks under a mode or under ``vmap``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C
from torchlette._import import aten
from torchlette._import.module import Ref, Step, run_steps, with_last_uses
from torchlette._import.read_numbers import plain
from torchlette._import.recording import Compared, choose
from torchlette._runtime.levels import level_of
from torchlette.autograd.grad_mode import set_grad_enabled

__all__ = ["HIGHER", "MAPPED", "Block"]

Tensor = _C.Tensor


def _cond(parts: list[Any], device: Any, pred: Any, *rest: Any) -> Any:
    yes, no = parts
    operands = rest[2] if len(rest) > 2 else []
    pred = pred.make(device) if isinstance(pred, Compared) else plain(pred)
    if not isinstance(pred, Tensor):
        return (yes if pred else no)(device, *operands)
    return choose(pred, lambda: yes(device, *operands), lambda: no(device, *operands))


def _at(parts: list[Any], args: Sequence[Any]) -> int:
    return next(i for i, arg in enumerate(args) if arg is parts[0])


def _inlined(parts: list[Any], device: Any, *args: Any, **kwargs: Any) -> Any:
    """A graph where it stands, as of ``checkpoint``."""
    return parts[0](device, *args[_at(parts, args) + 1 :])


def _named(parts: list[Any], device: Any, *args: Any) -> Any:
    """``invoke_subgraph``: the graph, its name, and the operands."""
    return parts[0](device, *args[_at(parts, args) + 2 :])


def _hinted(parts: list[Any], device: Any, body: Any, operands: Any, *rest: Any, **kwargs: Any) -> Any:
    return parts[0](device, *operands)


def _graded(parts: list[Any], device: Any, enabled: bool, *args: Any) -> Any:
    """A block of ``no_grad`` or ``enable_grad``."""
    with set_grad_enabled(enabled):
        return _inlined(parts, device, *args)


def _autocast(parts: list[Any], device: Any, kind: str, dtype: Any, enabled: bool, *args: Any) -> Any:
    """A block of ``autocast``, for all devices: a program is recorded on one and may run on another."""
    from torchlette.amp import autocast

    with autocast("cpu", dtype, enabled), autocast("wgpu", dtype, enabled):
        return _inlined(parts, device, *args)


def _while_loop(parts: list[Any], device: Any, cond: Any, body: Any, carry: Any, consts: Any = ()) -> Any:
    from torchlette import lax

    start = tuple(x if isinstance(x, Tensor) else _C.tensor(x, device=device) for x in map(plain, carry))
    return list(
        lax.while_loop(lambda xs: cond(device, *xs, *consts)[0], lambda xs: tuple(body(device, *xs, *consts)), start)
    )


def _scan(parts: list[Any], device: Any, combine: Any, init: Any, xs: Any, more: Any = ()) -> Any:
    from torchlette import lax

    def step(state: Any, elements: Any) -> Any:
        found = combine(device, *state, *elements, *more)
        return tuple(found[: len(init)]), tuple(found[len(init) :])

    last, ys = lax.scan(step, tuple(init), tuple(xs))
    return [*last, *ys]


def _map(parts: list[Any], device: Any, body: Any, xs: Any, more: Any = ()) -> Any:
    from torchlette import lax

    return list(lax.map(lambda elements: tuple(body(device, *elements, *more)), tuple(xs)))


def _with_effects(parts: list[Any], device: Any, token: Any, target: str, *args: Any, **kwargs: Any) -> Any:
    """An operator whose order counts; tokens, which hold it, are nothing here."""
    call = aten.find(target)
    if call is None:
        raise NotImplementedError(f"the operator {target} is not supported")
    found = call(*args, **kwargs)
    return [None, *(found if isinstance(found, (list, tuple)) else [found])]


#: By name in ``torch.ops.higher_order``; a function gets its graphs, the device, and the node's arguments.
HIGHER: dict[str, Callable[..., Any]] = {
    "cond": _cond,
    "hints_wrapper": _hinted,
    "invoke_subgraph": _named,
    "map_impl": _map,
    "scan": _scan,
    "tag_activation_checkpoint": _inlined,
    "while_loop": _while_loop,
    "with_effects": _with_effects,
    "wrap": _inlined,
    "wrap_with_autocast": _autocast,
    "wrap_with_set_grad_enabled": _graded,
}


class Block:
    """The nodes of an exported graph that are under one level of ``vmap``, as a function of what they read.

    Args:
        number: How deep the level is, from 1; nodes name it by :func:`level_name`.
        steps: The nodes.
        inputs: Names of values that they read.
        outputs: Names of their results.
    """

    def __init__(self, number: int, steps: list[Step], inputs: list[Ref], outputs: list[Ref]) -> None:
        self.level, self.inputs, self.outputs = level_name(number), inputs, outputs
        self.steps = with_last_uses(steps, outputs)

    def __call__(self, size: int, randomness: str, *values: Any) -> list[Any]:
        """Return the results, of which those of ``_remove_batch_dim`` may be read outside."""
        with level_of(size, randomness) as level:
            env = {self.level: level, **dict(zip(self.inputs, values, strict=True))}
            run_steps(self.steps, env)
        return [env[name] for name in self.outputs]


def level_name(number: int) -> Ref:
    """Return the name of a level's number, which is known when the level runs."""
    return Ref(f"#level {number}")


#: Functions of nodes under ``vmap``, and the place of the level among their arguments.
MAPPED: dict[str, tuple[Callable[..., Any], int]] = {
    "_add_batch_dim": (lambda x, dim, level: _C._vmap_in(x, dim, level), 2),
    "_remove_batch_dim": (lambda x, level, size, dim: _C._vmap_out(x, dim, level, size), 1),
}
