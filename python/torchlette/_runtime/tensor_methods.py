"""The methods of Tensor that are written in Python; :func:`install` adds them to the type."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from types import TracebackType

from torchlette import _C
from torchlette._ops import indexing
from torchlette._runtime import refused
from torchlette._runtime.errors import DtypeError
from torchlette._runtime.repr import tensor_format, tensor_repr
from torchlette.io.dlpack import ArrayMethod, array_namespace, dlpack, dlpack_device, to_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Tensor = _C.Tensor


# Gradients -------------------------------------------------------------------------------


def _grad_fn(self: Tensor) -> Any:
    """The function that computed this tensor, or None for a leaf."""
    from torchlette.autograd import graph

    return graph.grad_fn(self)


def _register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> HookHandle:
    """Call ``hook`` with this leaf after a backward pass has added to its ``grad``."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not self.is_leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    leaf = weakref.ref(self)

    def run(_: None) -> None:
        alive = leaf()
        if alive is not None and hook(alive) is not None:
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")

    return HookHandle(_C._add_hook(self, run, True))


def _output_nr(self: Tensor) -> int:
    """The index of this tensor among the results of its function."""
    found = _C._function(self)
    return 0 if found is None else found[2]


def _as_subclass(self: Tensor, cls: type) -> Tensor:
    """Return an alias of the tensor, with its history, as an object of a subclass."""
    made = _C._disabled_torch_function_impl(Tensor.view, (), (self, self.shape))
    made.__class__ = cls
    return made


def _init_subclass(cls: type, **kwargs: Any) -> None:
    """Let a subclass answer calls of its objects, unless it leaves them alone as Parameter does."""
    super(Tensor, cls).__init_subclass__(**kwargs)
    alone = cls.__torch_function__ is _C._disabled_torch_function_impl  # type: ignore[attr-defined]
    if not alone or hasattr(cls, "__torch_dispatch__"):
        from torchlette._compat.overrides import enable

        enable()


