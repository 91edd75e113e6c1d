"""Calls of modules with substituted parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from torchlette import _C
from torchlette.nn.parameter import Parameter

__all__ = ["functional_call"]

Tensor = _C.Tensor
_ABSENT = object()


def _place(module: Any, path: str, value: Any) -> tuple[dict[str, Any], str]:
    """Return the table that holds the parameter, buffer or attribute at a dotted path, or would hold ``value``, and its
    name there.
    """
    parent, _, name = path.rpartition(".")
    owner = module.get_submodule(parent)
    for table in (owner._parameters, owner._buffers):
        if name in table:
            return table, name
    known = getattr(owner, name, None)
    if known is not None and not isinstance(known, Tensor):
        raise TypeError(f"attribute `{name}`: {known} is not an instance of torch.Tensor")
    return owner._parameters if isinstance(value, Parameter) else owner.__dict__, name


def _with_ties(module: Any, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Extend the replacements to all names of tensors that ``module`` registers more than once."""
    names: dict[int, list[str]] = {}
    for members in (module.named_parameters, module.named_buffers):
        for name, tensor in members(remove_duplicate=False):
            names.setdefault(id(tensor), []).append(name)
    result = dict(tensors)
    for same in names.values():
        given = {id(tensors[name]): tensors[name] for name in same if name in tensors}
        if len(given) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {same}, which are tied. Consider using tie_weights=False"
            )
        for value in given.values():
            result.update(dict.fromkeys(same, value))
    return result


@contextmanager
def _replaced(module: Any, tensors: Mapping[str, Tensor | None], given: Any) -> Iterator[None]:
    """Put tensors into the module, and what it had back. What the module has assigned meanwhile goes into ``given``."""
    before: list[tuple[str, dict[str, Any], str, Any]] = []
    try:
        for path, value in tensors.items():
            if not isinstance(value, Tensor) and value is not None:
                raise TypeError(f"{value} is not an instance of torch.Tensor")
            table, name = _place(module, path, value)
            before.append((path, table, name, table.get(name, _ABSENT)))
            table[name] = value
        yield
    finally:
        for path, table, name, value in reversed(before):
            assigned = table.get(name)
            if assigned is not tensors[path] and isinstance(given, MutableMapping) and path in given:
                given[path] = assigned
            if value is _ABSENT:
                table.pop(name, None)
            else:
                table[name] = value


def functional_call(
    module: Any,
    parameters_and_buffers: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call ``module`` with tensors substituted for its parameters and buffers; gradients flow into them.

    Args:
        module: The module.
        parameters_and_buffers: Path -> tensor or None, or several such dictionaries. A tensor that the module has as
            an attribute, or does not have, is substituted too. What the module assigns in the call goes into the
            dictionary, if there is only one, and not into the module.
        args: Arguments, a tuple or a single one.
        kwargs: Keyword arguments.
        tie_weights: Whether a tensor replaces a tied parameter under all of its names.
        strict: Raise unless exactly the module's parameters and buffers are given.
    """
    tensors: dict[str, Tensor] = {}
    for part in [parameters_and_buffers] if isinstance(parameters_and_buffers, Mapping) else parameters_and_buffers:
        if repeated := tensors.keys() & part.keys():
            raise ValueError(
                f"{sorted(repeated)} appeared in multiple dictionaries; behavior of functional call is ambiguous"
            )
        tensors.update(part)
    if tie_weights:
        tensors = _with_ties(module, tensors)
    if strict:
        names = {
            name
            for members in (module.named_parameters, module.named_buffers)
            for name, _ in members(remove_duplicate=False)
        }
        problems = [
            f"\n\t{kind} key(s): {', '.join(map(repr, sorted(keys)))}."
            for kind, keys in (("Unexpected", tensors.keys() - names), ("Missing", names - tensors.keys()))
            if keys
        ]
        if problems:
            raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:{''.join(problems)}")
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, tensors, parameters_and_buffers):
        return module(*args, **(kwargs or {}))
