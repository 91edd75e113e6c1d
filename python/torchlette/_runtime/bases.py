"""``Tensor._base``: the tensor that a view is of."""

from __future__ import annotations

import gc
import weakref

from torchlette import _C

__all__ = ["base_of"]

Tensor = _C.Tensor

#: The objects that ``Tensor._base`` gave, by the number of their storage.
_BASES: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()


def base_of(self: Tensor) -> Tensor | None:
    """The tensor that a view is of; None for a tensor that is no view.

    Here views do not keep that tensor alive: once it is gone, the storage as a vector. The first call for a storage
    looks through the objects of the process.
    """
    if not self._is_view():
        return None
    meta = self._meta()
    found = _BASES.get(meta["base"])
    if found is None or found._meta()["base"] != meta["base"]:
        found = _viewed(self, meta["base"])
    if found is None:
        found = self.detach().as_strided((meta["storage"],), (1,), 0)
        found._door = self._door
    _BASES[meta["base"]] = found
    return found


def _viewed(view: Tensor, base: int) -> Tensor | None:
    """The living tensor over a storage that is no view; of several, one that requires a gradient as the view does."""
    objects = (o for o in gc.get_objects() if issubclass(type(o), Tensor) and o is not view)
    living = [o for o in objects if not o._is_view() and o._meta()["base"] == base]
    living.sort(key=lambda o: o.requires_grad != view.requires_grad)
    return living[0] if living else None
