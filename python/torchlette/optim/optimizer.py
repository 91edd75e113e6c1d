"""The base class of optimizers."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any, TypeAlias

from torchlette import _C
from torchlette._runtime.errors import OutOfMemoryError, Unsupported
from torchlette._runtime.supplied import Supply
from torchlette.autograd import enable_grad, set_grad_enabled

# Optimizers of other packages import these from here.
from torchlette.optim.conventions import (  # noqa: F401
    _capturable_doc,
    _default_to_fused_or_foreach,
    _device_dtype_check_for_fused,
    _differentiable_doc,
    _disable_dynamo_if_unsupported,
    _dispatch_sqrt,
    _foreach_doc,
    _functional_api_doc,
    _fused_doc,
    _get_capturable_supported_devices,
    _get_scalar_dtype,
    _get_value,
    _maximize_doc,
    _params_doc,
    _stack_if_compiling,
    _to_scalar,
    _use_grad_for_differentiable,
    _view_as_real,
)
from torchlette.optim.overflow import Overflow, SharedNumbers
from torchlette.utils.hooks import RemovableHandle

__all__ = ["Optimizer", "ParamsT", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

Tensor = _C.Tensor
#: The first argument of optimizers: parameters, groups, or (name, parameter) pairs.
ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]


class _Required:
    """The default of an option that every group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
_UNORDERED = (
    "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets will change "
    "between runs. Please use a list instead."
)


def as_number(value: Any) -> float:
    """Return an option as a Python number; a tensor is read."""
    return value.item() if isinstance(value, Tensor) else value


def as_rate(lr: Any) -> float:
    """Return a learning rate as a Python number; a tensor of one element is read, one of several is a ValueError."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    return as_number(lr)


def host_number(value: float, fused: bool = False) -> Tensor:
    """Return a number as state: a 0-dim CPU tensor of PyTorch's dtype for it."""
    double = _C.get_default_dtype() == _C.float64 and not fused
    return _C.tensor(float(value), dtype=_C.float64 if double else _C.float32, device="cpu")


def _read_outside(value: Tensor) -> float:
    """Read a tensor outside of compiled regions: it is no part of what they compute."""
    before = _C._set_compiled(0)
    try:
        return value.item()
    finally:
        _C._set_compiled(before)


def option(group: dict[str, Any], name: str) -> Any:
    """Return an option as a Python number; a tensor is read. In a capture each call supplies it."""
    supply, value = Supply.current(), group[name]
    is_tensor = isinstance(value, Tensor)
    if supply is None:
        return _read_outside(value) if is_tensor else value
    now = _C._peek([value]) if is_tensor else (value,)
    return supply.leaves((id(group), name), lambda: (option(group, name),), now)[0]


def count_steps(entries: list[dict[str, Any]]) -> list[float]:
    """Add one to each step count in place, without recording it; return the new counts."""
    steps = [entry["step"] for entry in entries]
    supply = Supply.current()
    if supply is not None:
        counted = [step + 1 for step in supply.read(steps)]
        supply.write(steps, counted)
        return counted
    try:
        return _C._count(steps)
    except TypeError:  # a number that the program stored before the first step
        for entry in entries:
            if not isinstance(entry["step"], Tensor):
                entry["step"] = host_number(entry["step"])
        return _C._count([entry["step"] for entry in entries])


DeviceDict: TypeAlias = dict[Any, Tensor]
DeviceDtypeDict: TypeAlias = dict[Any, Tensor]

# Hooks of the steps of all optimizers.
_global_optimizer_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()


