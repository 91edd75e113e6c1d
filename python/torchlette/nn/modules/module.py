"""The base class of all modules: registration, hooks, conversion and naming."""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from torchlette import _C
from torchlette.nn.modules.backward_hooks import BackwardTap
from torchlette.nn.modules.conversion import convert_parameters, parse_to, type_name
from torchlette.nn.modules.module_hooks import *  # noqa: F403
from torchlette.nn.modules.module_hooks import EVERY, registered
from torchlette.nn.modules.paths import PathMixin
from torchlette.nn.modules.signature import AnyArguments
from torchlette.nn.modules.state import _EXTRA_STATE_KEY_SUFFIX, StateDictMixin, _IncompatibleKeys  # noqa: F401
from torchlette.nn.parameter import Buffer, Parameter
from torchlette.utils.hooks import RemovableHandle

__all__ = ["Module"]


def _indent(text: str, spaces: int) -> str:
    """Indent every line of ``text`` but the first."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line for line in rest)])


def _forward_missing(self: Module, *args: Any) -> Any:
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class Module(_C._ModuleBase, PathMixin, StateDictMixin):
    """Base class of neural network modules, with the semantics of ``torch.nn.Module``.

    Parameters, buffers and submodules that are assigned to attributes are registered under
    the attribute's name.
    """

    training: bool
    dump_patches: bool = False
    call_super_init: bool = False
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, _C.Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make an empty module in training mode. Arguments are those of a further base class, where ``call_super_init``
        says that its initializer is called.
        """
        if not self.call_super_init and (args or kwargs):
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                if kwargs
                else f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        # object.__setattr__, because Module.__setattr__ needs the tables created here.
        put = super().__setattr__
        put("training", True)
        put("_parameters", {})
        put("_buffers", {})
        put("_non_persistent_buffers_set", set())
        put("_modules", {})
        for table in self._HOOK_TABLES:
            put(table, OrderedDict())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    _HOOK_TABLES = (
        "_forward_pre_hooks",
        "_forward_hooks",
        "_backward_pre_hooks",
        "_backward_hooks",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
        "_forward_pre_hooks_with_kwargs",
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
    )

    forward: Callable[..., Any] = _forward_missing

    # Calls -------------------------------------------------------------------------------

    # _ModuleBase defines __call__: it calls forward if there are no hooks, else the method below.
    __signature__ = AnyArguments()

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called: set[int] = set()
        try:
            args, kwargs = self._run_forward_pre_hooks(args, kwargs)
            tap = None
            before, after = (
                {**EVERY.backward_pre, **self._backward_pre_hooks},
                {**EVERY.backward, **self._backward_hooks},
            )
            if before or after:
                tap = BackwardTap(self, list(before.values()), list(after.values()))
                args = tap.tap_inputs(args)
            result = self.forward(*args, **kwargs)
            for key, hook in {**EVERY.forward, **self._forward_hooks}.items():
                called.add(key)
                result = self._run_forward_hook(key, hook, args, kwargs, result)
            return result if tap is None else tap.tap_outputs(result)
        except Exception:
            self._run_always_called(called, args, kwargs)
            raise

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return self._call_with_hooks(args, kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Make calls of this module compiled regions, in place; arguments are those of :func:`torchlette.compile`."""
        from torchlette._compat.compiler import compile

        self._compiled_call_impl = compile(self._call_impl, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)  # it calls this module
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for table in self._HOOK_TABLES:  # modules that older versions pickled lack some
            self.__dict__.setdefault(table, OrderedDict())

    def _run_forward_pre_hooks(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for key, hook in {**EVERY.forward_pre, **self._forward_pre_hooks}.items():
            if key in self._forward_pre_hooks_with_kwargs:
                replaced = hook(self, args, kwargs)
                if replaced is None:
                    continue
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {replaced}."
                    )
                args, kwargs = replaced
            else:
                replaced = hook(self, args)
                if replaced is not None:
                    args = replaced if isinstance(replaced, tuple) else (replaced,)
        return args, kwargs

    def _run_forward_hook(self, key: int, hook: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> Any:
        with_kwargs = key in self._forward_hooks_with_kwargs or key in EVERY.with_kwargs
        replaced = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
        return result if replaced is None else replaced

    def _run_always_called(self, called: set[int], args: Any, kwargs: Any) -> None:
        """Run the hooks registered with ``always_call`` after ``forward`` raised."""
        for key, hook in {**EVERY.forward, **self._forward_hooks}.items():
            if (key in self._forward_hooks_always_called or key in EVERY.always_called) and key not in called:
                try:
                    self._run_forward_hook(key, hook, args, kwargs, None)
                except Exception as error:
                    warnings.warn(f"a forward hook raised after forward had: {error}", stacklevel=2)

    # Hooks -------------------------------------------------------------------------------

    def _add_hook(
        self, table: dict[int, Any], hook: Any, flags: list[dict[int, bool]], prepend: bool
    ) -> RemovableHandle:
        handle = RemovableHandle(table, extra_dict=flags)
        table[handle.id] = hook
        if prepend:
            table.move_to_end(handle.id, last=False)  # type: ignore[attr-defined]
        for flag in flags:
            flag[handle.id] = True
        return handle

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before every ``forward``; its result replaces the arguments.

        Args:
            hook: The function to call; its result, unless None, replaces the last argument.
            prepend: Whether it is called before those there are.
            with_kwargs: Whether it also gets the call's keyword arguments.
        """
        flags = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return self._add_hook(self._forward_pre_hooks, hook, flags, prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after every ``forward``; its result replaces the output.

        Args:
            hook: The function to call; its result, unless None, replaces the last argument.
            prepend: Whether it is called before those there are.
            with_kwargs: Whether it also gets the call's keyword arguments.
            always_call: Whether it is called also when ``forward`` raises.
        """
        flags = [self._forward_hooks_with_kwargs] if with_kwargs else []
        if always_call:
            flags.append(self._forward_hooks_always_called)
        return self._add_hook(self._forward_hooks, hook, flags, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` when the gradients of the outputs are known."""
        return self._add_hook(self._backward_pre_hooks, hook, [], prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs are known."""
        return self._add_hook(self._backward_hooks, hook, [], prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Do what :meth:`register_full_backward_hook` does. In old PyTorch this hook saw the last operator's gradients
        only.
        """
        return self.register_full_backward_hook(hook)

    # Registration ------------------------------------------------------------------------

    def _check_new_name(self, kind: str, name: str, owned: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type_name(name)}")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in owned:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under ``name``; ``None`` reserves the name."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_new_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type_name(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param is not None and not param.is_leaf:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                f"express "
                f"'{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = registered("parameter", self, name, param)

    def register_buffer(self, name: str, tensor: _C.Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module's state but is not trained.

        Args:
            name: The name, without a dot.
            tensor: The tensor; None for a buffer that is not there yet.
            persistent: Whether ``state_dict`` has it.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_new_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, _C.Tensor):
            raise TypeError(
                f"cannot assign '{type_name(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under ``name``."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type_name(module)} is not a Module subclass")
        self._check_new_name("module", name, self._modules)
        self._modules[name] = registered("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Alias of :meth:`add_module`."""
        self.add_module(name, module)

    # Attributes --------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            owned = self.__dict__.get(table)
            if owned is not None and name in owned:
                return owned[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _forget(self, name: str, *but: str) -> None:
        """Take ``name`` out of the instance and of the tables other than ``but``."""
        self.__dict__.pop(name, None)
        for table in ("_parameters", "_buffers", "_modules"):
            if table not in but:
                self.__dict__.get(table, {}).pop(name, None)
        if "_buffers" not in but:
            self.__dict__.get("_non_persistent_buffers_set", set()).discard(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            if "_parameters" not in self.__dict__:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
            return
        parameters = self.__dict__.get("_parameters")
        if parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            parameters[name] = None
            return
        modules = self.__dict__.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_modules")
            modules[name] = registered("module", self, name, value)
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            modules[name] = None
            return
        self._set_buffer_or_attribute(name, value)

    def _set_buffer_or_attribute(self, name: str, value: Any) -> None:
        buffers = self.__dict__.get("_buffers")
        if isinstance(value, Buffer):
            if buffers is None:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            register: Any = self.register_buffer
            if "persistent" in inspect.signature(register).parameters:
                register(name, value, value.persistent)
            elif value.persistent:
                register(name, value)
            else:
                raise RuntimeError(
                    "Registering a non-persistent buffer on a Module subclass that implements register_buffer() "
                    "without the persistent argument is not allowed."
                )
        elif buffers is not None and name in buffers:
            if value is not None and not isinstance(value, _C.Tensor):
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None "
                    f"expected)"
                )
            buffers[name] = registered("buffer", self, name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[:1].isdigit())

    # Iteration ---------------------------------------------------------------------------

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[Any] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Iterate over the parameters, each once."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Iterate over (path, parameter).

        Args:
            prefix: Begins every path.
            recurse: Whether to go into the modules below.
            remove_duplicate: Whether to leave out items that were yielded before.
        """
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[_C.Tensor]:
        """Iterate over the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, _C.Tensor]]:
        """Iterate over (path, buffer).

        Args:
            prefix: Begins every path.
            recurse: Whether to go into the modules below.
            remove_duplicate: Whether to leave out items that were yielded before.
        """
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """Iterate over the immediate submodules, each once."""
        for _, child in self.named_children():
            yield child

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over (name, immediate submodule)."""
        seen: set[Module] = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def modules(self) -> Iterator[Module]:
        """Iterate over this module and all below it, each once."""
        for _, module in self.named_modules():
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Iterate over (path, module), this module first.

        Args:
            memo: Modules to leave out; those that are given are added.
            prefix: Begins every path.
            remove_duplicate: Whether to leave out items that were yielded before.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    # Conversion and modes ----------------------------------------------------------------

    def _apply(self, fn: Callable[[_C.Tensor], _C.Tensor], recurse: bool = True) -> Self:
        """Replace data, gradients and buffers by ``fn`` of them; ``__future__`` says whether parameters stay."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        convert_parameters(self, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call ``fn`` on every submodule and then on this module."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move and cast parameters and buffers: ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(other)``."""
        device, dtype = parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, and some modules "
                "might not work as expected when using complex tensors as parameters or buffers.",
                stacklevel=2,
            )

        def convert(t: _C.Tensor) -> _C.Tensor:
            cast = dtype is not None and (t.is_floating_point() or t.is_complex())
            target = dtype if cast else t.dtype
            if t.is_meta and device is not None and device.type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different device."
                )
            return t.to(t.device if device is None else device, target)

        return self._apply(convert)

    def _cast(self, dtype: Any) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Cast floating point parameters and buffers to float32."""
        return self._cast(_C.float32)

    def double(self) -> Self:
        """Cast floating point parameters and buffers to float64."""
        return self._cast(_C.float64)

    def half(self) -> Self:
        """Cast floating point parameters and buffers to float16."""
        return self._cast(_C.float16)

    def bfloat16(self) -> Self:
        """Cast floating point parameters and buffers to bfloat16."""
        return self._cast(_C.bfloat16)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move parameters and buffers to a device without copying their values."""
        return self._apply(lambda t: _C.empty_like(t, device=device), recurse)

    def cuda(self, device: Any = None) -> Self:
        """Raise if there is anything to move: there is no CUDA device."""
        return self._apply(lambda t: t.cuda(device))

    def cpu(self) -> Self:
        """Move parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def type(self, dst_type: Any) -> Self:
        """Cast all parameters and buffers to ``dst_type``."""
        return self._apply(lambda t: t.to(dst_type))

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set ``requires_grad`` of every parameter."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters, to ``None`` or to zero."""
        for param in self.parameters():
            if (grad := param.grad) is None:
                continue
            if set_to_none:
                param.grad = None
                continue
            if grad.requires_grad:
                param.grad = grad = grad.detach()
            grad.zero_()

    def share_memory(self) -> Self:
        """Call :meth:`Tensor.share_memory_` of each parameter and buffer, which raises on the CPU.

        Raises:
            NotImplementedError: A parameter or buffer is on the CPU.
        """
        return self._apply(lambda t: t.share_memory_())

    # Text and copies ---------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return the arguments that ``repr`` shows in the first line."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indent(repr(child), 2)}" for name, child in self._modules.items()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return "\n  ".join([f"{self._get_name()}(", *lines, *children]) + "\n)"
