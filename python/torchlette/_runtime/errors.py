"""The error classes.

Each derives from :class:`TorchletteError` and from the built-in class that PyTorch raises in the same situation:
``except RuntimeError`` in a PyTorch script catches the same failures here.
"""

from __future__ import annotations

__all__ = [
    "AsyncInCompileError",
    "BackwardGraphFreedError",
    "CheckpointError",
    "CheckpointImpureRegionError",
    "DeviceLostError",
    "DisposedTensorError",
    "DtypeError",
    "EngineBusyError",
    "ExecutionError",
    "FileFormatError",
    "GradcheckError",
    "HostReadInCompileError",
    "IndexRangeError",
    "InternalError",
    "InvalidHandleError",
    "InvalidTraceTensorEscapeError",
    "InvalidValueError",
    "KernelExecutionError",
    "LeakError",
    "LibraryError",
    "LinAlgError",
    "MissingDirectoryError",
    "NonReentrantBackwardError",
    "NotSupportedError",
    "OutOfMemoryError",
    "PoisonedEngineError",
    "RefusedNameError",
    "SavedTensorModifiedError",
    "TensorHostCoercionError",
    "TorchletteError",
    "ValueLostError",
    "ValueOverflowError",
]


class TorchletteError(Exception):
    """Base of all errors that the library raises."""


class ExecutionError(TorchletteError, RuntimeError):
    """An operation cannot run on these tensors, because of their shapes, devices or state."""


class DtypeError(TorchletteError, TypeError):
    """An argument has the wrong type."""


class InvalidValueError(TorchletteError, ValueError):
    """An argument has the right type and a wrong value."""


class IndexRangeError(TorchletteError, RuntimeError, IndexError):
    """An index or a dimension is out of range. PyTorch's class depends on the operator; this one derives from both."""


class NotSupportedError(TorchletteError, NotImplementedError):
    """The operation does not exist for this dtype or device."""


class LibraryError(NotSupportedError, OSError):
    """A library of compiled PyTorch operators, which cannot be loaded."""


class FileFormatError(TorchletteError, ValueError, EOFError, RuntimeError):
    """A file is damaged or of another format. PyTorch's class depends on the damage; this one derives from them all."""


class MissingDirectoryError(TorchletteError, FileNotFoundError, RuntimeError):
    """The folder of a file that is to be written does not exist. PyTorch raises RuntimeError, ``open`` the other."""


class RefusedNameError(NotSupportedError, AttributeError):
    """A name of PyTorch's that torchlette does not have; ``hasattr`` returns False for it."""


class OutOfMemoryError(TorchletteError, RuntimeError):
    """A device has too little memory for a value. Other values are intact, and the engine stays usable."""


class ValueLostError(TorchletteError, RuntimeError):
    """The value does not exist, because the work that computes it failed."""


class PoisonedEngineError(TorchletteError, RuntimeError):
    """The engine has failed for good; ``torchlette.reset()`` starts it anew."""


class EngineBusyError(TorchletteError, RuntimeError):
    """Another thread is using the engine; see ``torchlette.set_busy_policy``."""


class DisposedTensorError(TorchletteError, RuntimeError):
    """The tensor was disposed of."""


class InvalidHandleError(TorchletteError, RuntimeError):
    """The handle names no tensor."""


class TensorHostCoercionError(TorchletteError, TypeError):
    """A tensor was used as a Python number; write the read explicitly, as ``t.item()``."""


class SavedTensorModifiedError(TorchletteError, RuntimeError):
    """A tensor that ``backward()`` needs was changed in place."""


class BackwardGraphFreedError(TorchletteError, RuntimeError):
    """``backward()`` was called a second time without ``retain_graph=True``."""


class NonReentrantBackwardError(TorchletteError, RuntimeError):
    """``backward()`` calls nested through hooks exceed the depth limit."""


class DeviceLostError(TorchletteError, RuntimeError):
    """The GPU was lost."""


class LinAlgError(TorchletteError, RuntimeError):
    """A matrix does not have the property that the operation needs."""