def _add_hook(table: OrderedDict[int, Any], hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(table)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before each step of every optimizer.

    It runs before the optimizer's own hooks. It may return new ``(args, kwargs)``.
    """
    return _add_hook(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after each step of every optimizer, behind the optimizer's own hooks."""
    return _add_hook(_global_optimizer_post_hooks, hook)


class Optimizer:
    """Base class: parameter groups, state and their saved form.

    A subclass implements :meth:`_update`; hooks, the closure, gradient mode and the flush of
    recorded work are handled here.

    Args:
        params: Parameters, (name, parameter) pairs, or groups: dictionaries with the key ``params``.
        defaults: Options of groups that do not give them.
    """

    @staticmethod
    def _group_tensors_by_device_and_dtype(
        tensorlistlist: list[list[Any]], with_indices: bool = False
    ) -> dict[Any, tuple[list[list[Any]], list[int]]]:
        """Group parallel lists by device and dtype of the first list's tensors; third-party optimizers call this.

        Returns:
            A dictionary (device, dtype) -> (parts of all lists, the indices of their elements if ``with_indices``).
        """
        groups: dict[Any, tuple[list[list[Any]], list[int]]] = {}
        for place, row in enumerate(
            zip(*(ts or [None] * len(tensorlistlist[0]) for ts in tensorlistlist), strict=True)
        ):
            columns, places = groups.setdefault((row[0].device, row[0].dtype), ([[] for _ in tensorlistlist], []))
            for column, value, whole in zip(columns, row, tensorlistlist, strict=True):
                if whole:
                    column.append(value)
            if with_indices:
                places.append(place)
        return groups

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        """Make the groups."""
        self.defaults = defaults
        self._make_hook_tables()
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(
                f"params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{type(params).__name__}"
            )
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        if isinstance(params, set):
            warnings.warn(f"{_UNORDERED} This will be an error in a future release.", FutureWarning, stacklevel=3)
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(dict(group) if isinstance(group, dict) else group)

    def _make_hook_tables(self) -> None:
        for table in (
            "_optimizer_step_pre_hooks",
            "_optimizer_step_post_hooks",
            "_optimizer_state_dict_pre_hooks",
            "_optimizer_state_dict_post_hooks",
            "_optimizer_load_state_dict_pre_hooks",
            "_optimizer_load_state_dict_post_hooks",
        ):
            setattr(self, table, OrderedDict())

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._make_hook_tables()
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)
        seen: set[int] = set()
        for entry in self.state.values():
            for key in self._NUMBERS:
                number = entry.get(key, seen)
                if number is seen:
                    continue
                if not isinstance(number, Tensor):
                    entry[key] = host_number(number)
                elif number.device.type != "cpu" or id(number) in seen:
                    entry[key] = _C.tensor(number.item(), dtype=number.dtype, device="cpu")
                seen.add(id(number))

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            options = "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
            text += f"\nParameter Group {i}\n{options}"
        return text + ")"

    # Steps -------------------------------------------------------------------------------

    # What a subclass outside of this package may override to change a step.
    _STEP_PARTS = frozenset(("step", "_run", "_update", "_update_group", "_start", "_begin", "_rates", "_step"))
    # The numbers of the state while steps may overflow; None while they lie on the host.
    _on_device: SharedNumbers | None = None
    # Whether a step runs.
    _in_step = False

    def _update(self, overflow: Overflow | None) -> None:
        """Record the update of all parameters that have a gradient. With ``overflow`` it must write nothing if the
        gradients overflowed.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement the update of an optimizer step")

    #: Options that the update takes through :func:`option`.
    _SUPPLIED: frozenset[str] = frozenset()

    def _supplied(self) -> frozenset[str]:
        """Return the options that may change between the calls of a captured function."""
        return self._SUPPLIED if self._is_own() else frozenset()

    def _is_own(self) -> bool:
        """Return whether the step is one of this package, without code of others around it."""
        if "step" in vars(self) or self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks:
            return False
        if _global_optimizer_pre_hooks or _global_optimizer_post_hooks:
            return False
        base = self._base()
        kinds = type(self).__mro__
        outer = kinds[: kinds.index(base)]
        return base is not Optimizer and not any(self._STEP_PARTS & vars(kind).keys() for kind in outer)

    def _base(self) -> type:
        """Return the first class of this package among the optimizer's."""
        return next(kind for kind in type(self).__mro__ if kind.__module__.startswith("torchlette.optim."))

    def _selects(self) -> bool:
        """Return whether :meth:`step` leaves out overflowed steps by itself, given ``found_inf``.

        Only the steps of this package do: overridden methods and hooks run only for steps that are taken.
        """
        return self._is_own() and not self.defaults.get("differentiable")

    def _run(self, closure: Callable[[], Any] | None) -> Any:
        """Evaluate the closure, if there is one, and update the parameters once."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        found = getattr(self, "found_inf", None)
        if found is not None and Supply.current() is not None:
            raise Unsupported("a captured function steps an optimizer by a GradScaler: call scaler.step outside of it")
        with set_grad_enabled(bool(self.defaults.get("differentiable"))):
            if found is None:
                self._leave_device()
                self._update(None)
            else:
                self._on_device = self._on_device or SharedNumbers()
                self._on_device.begin()
                self._update(Overflow(found))
                self._on_device.finish(list(self.state.values()))
        return loss

    def _leave_device(self) -> None:
        """Move the numbers of the state back to the host, after steps that could overflow."""
        if self._on_device is not None:
            self._on_device.leave(list(self.state.values()))
            self._on_device = None

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """Return a ``step`` with the hooks around it; the recorded work starts after them.

        A step that is called within another of the same optimizer, as by ``super().step()``, has neither.
        """

        @functools.wraps(func)
        def step(*args: Any, **kwargs: Any) -> Any:
            self = args[0]
            if self._in_step:
                return func(*args, **kwargs)
            for hook in (*_global_optimizer_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
                replaced = hook(self, args, kwargs)
                if replaced is not None:
                    if not (isinstance(replaced, tuple) and len(replaced) == 2):
                        raise RuntimeError(
                            f"{func} must return None or a tuple of (new_args, new_kwargs), but got {replaced}."
                        )
                    args, kwargs = replaced
            self._in_step = True
            try:
                result = func(*args, **kwargs)
            finally:
                del self._in_step
            self._opt_called = True
            for hook in (*self._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
                hook(self, args, kwargs)
            self._start_recorded()
            return result

        step.hooked = True  # type: ignore[attr-defined]
        return step

    def _patch_step_function(self) -> None:
        """Put the hooks around the step that a subclass of another package defines."""
        kind = type(self)
        if not getattr(kind.step, "hooked", False):
            kind.step = Optimizer.profile_hook_step(kind.step)  # type: ignore[method-assign]

    def _accelerator_graph_capture_health_check(self) -> None:
        """Do nothing: any step may be captured. Steps of other packages call this."""

    _cuda_graph_capture_health_check = _accelerator_graph_capture_health_check

    def _start_recorded(self) -> None:
        try:
            _C.flush()
        except OutOfMemoryError:
            if self._base() is not Optimizer:
                self._take_back()
            raise

    @profile_hook_step
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters and start the recorded work.

        Args:
            closure: Computes the loss and the gradients again.

        Returns:
            The loss that ``closure`` returned, else ``None``.
        """
        return self._run(closure)

    def _take_back(self) -> None:
        """Undo the last step's counts: its updates could not be computed, and the engine has undone them."""
        if self._on_device is not None:
            self._on_device.take_back()
            return
        for p, entry in self.state.items():
            if "step" in entry and isinstance(p, Tensor) and p.grad is not None:
                entry["step"] -= 1

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters, to ``None`` or to zero."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif (grad := p.grad) is not None:
                    if grad.requires_grad:
                        p.grad = grad = grad.detach()
                    grad.zero_()

    # Hooks -------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step."""
        return _add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return _add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., None], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before the state is collected."""
        return _add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after the state is collected; its result replaces the state."""
        return _add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading; its result replaces the state."""
        return _add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return _add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # Saved form --------------------------------------------------------------------------

    def _all_params(self) -> list[Tensor]:
        return list(chain.from_iterable(group["params"] for group in self.param_groups))

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the groups, parameters numbered in order."""
        for hook in list(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        number: dict[int, int] = {}
        for p in self._all_params():
            number.setdefault(id(p), len(number))
        groups = [
            {**{k: v for k, v in g.items() if k != "params"}, "params": [number[id(p)] for p in g["params"]]}
            for g in self.param_groups
        ]
        state = {number[id(p)] if isinstance(p, Tensor) else p: entry for p, entry in self.state.items()}
        saved: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in list(self._optimizer_state_dict_post_hooks.values()):
            replaced = hook(self, saved)
            saved = saved if replaced is None else replaced
        return saved

    # State entries that are numbers: 0-dim tensors that stay on the CPU for parameters on any device.
    _NUMBERS: tuple[str, ...] = ()

    def _load_state(self, entry: Any, param: Tensor) -> Any:
        if not isinstance(entry, dict):
            return entry
        numbers = {"step", *self._NUMBERS}
        return {k: self._load_number(k, v) if k in numbers else self._load_value(v, param) for k, v in entry.items()}

    def _load_number(self, key: str, value: Any) -> Any:
        """Return a copy of a loaded number in its dtype; step counts are moved to the CPU."""
        if not isinstance(value, Tensor):
            return deepcopy(value)
        if key not in self._NUMBERS:
            return value.detach().clone()
        return _C.tensor(value.item(), dtype=value.dtype, device="cpu")

    def _load_value(self, value: Any, param: Tensor) -> Any:
        """Return a copy of a loaded value; tensors take the parameter's device and, if floating, its dtype."""
        if isinstance(value, list):
            return [self._load_value(item, param) for item in value]
        if not isinstance(value, Tensor):
            return deepcopy(value)
        value = value.detach().clone()
        return value.to(param.device, param.dtype if param.is_floating_point() or param.is_complex() else value.dtype)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state and options that :meth:`state_dict` returned, here or in PyTorch."""
        state_dict = dict(state_dict)
        for hook in list(self._optimizer_load_state_dict_pre_hooks.values()):
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        groups = deepcopy(state_dict["param_groups"])
        if len(groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(
            len(mine["params"]) != len(saved["params"]) for mine, saved in zip(self.param_groups, groups, strict=True)
        ):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        numbers = chain.from_iterable(group["params"] for group in groups)
        by_number = dict(zip(numbers, self._all_params(), strict=True))
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for key, entry in state_dict["state"].items():
            if key in by_number:
                state[by_number[key]] = self._load_state(entry, by_number[key])
            else:
                state[key] = entry
        for mine, saved in zip(self.param_groups, groups, strict=True):
            saved["params"] = mine["params"]
            if "param_names" in mine and "param_names" not in saved:
                saved["param_names"] = mine["param_names"]
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in list(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    # Groups ------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group: a dictionary with the key ``params`` and options."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(_UNORDERED)
        param_group["params"] = self._named(list(params), param_group)
        for p in param_group["params"]:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len({id(p) for p in param_group["params"]}) != len(param_group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error",
                UserWarning,
                stacklevel=3,
            )
        taken = {id(p) for p in self._all_params()}
        if any(id(p) in taken for p in param_group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def _named(self, params: list[Any], group: dict[str, Any]) -> list[Any]:
        """Split (name, parameter) pairs: the names go into the group."""
        named = [isinstance(p, tuple) for p in params]
        if any(named):
            if not all(named):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            group["param_names"] = [name for name, _ in params]
            params = [p for _, p in params]
        if self.param_groups and ("param_names" in self.param_groups[0]) != ("param_names" in group):
            kind = "with" if "param_names" in group else "without"
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {kind} names to the optimizer"
            )
        return params


def check_options(checks: Iterable[tuple[bool, str]]) -> None:
    """Raise ValueError with the text of the first check that fails."""
    for ok, message in checks:
        if not ok:
            raise ValueError(message)
