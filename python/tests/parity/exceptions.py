"""Where parity with PyTorch is not asserted, each with its reason. Nothing else may skip a comparison.

Keys are full operator names ("max.dim") or ("name", what).
"""

from __future__ import annotations

_DRAWS = "a draw: our generator is Philox over (seed, nonce, element), PyTorch's is another; shape and dtype are compared"
_UNDEFINED = "its values are undefined"

#: Operators whose values cannot agree: only shape and dtype are compared, and there is no gradient.
VALUES: dict[str, str] = {
    "rand": _DRAWS,
    "randn": _DRAWS,
    "randint": _DRAWS,
    "randperm": _DRAWS,
    "rand_like": _DRAWS,
    "randn_like": _DRAWS,
    "randint_like": _DRAWS,
    "bernoulli": _DRAWS,
    "multinomial": _DRAWS,
    "normal": _DRAWS,
    "normal_": _DRAWS,
    "uniform_": _DRAWS,
    "random_": _DRAWS,
    "bernoulli_": _DRAWS,
    "exponential_": _DRAWS,
    "empty": _UNDEFINED,
    "empty_like": _UNDEFINED,
    "empty_strided": _UNDEFINED,
    "new_empty": _UNDEFINED,
}

#: (operator, dtype) pairs where PyTorch computes in a way whose rounding we do not follow.
DTYPES: dict[tuple[str, str], str] = {}

#: (operator, layout) pairs.
LAYOUTS: dict[tuple[str, str], str] = {}

#: Operators whose gradient is not compared.
GRADIENTS: dict[str, str] = {}

#: Operators whose errors are not compared, by (operator, sample text).
ERRORS: dict[tuple[str, str], str] = {}

#: (place, name) pairs that PyTorch does not have.
PLACES: dict[tuple[str, str], str] = {}

#: Operators whose method takes its operands in another order than the function.
METHODS: dict[str, str] = {"where": "torch.where(condition, a, b) is a.where(condition, b)"}
