"""There is one process: queries answer as for one process, and creating a process group raises."""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn

__all__ = [
    "Backend",
    "GroupMember",
    "ProcessGroup",
    "ReduceOp",
    "Store",
    "Work",
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "destroy_process_group",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
]


class ProcessGroup:
    """The class of process groups, of which there are none: for annotations and ``isinstance``."""


class Work:
    """The class of the results of collective operations, for annotations."""


class Store:
    """The class of stores that processes share: for annotations."""


class GroupMember:
    """Names of groups, for default arguments."""

    WORLD = None
    NON_GROUP_MEMBER = object()


group = GroupMember


class Backend(str):
    """The name of a backend."""

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"


class ReduceOp(Enum):
    """Names of reductions, for default arguments."""

    SUM, AVG, PRODUCT, MIN, MAX = range(5)


def is_available() -> bool:
    """Return ``False``."""
    return False


is_initialized = is_nccl_available = is_gloo_available = is_mpi_available = is_torchelastic_launched = is_available


def init_process_group(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise: process groups are not supported."""
    raise NotImplementedError(
        "distributed.init_process_group is not supported: one process drives one device: run the program without a "
        "launcher"
    )


def _ungrouped(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError(
            f"{name}: Default process group has not been initialized: guard the call by is_initialized(), which is "
            f"False here"
        )

    refuse.__name__, refuse.__doc__ = name, "Raise: there is no process group."
    return refuse


get_rank, get_world_size, barrier = _ungrouped("get_rank"), _ungrouped("get_world_size"), _ungrouped("barrier")
all_reduce, all_gather, broadcast = _ungrouped("all_reduce"), _ungrouped("all_gather"), _ungrouped("broadcast")
destroy_process_group = _ungrouped("destroy_process_group")
