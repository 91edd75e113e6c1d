"""The module that an imported file becomes: tensors under the file's names, and a list of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from torchlette import _C
from torchlette._import.files import damaged
from torchlette._runtime.errors import (
    ExecutionError,
    HostReadInCompileError,
    InvalidValueError,
    NotSupportedError,
    TorchletteError,
)
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import Parameter

__all__ = ["Ref", "Step", "bound", "check_order", "names_in", "place", "run_steps", "with_last_uses"]


class Ref(str):
    """The name of a value, where an argument of a step stands for it."""


class Step(NamedTuple):
    """One call."""

    #: The name of the step, for errors.
    name: str
    #: The operator in the file.
    target: str
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    #: Names of the results, as nested as these are.
    results: Any
    #: Names of values that no later step reads.
    dead: tuple[str, ...] = ()


def bound(value: Any, env: dict[str, Any]) -> Any:
    """Return an argument with values in place of their names."""
    if type(value) is Ref:
        return env[value]
    if type(value) is list:
        return [bound(item, env) for item in value]
    return value


def names_in(value: Any) -> Iterable[Ref]:
    """Give the names in an argument, or in a list of arguments."""
    if type(value) is Ref:
        yield value
    elif type(value) in (list, tuple):
        for item in value:
            yield from names_in(item)


def with_last_uses(steps: Sequence[Step], kept: Iterable[str]) -> list[Step]:
    """Return the steps with the names that each reads last.

    Args:
        steps: In the order of execution.
        kept: Names that are needed after the last step.
    """
    seen, out = set(kept), []
    for step in reversed(steps):
        used = set(names_in(step.args)) | set(names_in(list(step.kwargs.values()))) | set(names_in(step.results))
        out.append(step._replace(dead=tuple(used - seen)))
        seen |= used
    return out[::-1]


def check_order(steps: Sequence[Step], given: Iterable[str], kept: Iterable[str]) -> None:
    """Check that each step reads only what there is before it.

    Args:
        steps: In the order of execution.
        given: Names that exist before the first step.
        kept: Names that must exist after the last one.

    Raises:
        ValueError: A value is read that no input or earlier step gives.
    """
    known = set(given)
    for step in steps:
        for name in (*names_in(step.args), *names_in(list(step.kwargs.values()))):
            if name not in known:
                raise damaged(f"step {step.name!r} ({step.target}) reads {name!r}, which no earlier step gives")
        known.update(names_in(step.results))
    for name in kept:
        if name not in known:
            raise damaged(f"the result {name!r} is given by no step")


def _store(names: Any, value: Any, env: dict[str, Any]) -> None:
    if type(names) is Ref:
        env[names] = value
    elif names is not None:
        for name, item in zip(names, value, strict=True):
            _store(name, item, env)


def run_steps(steps: Sequence[Step], env: dict[str, Any]) -> None:
    """Run steps on named values.

    Args:
        steps: In order.
        env: Values by name; gets the results, and loses what no later step reads.

    Raises:
        TorchletteError: A step failed. The text names it.
    """
    for step in steps:
        try:
            args = [bound(arg, env) for arg in step.args]
            value = step.call(*args, **{name: bound(arg, env) for name, arg in step.kwargs.items()})
            _store(step.results, value, env)
        except Exception as exc:
            raise _named(step, exc) from exc
        for name in step.dead:
            env.pop(name, None)


def _named(step: Step, exc: Exception) -> TorchletteError:
    """Return an error of the same kind whose text names the step."""
    text = f"step {step.name!r} ({step.target}): {str(exc) or type(exc).__name__}"
    if isinstance(exc, HostReadInCompileError):
        return NotSupportedError(
            f"step {step.name!r} ({step.target}): its sizes, or what comes next, depend on values of tensors, and a "
            "program has sizes that those of its inputs tell: leave what follows out of the file, or let torch.where "
            "give all places values"
        )
    if isinstance(exc, TorchletteError) and type(exc).__init__ is Exception.__init__:
        return type(exc)(text)
    if isinstance(exc, NotImplementedError):
        return NotSupportedError(text)
    if isinstance(exc, RuntimeError) and not isinstance(exc, RecursionError):
        return ExecutionError(text)
    return InvalidValueError(text)


def place(
    module: Module, name: str, value: _C.Tensor, *, parameter: bool, persistent: bool = True, trained: bool = True
) -> tuple[Module, str]:
    """Make a tensor a parameter or buffer under a name with dots, as in a ``state_dict``.

    Args:
        module: Gets modules for the parts of the name before its last dot.
        name: A name that neither equals another nor continues one after a dot; else ``#`` replaces its dots.
        value: The tensor.
        parameter: Whether it is a parameter; a parameter may share another's tensor.
        persistent: Whether a buffer is in the ``state_dict``.
        trained: Whether a parameter that is made has gradients.

    Returns:
        The module that has the tensor, and the tensor's name there.
    """
    *path, last = name.split(".")
    owner = module
    for part in path:
        child = owner._modules.get(part)
        if child is None:
            if not part or hasattr(owner, part):
                owner, last = module, name.replace(".", "#")
                break
            child = Module()
            owner.add_module(part, child)
        owner = child
    while not last or hasattr(owner, last):
        last += "#"
    if parameter:
        owner.register_parameter(last, value if isinstance(value, Parameter) else Parameter(value, trained))
    else:
        owner.register_buffer(last, value, persistent=persistent)
    return owner, last