class InternalError(TorchletteError, RuntimeError):
    """A bug in torchlette: please report it."""


class KernelExecutionError(TorchletteError, RuntimeError):
    """A kernel reported a failure."""


class CheckpointError(TorchletteError, RuntimeError):
    """The second run of a checkpointed function differs from the first."""


class CheckpointImpureRegionError(CheckpointError):
    """The second run of a checkpointed function writes to an older tensor: it would repeat the first run's write."""


class TorchDynamoException(TorchletteError, RuntimeError):
    """Base of the errors of compiled functions; PyTorch's name for it."""


class InvalidBackend(TorchDynamoException):
    """There is no such backend of :func:`torchlette.compile`."""


class Unsupported(TorchDynamoException):
    """A compiled function does what a graph cannot contain."""


class UncapturedHigherOrderOpError(TorchDynamoException):
    """The function that a loop or branch of PyTorch's names runs cannot be recorded, or its results do not fit."""


class HostReadInCompileError(Unsupported):
    """A value is read in a compiled function that allows no reads."""


class InvalidTraceTensorEscapeError(TorchletteError, RuntimeError):
    """A tensor is used that a captured function made in its capture and did not return."""


class TransformPurityError(TorchletteError, RuntimeError):
    """The body of a loop writes to a tensor from outside: it runs any number of times, and is recorded once."""


class AsyncInCompileError(Unsupported):
    """A coroutine function cannot be compiled."""


class GradcheckError(TorchletteError, RuntimeError):
    """The analytic and the numeric gradient differ."""


class LeakError(TorchletteError, RuntimeError):
    """Tensors made inside a ``check_leaks`` block outlived it."""


class ValueOverflowError(TorchletteError, OverflowError):
    """A number does not fit its type."""


#: Classes that PyTorch has no name for. It raises the built-in class that is the last base of each.
_NAMELESS: tuple[type[TorchletteError], ...] = (
    ExecutionError, DtypeError, InvalidValueError, IndexRangeError, NotSupportedError, LibraryError, FileFormatError,
    MissingDirectoryError, RefusedNameError, ValueLostError, TensorHostCoercionError, SavedTensorModifiedError,
    BackwardGraphFreedError, NonReentrantBackwardError, KernelExecutionError, ValueOverflowError,
)  # fmt: skip


def take_built_in_names() -> None:
    """Give the classes of ``_NAMELESS`` the names that a traceback of PyTorch shows, for :mod:`torchlette.as_torch`.

    Programs print ``type(error).__name__``. An error of such a class is pickled as one of the built-in class.
    """

    def reduce(self: TorchletteError) -> tuple[type, tuple[object, ...]]:
        return built_in[type(self)], self.args

    built_in = {ours: ours.__bases__[-1] for ours in _NAMELESS}
    for ours, theirs in built_in.items():
        ours.__name__, ours.__qualname__, ours.__module__ = theirs.__name__, theirs.__name__, "builtins"
        ours.__reduce__ = reduce  # type: ignore[assignment]
    LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"
    LinAlgError.__module__ = "torch._C"


# The codes of torchlette.h.
BY_CODE: dict[int, type[TorchletteError]] = {
    1: ExecutionError,
    2: DtypeError,
    3: InvalidValueError,
    4: IndexRangeError,
    5: NotSupportedError,
    6: OutOfMemoryError,
    7: ValueLostError,
    8: PoisonedEngineError,
    9: EngineBusyError,
    10: DisposedTensorError,
    11: InvalidHandleError,
    12: TensorHostCoercionError,
    13: SavedTensorModifiedError,
    14: BackwardGraphFreedError,
    15: NonReentrantBackwardError,
    16: CheckpointImpureRegionError,
    17: DeviceLostError,
    18: LinAlgError,
    20: InternalError,
    21: KernelExecutionError,
    22: ValueOverflowError,
    23: HostReadInCompileError,
    24: InvalidTraceTensorEscapeError,
    25: TransformPurityError,
}
