"""PyTorch's settings of its compiler. They can be set.

``recompile_limit``, or ``cache_size_limit``, bounds the programs of a captured function; the others have no effect.
"""

from __future__ import annotations

import sys
import types

from torchlette._runtime.captured import Limit


class _Settings(types.ModuleType):
    """A module whose limit is one for all names under which it is imported."""

    @property
    def recompile_limit(self) -> int:
        return Limit.programs

    @recompile_limit.setter
    def recompile_limit(self, programs: int) -> None:
        Limit.programs = programs

    cache_size_limit = recompile_limit


sys.modules[__name__].__class__ = _Settings
accumulated_cache_size_limit = accumulated_recompile_limit = 256
suppress_errors = False
verbose = False
dynamic_shapes = True
automatic_dynamic_shapes = True
assume_static_by_default = True
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
optimize_ddp = True