def _torch_function(
    cls: type, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """Call a function of objects of this class; results are objects of the class too.

    Args:
        func: The function or method that was called.
        types: The classes of arguments that answer calls.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
    """
    from torchlette._compat.overrides import default_answer

    return default_answer(cls, func, types, args, kwargs)


def _no(self: Tensor, *args: Any) -> bool:
    """Return ``False``: the engine manages memory."""
    return False


def _backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of this tensor to ``.grad`` of the leaves it was computed from.

    Args:
        gradient: The cotangent, of this tensor's shape; None means 1 and needs a tensor with one element.
        retain_graph: Whether the graph stays for another pass; None: the value of ``create_graph``.
        create_graph: Whether the gradients themselves can be differentiated.
        inputs: The leaves that get gradients; None: all.
    """
    from torchlette import autograd

    autograd.backward((self,), (gradient,), retain_graph, create_graph, inputs)


class HookHandle:
    """Removes a hook: by :meth:`remove` or at the end of a ``with`` block."""

    def __init__(self, number: int) -> None:
        """Hold the hook's number."""
        self.id = number

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        _C._remove_hook(self.id)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.remove()


def _register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> HookHandle:
    """Call ``hook`` with the gradient of this tensor; what it returns, unless None, replaces the gradient."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return HookHandle(_C._add_hook(self, hook))


def _detach_(self: Tensor) -> Tensor:
    """Forget the history of this tensor, in place."""
    if self._is_view():
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    self._replace(self.detach())
    return self


# Copies and conversions ------------------------------------------------------------------


def _to_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, bool]:
    """Return device, dtype and copy of the forms ``to(dtype)``, ``to(device, dtype)`` and ``to(other)``."""
    device, dtype, copy_ = kwargs.pop("device", None), kwargs.pop("dtype", None), kwargs.pop("copy", False)
    other = kwargs.pop("other", None)
    kwargs.pop("non_blocking", None), kwargs.pop("memory_format", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
    elif rest and isinstance(rest[0], _C.dtype | type):
        dtype = rest.pop(0)
    elif rest:
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], _C.dtype | type)):
            dtype = rest.pop(0)
    if len(rest) > 1:
        copy_ = rest[1]
    if other is not None:
        device, dtype = other.device, other.dtype
    return device, dtype, bool(copy_)


def _to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Convert: ``to(dtype)``, ``to(device, dtype=None)`` or ``to(other)``; return self when nothing changes."""
    device, dtype, copy_ = _to_arguments(args, kwargs)
    result = self
    if dtype is not None and self.device.type == "cpu":  # on the CPU, which has every dtype
        result = _C._to_dtype(result, dtype)
    if device is not None:
        device = _C.device(device)
        if device != self.device:
            result = _C._to_device(result, device)
    if dtype is not None and self.device.type != "cpu":
        result = _C._to_dtype(result, dtype)
    return result.clone() if copy_ and result is self else result


def _cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """Return the tensor on the CPU."""
    return self.to("cpu")


def _wgpu(self: Tensor, index: int = 0) -> Tensor:
    """Return the tensor on a GPU."""
    return self.to(_C.device("wgpu", index))


def _cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """Return the tensor on a GPU that ``torch.cuda`` names.

    Args:
        device: A number or a device; None: the current one of ``torch.cuda``.
        non_blocking: Accepted for compatibility.
        memory_format: Accepted for compatibility.
    """
    return self.to(_C.device("cuda", device) if isinstance(device, int) else "cuda" if device is None else device)


def _record_stream(self: Tensor, stream: Any) -> None:
    """Do nothing: a GPU has one queue, so memory is used again only behind the work that reads it.

    Raises:
        NotImplementedError: The tensor is on the CPU.
    """
    if not (self.is_cuda or self.device.type == "wgpu"):
        raise NotImplementedError(f"record_stream: expected a tensor on a GPU, got one on {self.device}")


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the type's old name, or the tensor converted to ``dtype``."""
    from torchlette._runtime.dtype_table import SCALAR_TYPES

    if dtype is None:
        return f"torch.{'cuda.' * self.is_cuda}{'meta.' * self.is_meta}{SCALAR_TYPES[self.dtype]}Tensor"
    if isinstance(dtype, str):
        name = dtype.rpartition(".")[2]
        for candidate, scalar in SCALAR_TYPES.items():
            if f"{scalar}Tensor" == name:
                return self.to("cuda" if ".cuda." in dtype else "cpu", candidate)
        raise ValueError(f"invalid type: '{dtype}'")
    # torchlette.torch.FloatTensor and the like are classes with a dtype and a device type.
    return self.to(dtype.device_type, dtype.dtype) if hasattr(dtype, "device_type") else self.to(dtype)


def _numpy(self: Tensor, *, force: bool = False) -> Any:
    """Return a NumPy array of the tensor's memory: a write to either is seen by both. Of a GPU's tensor it is a copy.

    Args:
        force: Whether to detach a tensor that requires grad.
    """
    import numpy

    if force:
        return self.detach().numpy()
    if self.is_meta:
        raise DtypeError(
            "can't convert meta device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )
    if self.requires_grad and _C.is_grad_enabled():
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if self.dtype is _C.bfloat16:
        raise TypeError("Got unsupported ScalarType BFloat16")
    return numpy.asarray(memoryview(self.detach() if self.requires_grad else self))


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """NumPy's conversion protocol."""
    values = self.numpy()
    if dtype is not None and values.dtype != dtype:
        return values.astype(dtype)
    return values.copy() if copy else values


def _array_wrap(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
    """Return the result of a NumPy function of tensors as a tensor."""
    made = _C.from_numpy(array) if array.ndim > 0 else _C.tensor(array)
    made._door = self._door
    return made


def _new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor with a copy of ``data`` on this tensor's device.

    Args:
        data: A number, nested sequences or an array.
        dtype: None: this tensor's.
        device: None: this tensor's.
        requires_grad: Whether the result requires grad.
    """
    dtype, device = self.dtype if dtype is None else dtype, self.device if device is None else device
    made = _C.tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)
    made._door = self._door
    return made


def _apply_(self: Tensor, fn: Callable[[Any], Any]) -> Tensor:
    """Replace each element by ``fn`` of it; for small tensors, on the CPU."""
    if self.device.type != "cpu":
        raise TypeError("apply_ is only implemented on CPU tensors")
    values = [fn(v) for v in self.detach().reshape(-1).tolist()]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


def _map_(self: Tensor, other: Tensor, fn: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by ``fn`` of it and the element of ``other``; for small tensors, on the CPU."""
    if self.device.type != "cpu":
        raise TypeError("map_ is only implemented on CPU tensors")
    pairs = zip(self.detach().reshape(-1).tolist(), other.detach().expand(self.shape).reshape(-1).tolist(), strict=True)
    return self.copy_(_C.tensor([fn(a, b) for a, b in pairs], dtype=self.dtype).reshape(self.shape))


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Return self: uploads need no pinned memory."""
    return self


# Methods that return Python values: they read ----------------------------------------


def _where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """Return ``self`` where the condition holds and ``other`` elsewhere."""
    return _C.where(condition, self, other)


def _rdiv(self: Tensor, other: Any) -> Tensor:
    """Return ``other / self``."""
    return self.reciprocal() * other


def _div(self: Tensor, other: Any) -> Tensor:
    """Return ``self / other``."""
    return self / other


def _idiv(self: Tensor, other: Any) -> Tensor:
    """Divide in place."""
    return self.div_(other)


def _is_signed(self: Tensor) -> bool:
    """Return whether the dtype has negative values."""
    return self.dtype.is_signed


def equal(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same shape and elements; reads the answer."""
    return input.shape == other.shape and bool((input == other).all().item())


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Return whether all elements are close; reads the answer.

    Args:
        input: Values, of any shape.
        other: Of the same shape, or one that broadcasts.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        equal_nan: Whether two NaN are close.
    """
    return bool(_C.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan).all().item())


# Python's protocols ----------------------------------------------------------------------


def _copy(self: Tensor) -> Tensor:
    """Return another tensor object over the same elements, without history."""
    made = Tensor._make_subclass(type(self), self) if type(self) is not Tensor else self.detach()
    made.requires_grad_(self.requires_grad)
    made.__dict__.update(self.__dict__)
    made._door = self._door
    return made


def _copied_elements(tensor: Tensor, memo: dict[Any, Any]) -> Tensor:
    """Return a copy without history. Tensors that share elements share them again in one deepcopy, whose memo it is."""
    if tensor.is_meta:
        return tensor.detach().clone()
    from torchlette._ops.storage import whole

    elements, offset = tensor._meta()["storage"], tensor.storage_offset()
    key = "elements", tensor._identity() - offset * tensor.itemsize
    if key not in memo and elements == tensor.numel() and tensor.is_contiguous():
        memo[key] = made = tensor.detach().clone()
        return made
    if key not in memo:
        memo[key] = whole(tensor, elements).clone()
    return memo[key].as_strided(tensor.shape, tensor.stride(), offset)


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )
    if id(self) in memo:
        return memo[id(self)]
    made = _copied_elements(self, memo)
    if type(self) is not Tensor:
        made = Tensor._make_subclass(type(self), made)
    memo[id(self)] = made
    made.requires_grad_(self.requires_grad)
    if self.grad is not None:
        made.grad = copy.deepcopy(self.grad, memo)
    made.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return made


def _rebuild(
    kind: type,
    data: bytes | None,
    dtype: Any,
    shape: tuple[int, ...],
    device: str,
    requires_grad: bool,
    attributes: dict[str, Any],
) -> Tensor:
    """Unpickle a tensor."""
    if data is None:
        made = _C.empty(shape, dtype=dtype, device=device)
    else:
        made = _C._frombytes(data, dtype, shape, device)
    if kind is not Tensor:
        made = Tensor._make_subclass(kind, made)
    made.requires_grad_(requires_grad)
    made.__dict__.update(attributes)
    return made


def _to_bytes(self: Tensor) -> bytes:
    """The elements, dense and row-major."""
    return _C._tobytes(self)


def _reduce_ex(self: Tensor, protocol: Any) -> tuple[Any, ...]:
    state = (
        type(self),
        None if self.is_meta else _to_bytes(self),
        self.dtype,
        tuple(self.shape),
        str(self.device),
        self.requires_grad,
        dict(self.__dict__),
    )
    return _rebuild, state


def _histogram(self: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Counts in bins, and the bins' edges; see :func:`torchlette.histogram`."""
    from torchlette._ops.histogram import histogram

    return histogram(self, *args, **kwargs)


def _hash_tensor(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The exclusive or of the elements' bits; see :func:`torchlette.hash_tensor`."""
    from torchlette._ops.hashing import hash_tensor

    return hash_tensor(self, *args, **kwargs)


def _lu(self: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """LU factors in one matrix, pivots and, with ``get_infos``, the number of the first pivot that is zero."""
    from torchlette._ops.linear_algebra import lu

    return lu(self, pivot, get_infos)


def _real(self: Tensor) -> Tensor:
    """The real part, a view; a real tensor itself."""
    return _C.real(self) if self.is_complex() else self


def _imag(self: Tensor) -> Tensor:
    """The imaginary part of a complex tensor, a view."""
    return _C.imag(self)


def _set_real(self: Tensor, value: Any) -> None:
    self.real.copy_(value)


def _set_imag(self: Tensor, value: Any) -> None:
    self.imag.copy_(value)


def _complex(self: Tensor) -> complex:
    """Return the only element as a Python number."""
    return complex(self.item())


def _stft(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return :func:`torchlette.stft` of the tensor."""
    from torchlette._ops.spectral import stft

    return stft(self, *args, **kwargs)


def _istft(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return :func:`torchlette.istft` of the tensor."""
    from torchlette._ops.spectral import istft

    return istft(self, *args, **kwargs)


def _module_load(self: _C.Tensor, other: _C.Tensor, assign: bool = False) -> _C.Tensor:
    """Return what ``load_state_dict`` swaps ``self`` with; see ``__future__.set_swap_module_params_on_conversion``.

    Args:
        other: The tensor of the state dict.
        assign: Whether to take ``other`` instead of copying its values into ``self``.
    """
    from torchlette._compat.overrides import handle_torch_function, has_torch_function_variadic

    if has_torch_function_variadic(self, other):
        answer: _C.Tensor = handle_torch_function(_C.Tensor.module_load, (self, other), self, other, assign=assign)
        return answer
    return (other if assign else self.copy_(other)).detach()


def _make_wrapper_subclass(cls: type, size: Any, **options: Any) -> Tensor:
    """Return an object of a class without memory; see :func:`torchlette._compat.wrappers.make_wrapper_subclass`."""
    from torchlette._compat.wrappers import make_wrapper_subclass

    return make_wrapper_subclass(cls, size, **options)


def _base(self: Tensor) -> Tensor | None:
    """The tensor that a view is of; see :func:`torchlette._runtime.bases.base_of`."""
    from torchlette._runtime.bases import base_of

    return base_of(self)


def install() -> None:
    """Put the methods on the type."""
    methods = {
        "backward": _backward,
        "register_hook": _register_hook,
        "register_post_accumulate_grad_hook": _register_post_accumulate_grad_hook,
        "detach_": _detach_,
        "module_load": _module_load,
        "to": _to,
        "cpu": _cpu,
        "wgpu": _wgpu,
        "cuda": _cuda,
        "record_stream": _record_stream,
        "type": _type,
        "numpy": _numpy,
        "new_tensor": _new_tensor,
        "apply_": _apply_,
        "map_": _map_,
        "pin_memory": _pin_memory,
        "is_pinned": _no,
        "is_distributed": _no,
        "as_subclass": _as_subclass,
        "_make_wrapper_subclass": staticmethod(_make_wrapper_subclass),
        "nonzero": indexing.nonzero,
        "nonzero_static": indexing.nonzero_static,
        "argwhere": indexing.argwhere,
        "masked_select": indexing.masked_select,
        "unique": indexing.unique,
        "unique_consecutive": indexing.unique_consecutive,
        "bincount": indexing.bincount,
        "histogram": _histogram,
        "hash_tensor": _hash_tensor,
        "where": _where,
        "__rdiv__": _rdiv,
        "__div__": _div,
        "__idiv__": _idiv,
        "is_signed": _is_signed,
        "equal": equal,
        "allclose": allclose,
        "lu": _lu,
        "stft": _stft,
        "istft": _istft,
        "__array__": _array,
        "__array_wrap__": _array_wrap,
        "__copy__": _copy,
        "__deepcopy__": _deepcopy,
        "__dlpack__": dlpack,
        "__dlpack_device__": dlpack_device,
        "__array_namespace__": ArrayMethod("__array_namespace__", array_namespace),
        "to_device": ArrayMethod("to_device", to_device),
        "__reduce_ex__": _reduce_ex,
        "__repr__": tensor_repr,
        "__torch_function__": classmethod(_torch_function),
        "__init_subclass__": classmethod(_init_subclass),
        "__format__": tensor_format,
    }
    for name, fn in methods.items():
        setattr(Tensor, name, fn)
    for name, reason in refused.METHODS.items():
        if not hasattr(Tensor, name):
            setattr(Tensor, name, refused.method(name, reason))
    Tensor.real = property(_real, _set_real)
    Tensor.imag = property(_imag, _set_imag)
    Tensor.__complex__ = _complex
    Tensor.output_nr = property(_output_nr)
    Tensor.grad_fn = property(_grad_fn)
    Tensor._base = property(_base)
    # NumPy then leaves mixed operators to the tensor's methods, which decide what they accept.
    Tensor.__array_priority__ = 1000


install()
