"""The base classes of pipes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from torchlette.utils.data.dataset import Dataset, IterableDataset

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]


class DataChunk(list[Any]):
    """A list of items: a batch."""

    def __init__(self, items: Iterable[Any]) -> None:
        """Keep the items."""
        super().__init__(items)
        self.items = list(self)

    def as_str(self, indent: str = "") -> str:
        """Return the items as a text."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self) -> Iterator[Any]:
        """Iterate over the items."""
        yield from self.items


class _Registered:
    """Functions that are methods of every pipe of a kind."""

    functions: ClassVar[dict[str, Callable[..., Any]]]

    def __getattr__(self, name: str) -> Any:
        if name in type(self).functions:
            function = functools.partial(type(self).functions[name], self)
            function.__doc__ = type(self).functions[name].__doc__
            return function
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}", name=name, obj=self)

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make a function, which gets the pipe first, a method of all pipes."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Callable[..., Any], enable_df_api_tracing: bool = False
    ) -> None:
        """Make a class, whose first argument is a pipe, a method of all pipes.

        Args:
            function_name: The method's name.
            cls_to_register: The class.
            enable_df_api_tracing: Accepted for compatibility.

        Raises:
            Exception: There is such a method.
        """
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = cls_to_register

    def __repr__(self) -> str:
        return type(self).__qualname__

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).functions]


def _one_at_a_time(iterate: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """Return an ``__iter__`` that resets the pipe and ends what an earlier call returned."""

    @functools.wraps(iterate)
    def start(self: Any) -> Iterator[Any]:
        if type(self).__iter__ is not start:  # called by a subclass's
            return iterate(self)
        self.reset()
        number = self.__dict__["_valid_iterator_id"] = (self._valid_iterator_id or 0) + 1
        return _checked(self, number, iterate(self))

    start.resets = True  # type: ignore[attr-defined]
    return start


def _checked(pipe: Any, number: int, items: Any) -> Iterator[Any]:
    step = items.__next__
    while True:
        if pipe._valid_iterator_id != number:
            raise RuntimeError(
                "This iterator has been invalidated because another iterator has been created from the same "
                f"IterDataPipe: {pipe!r}"
            )
        try:
            item = step()
        except StopIteration:
            return
        yield item


class IterDataPipe(_Registered, IterableDataset[Any]):
    """Items one after the other. A subclass gives ``__iter__``, and ``reset`` where it has a state.

    A pipe has one iterator at a time: a new one calls ``reset`` and ends the former, which raises RuntimeError.
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    _valid_iterator_id: int | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = vars(cls).get("__iter__")
        if own is not None and not hasattr(own, "resets"):
            cls.__iter__ = _one_at_a_time(own)  # type: ignore[method-assign]

    def __iter__(self) -> Iterator[Any]:
        return self

    def reset(self) -> None:
        """Restart; called before each iteration."""


class DFIterDataPipe(IterDataPipe):
    """The class of pipes of data frames, for ``isinstance``."""

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(_Registered, Dataset[Any]):
    """Items by key. A subclass gives ``__getitem__`` and usually ``__len__``."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


def length(pipe: Any, source: Any) -> int:
    """Return a source's length, for a pipe that has the same; TypeError where it has none."""
    if not hasattr(source, "__len__"):
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")
    return len(source)


def batches(pipe: Any) -> int:
    """Return how many batches a pipe of batches gives."""
    n, size = length(pipe, pipe.datapipe), int(pipe.batch_size)
    return n // size if pipe.drop_last else -(-n // size)


def check_pipes(kind: type, pipes: tuple[Any, ...]) -> None:
    """Raise ValueError where there are no pipes, and TypeError where one is of another kind."""
    if not pipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(pipe, kind) for pipe in pipes):
        raise TypeError(f"Expected all inputs to be `{kind.__name__}`")


def every(pipe: Any) -> Iterator[Any]:
    """Iterate over a pipe and the pipes that it reads, each once."""
    seen: set[int] = set()
    left = [pipe]
    while left:
        value = left.pop()
        if isinstance(value, (list, tuple)):
            left += value
        elif isinstance(value, _Registered) and id(value) not in seen:
            seen.add(id(value))
            yield value
            left += vars(value).values()
