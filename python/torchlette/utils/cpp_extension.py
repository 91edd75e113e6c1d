"""C++ and CUDA extensions are not supported. Programs that only import the names run."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["CUDA_HOME", "BuildExtension", "CUDAExtension", "CppExtension", "include_paths", "load", "load_inline"]

#: The path of CUDA's compiler: none.
CUDA_HOME: str | None = None


def _refusal(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"cpp_extension.{name} is not supported: extensions are written against PyTorch's own C++ classes: write "
            f"the function with tensors' operators, "
            "and its gradient as an autograd.Function"
        )

    refuse.__name__, refuse.__doc__ = name, "Raise: extensions of PyTorch's C++ cannot be built here."
    return refuse


load, load_inline, include_paths = _refusal("load"), _refusal("load_inline"), _refusal("include_paths")
CppExtension, CUDAExtension, BuildExtension = (
    _refusal("CppExtension"),
    _refusal("CUDAExtension"),
    _refusal("BuildExtension"),
)
