"""How functions of the extension are pickled: Python pickles one as an attribute of the object that it is bound to."""

from __future__ import annotations

import copyreg
from types import SimpleNamespace

from torchlette import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def functions(in_facade: bool) -> Any:
    """Return an object whose attributes are the extension's functions of an API flavour."""
    return SimpleNamespace(**_C._facade) if in_facade else _C


def _reduced(binding: Any) -> tuple[Any, tuple[bool]]:
    return functions, (any(getattr(f, "__self__", None) is binding for f in _C._facade.values()),)


def install() -> None:
    """Let ``pickle`` and ``torch.save`` write modules that hold a function, such as an activation."""
    relu: Any = _C.relu
    copyreg.pickle(type(relu.__self__), _reduced)
