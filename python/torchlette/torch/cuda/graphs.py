"""CUDA graphs. The engine replays the plans of recorded work by itself: nothing has to be captured for speed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NoReturn

from torchlette.torch.cuda.streams import index_of, synchronize

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]


class CUDAGraph:
    """Work that a script captures. The captured code runs at once, as it does outside of a capture."""

    def __init__(self, keep_graph: bool = False) -> None:
        """Check that there is a GPU."""
        index_of(None, "CUDAGraph")

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Do nothing."""

    def capture_end(self) -> None:
        """Compute the captured work."""
        synchronize()

    def replay(self) -> NoReturn:
        """Raise: the captured work is not kept."""
        raise NotImplementedError(
            "torch.cuda.CUDAGraph.replay: captured work is not kept: call the function again, which replays its plan, "
            "or wrap it with torch.cuda.make_graphed_callables"
        )

    def reset(self) -> None:
        """Do nothing."""

    def pool(self) -> tuple[int, int]:
        """Return a handle for other graphs: there is one pool of memory."""
        return graph_pool_handle()


class graph(contextlib.AbstractContextManager[None]):
    """The context in which a :class:`CUDAGraph` captures: its code runs at once.

    Args:
        cuda_graph: The graph.
        pool: Accepted for compatibility.
        stream: Accepted for compatibility.
        capture_error_mode: Accepted for compatibility.
    """

    def __init__(
        self, cuda_graph: CUDAGraph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"
    ) -> None:
        """Take the graph."""
        self.cuda_graph = cuda_graph

    def __enter__(self) -> None:
        self.cuda_graph.capture_begin()

    def __exit__(self, *exc: object) -> None:
        self.cuda_graph.capture_end()


def graph_pool_handle() -> tuple[int, int]:
    """Return ``(0, 0)``: there is one pool of memory."""
    return 0, 0


def is_current_stream_capturing() -> bool:
    """Return ``False``: captured code runs as it does outside."""
    return False


def make_graphed_callables(
    callables: Callable[..., Any] | tuple[Callable[..., Any], ...],
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Return the functions: the engine replays the plans of their calls.

    Args:
        callables: A function or module, or a tuple of them.
        sample_args: Accepted for compatibility.
        num_warmup_iters: Accepted for compatibility.
        allow_unused_input: Accepted for compatibility.
        pool: Accepted for compatibility.
    """
    return callables
