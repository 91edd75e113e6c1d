"""Parameters and buffers that are functions of others, with the names of ``torch.nn.utils.parametrize``.

A parametrised module gets its own class, with a property under the tensor's name. The module's ``parametrizations``
holds the underlying tensors.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torchlette import _C
from torchlette.autograd import no_grad
from torchlette.nn.modules.container import ModuleDict, ModuleList
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]

Tensor = _C.Tensor

# The values cached inside cached() blocks, by module and name, and the number of open blocks.
_cache: dict[tuple[int, str], Tensor] = {}
_caching = 0


@contextmanager
def cached() -> Iterator[None]:
    """Compute every parametrised tensor at most once inside of the block."""
    global _caching
    _caching += 1
    try:
        yield
    finally:
        _caching -= 1
        if not _caching:
            _cache.clear()


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _replace_values(tensor: Tensor, value: Tensor) -> None:
    if tensor is not value:
        tensor.data = value.detach().clone()


def _check_like(value: Any, like: Tensor, what: str) -> None:
    """Raise unless ``value`` is a tensor of the dtype and shape of ``like``."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{what} must return a tensor. Got {type(value).__name__}.")
    for kind in ("dtype", "shape"):
        have, want = getattr(value, kind), getattr(like, kind)
        if have != want:
            raise ValueError(
                f"Registering a parametrization may not change the {kind} of the tensor, unless `unsafe` flag is "
                f"enabled.\n"
                f"unparametrized {kind}: {want}\n{what} {kind}: {have}"
            )


class ParametrizationList(ModuleList):
    """The functions that make one tensor, and the tensors that the first of them takes.

    Args:
        modules: The functions, in order. ``right_inverse`` of a function computes its arguments from its value.
        original: The tensor before parametrisation.
        unsafe: Allow that dtype or shape change.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        """Compute the underlying tensors by the right inverses and register them."""
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        like = original.detach()
        with no_grad():
            new: Any = original
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:  # PyTorch's default: the identity
                        continue
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if original.dtype != new.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            _replace_values(original, new)
            _register(self, "original", original)
        else:
            for i, part in enumerate(new):
                self._register_part(i, part, original)
        if not unsafe:
            _check_like(self(), like, "A parametrization")

    def _register_part(self, i: int, part: Any, original: Tensor) -> None:
        if not isinstance(part, Tensor):
            raise ValueError(
                f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element {i} of "
                f"type {type(part).__name__}."
            )
        part = part.detach().clone() if part is original else part.detach()
        if isinstance(original, Parameter):
            part = Parameter(part, original.requires_grad)
        _register(self, f"original{i}", part.requires_grad_(original.requires_grad))

    @no_grad()
    def right_inverse(self, value: Tensor) -> None:
        """Set the underlying tensors so that the functions give ``value``."""
        new: Any = value
        for module in reversed(self):
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
            new = module.right_inverse(new)
        parts = [new] if self.is_tensor else list(new)
        if len(parts) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                f"length {len(parts)}."
            )
        for i, part in enumerate(parts):
            mine = self.original if self.is_tensor else getattr(self, f"original{i}")
            if part.dtype != mine.dtype:
                raise ValueError(
                    f"The tensor returned by `right_inverse` has dtype {part.dtype} while the original has dtype "
                    f"{mine.dtype}"
                )
            _replace_values(mine, part)

    def forward(self) -> Tensor:
        """Return the tensor."""
        x: Any = (
            (self.original,) if self.is_tensor else tuple(getattr(self, f"original{i}") for i in range(self.ntensors))
        )
        for module in self:
            x = (module(*x),)
        return x[0]


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a module has parametrised tensors, or one of this name."""
    table = getattr(module, "parametrizations", None)
    if not isinstance(table, ModuleDict):
        return False
    return len(table) > 0 if tensor_name is None else tensor_name in table


def _deepcopy(self: Module, memo: dict[int, Any]) -> Module:
    if id(self) in memo:
        return memo[id(self)]
    made = self.__new__(type(self))
    memo[id(self)] = made
    made.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return made


def _getstate(self: Module) -> Any:
    raise RuntimeError("Serialization of parametrized modules is only supported through state_dict().")


def _give_own_class(module: Module) -> None:
    cls = type(module)
    methods: dict[str, Any] = {"__getstate__": _getstate}
    if not hasattr(cls, "__deepcopy__"):
        methods["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), methods)


def _add_property(cls: type[Module], name: str) -> None:
    def get(self: Module) -> Tensor:
        if not _caching:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def put(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(cls, name, property(get, put))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Replace a parameter or buffer by ``parametrization(tensor)``; several parametrisations apply in order of
    registration.

    Args:
        module: The owner of the tensor.
        tensor_name: Its name.
        parametrization: The function. Its ``right_inverse``, if present, computes its argument from the value.
        unsafe: Allow that dtype or shape change.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            value = getattr(module, tensor_name)
            result = parametrization(value)
            _check_like(result, value, "A parametrization")
            if hasattr(parametrization, "right_inverse"):
                try:
                    back = parametrization.right_inverse(result)
                except NotImplementedError:
                    back = value
                _check_like(back, value, "parametrization.right_inverse")
        parts = module.parametrizations[tensor_name]
        parts.append(parametrization)
        parts.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        parts = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
            module.parametrizations = ModuleDict()
        _add_property(type(module), tensor_name)
        module.parametrizations[tensor_name] = parts
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrised tensor an ordinary one again, with its present value or with the original's value.

    Args:
        module: The module.
        tensor_name: The name of the tensor.
        leave_parametrized: Whether it keeps its present value; otherwise it gets the original's.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parts = module.parametrizations[tensor_name]
    if parts.is_tensor:
        original = parts.original
        if leave_parametrized:
            with no_grad():
                _replace_values(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class that a module had before it was parametrised."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)
