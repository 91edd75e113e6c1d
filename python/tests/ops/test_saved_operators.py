"""Every operator in a saved program: its session gives PyTorch's result of the database's first sample."""

from __future__ import annotations

import database
import pytest
import routes
import scope
import torch

#: Entries whose result, its size or what is computed next depends on values, so that no program has them.
READ = frozenset(
    """
allclose argwhere bincount equal histogram histogramdd item linspace.tensor_overload logspace.tensor_overload
masked_select nn.functional.one_hot nonzero special.chebyshev_polynomial_t special.chebyshev_polynomial_u
special.chebyshev_polynomial_v special.chebyshev_polynomial_w special.hermite_polynomial_h
special.hermite_polynomial_he special.laguerre_polynomial_l special.legendre_polynomial_p
special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u special.shifted_chebyshev_polynomial_v
special.shifted_chebyshev_polynomial_w tensor_split unique unique_consecutive
""".split()
)
NAMES = frozenset(op.name for op in database.op_db) - scope.ABSENT.keys()
ENTRIES = {database.label(op): op for op in database.entries(NAMES) if op.dtypes}


@pytest.mark.parametrize("label", ENTRIES)
def test_sessions_of_saved_programs_give_pytorchs_results(label: str) -> None:
    op = ENTRIES[label]
    dtype = next((d for d in (torch.float32, torch.int64, torch.complex64) if d in op.dtypes), next(iter(op.dtypes)))
    for sample in routes.drawn(op, dtype, 1):
        what, text = routes.outcome(op, sample, "session")
        if what == "left out":
            pytest.skip(f"PyTorch refuses the sample: {text}")
        assert what == ("refused" if label in READ else "equal"), text
