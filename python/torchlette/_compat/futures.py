"""Results that come later, as ``torch.futures``, for code that runs in other threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future as _Future
from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


class Future(_Future):  # type: ignore[type-arg]
    """A result that comes later. Callbacks run in the thread that sets it."""

    def __init__(self, *, devices: Any = None) -> None:
        """Begin without a result; ``devices`` is accepted for compatibility."""
        super().__init__()

    def wait(self) -> Any:
        """Wait for the result and return it, or raise what was raised in its place."""
        return self.result()

    def value(self) -> Any:
        """Return the result, which must be there."""
        if not self.done():
            raise RuntimeError("Future.value: the result is not there: call wait()")
        return self.result()

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Return a future of ``callback`` of this one, called once it is done."""
        later = Future()

        def run(done: Any) -> None:
            try:
                later.set_result(callback(done))
            except Exception as error:
                later.set_exception(error)

        self.add_done_callback(run)
        return later


def collect_all(futures: Sequence[Future]) -> Future:
    """Return a future of the list of the futures, done once all are."""
    import threading

    all_done, left, lock = Future(), [len(futures)], threading.Lock()
    if not futures:
        all_done.set_result([])

    def count(_: Any) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            all_done.set_result(list(futures))

    for future in futures:
        future.add_done_callback(count)
    return all_done


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """Wait for all futures and return their results."""
    return [future.wait() for future in futures]
