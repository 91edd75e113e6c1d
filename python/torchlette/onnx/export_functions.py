"""How special functions and formulas of elements are written as ONNX's operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C
from torchlette.onnx.exporter import Exporter, Step, graph_of, rule
from torchlette.onnx.terms import Term, where

F64, I64, BOOL = _C.float64, _C.int64, _C.bool
#: The first value of a body that is no program's.
BODY = 1 << 60


def wide(x: Exporter, s: Step) -> Term:
    """Return the first operand in float64, in which special functions are computed: their parts cancel."""
    return Term.of(x, s.operand, F64)


def _polynomial(v: Term, coefficients: Sequence[float]) -> Term:
    """Return the value of a polynomial; its constant is the first coefficient."""
    found: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        found = v * found + c
    return found


# Algorithm AS 241 of Wichura (1988), PPND16: numerators and denominators of the normal distribution's quantiles.
_CENTER = (
    (3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4)
    + (4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3)
    + (2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3),
)
_SIDE = (
    (1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504)
    + (1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1)
    + (1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)
_TAIL = (
    (6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 2.96560571828504891230e-1)
    + (2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2)
    + (7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)


def _quantile(half: Term, least: Term) -> Term:
    """Return the normal distribution's quantile.

    Args:
        half: The probability less a half.
        least: The probability of the nearer tail.
    """

    def ratio(v: Term, parts: tuple[tuple[float, ...], tuple[float, ...]]) -> Term:
        return _polynomial(v, parts[0]) / _polynomial(v, parts[1])

    center = half * ratio(0.180625 - half * half, _CENTER)
    r = (-least.call("Log")).call("Sqrt")
    far = where(r <= 5.0, ratio(r - 1.6, _SIDE), ratio(r.call("Min", 100.0) - 5.0, _TAIL))
    found = where(abs(half) <= 0.425, center, half.call("Sign") * far)
    infinite = half.call("Sign") * math.inf
    return where(least == 0.0, infinite, where(least < 0.0, math.nan, found))


@rule("erfinv")
def _erfinv(x: Exporter, s: Step) -> str:
    v = wide(x, s)
    return (_quantile(v * 0.5, (1.0 - abs(v)) * 0.5) * math.sqrt(0.5)).to(s.dtype).name


@rule("special_ndtri")
def _ndtri(x: Exporter, s: Step) -> str:
    v = wide(x, s)
    return _quantile(v - 0.5, v.call("Min", 1.0 - v)).to(s.dtype).name


# The gamma function: Lanczos' approximation with g = 7 and nine terms.
_LANCZOS = (0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059)
_LANCZOS += (12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)


def _log_gamma(v: Term) -> Term:
    """Return the logarithm of the gamma function of numbers from a half up."""
    near: Any = _LANCZOS[0]
    for k, c in enumerate(_LANCZOS[1:]):
        near = c / (v + float(k)) + near
    t = v + 6.5
    return (v - 0.5) * (t.call("Log") - 1.0) + (near.call("Log") + (0.5 * math.log(2 * math.pi) - 7.0))


@rule("lgamma")
def _lgamma(x: Exporter, s: Step) -> str:
    return _log_of_gamma(wide(x, s)).to(s.dtype).name


@rule("mvlgamma")
def _mvlgamma(x: Exporter, s: Step) -> str:
    v, p = wide(x, s), s["p"]
    found = v * 0.0 + p * (p - 1) / 4 * math.log(math.pi)
    for k in range(p):
        found = found + _log_of_gamma(v - k / 2)
    return found.to(s.dtype).name


def _log_of_gamma(v: Term) -> Term:
    low = v < 0.5
    found = _log_gamma(where(low, 1.0 - v, v))
    # Reflected: log(pi / |sin(pi v)|) less the logarithm at 1 - v. The sine is of the part behind the point.
    sine = abs(((v - v.call("Floor")) * math.pi).call("Sin"))
    sine = where(v == v.call("Floor"), 0.0, sine)
    found = where(low, (math.pi / sine).call("Log") - found, found)
    return where(v.call("IsInf", dtype=BOOL), math.inf, found)


# Chebyshev's coefficients of log(erfc(z) / t) + z * z, of 2 t - 1 with t = 2 / (2 + z), for z from 0 up.
_TAILS = (-0.65132685989085469, 0.64196979235649021, 0.019476473204185836, -0.0095615147868086323)
_TAILS += (-0.00094659534448203692, 0.00036683949785276145, 4.2523324806907769e-05, -2.0278578112534242e-05)
_TAILS += (-1.6242900046470256e-06, 1.3036558355805232e-06, 1.5626441722066142e-08, -8.5238095914926541e-08)
_TAILS += (6.5290544390988515e-09, 5.0593434955514693e-09, -9.9136415649303307e-10, -2.273651222931836e-10)
_TAILS += (9.646791102015527e-11, 2.3940380830391146e-12, -6.8860275264975532e-12, 8.9448792730907253e-13)
_TAILS += (3.1309213993429581e-13, -1.1270822361367252e-13, 3.8109052551892321e-16, 7.1060976136092371e-15)
_TAILS += (-1.5230282014571043e-15, -9.4574945712912334e-17, 1.210237189224279e-16)


def _log_tail(z: Term) -> Term:
    """Return log(erfc(z)) + z * z of numbers from 0 up."""
    t = 2.0 / (z + 2.0)
    u = t * 4.0 - 2.0
    after: Any = 0.0
    found: Any = _TAILS[-1]
    for c in _TAILS[-2:0:-1]:
        found, after = u * found - after + c, found
    return t.call("Log") + (u * 0.5 * found - after + _TAILS[0])


@rule("erfc", "special_erfcx", "special_ndtr", "special_log_ndtr")
def _erfc(x: Exporter, s: Step) -> str:
    """The complement of the error function, and what it says of the normal distribution."""
    v = wide(x, s)
    normal = s.op.endswith("ndtr")
    v = v * -math.sqrt(0.5) if normal else v
    z = abs(v)
    tail, square = _log_tail(z), z * z
    small = (tail - square).call("Exp")
    if s.op == "special_erfcx":
        found = where(v < 0.0, square.call("Exp") * 2.0 - tail.call("Exp"), tail.call("Exp"))
    elif s.op == "special_log_ndtr":
        # log(1 - small / 2) by the series where the sum would lose small.
        half = small * 0.5
        near = where(half < 1e-5, -half - half * half * 0.5, (1.0 - half).call("Log"))
        found = where(v < 0.0, near, tail - square - math.log(2))
    else:
        found = where(v < 0.0, 2.0 - small, small) * (0.5 if normal else 1.0)
    return found.to(s.dtype).name


#: Bernoulli's numbers of even order from 2 on.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
#: The sums of Euler and Maclaurin begin here.
_FROM = 12


def _digamma(v: Term) -> Term:
    """Return the derivative of the logarithm of the gamma function, for positive numbers."""
    w = v + float(_FROM)
    u = 1.0 / (w * w)
    series = _polynomial(u, [0.0, *(b / (2 * k + 2) for k, b in enumerate(_BERNOULLI))])
    found = w.call("Log") - 0.5 / w - series
    for k in range(_FROM):
        found = found - 1.0 / (v + float(k))
    return found


def _zeta(v: Term, power: int) -> Term:
    """Return the sum of (v + k) ** -power, for positive numbers."""
    w = v + float(_FROM)
    inverse, total = 1.0 / w, w ** float(-power)
    factor, terms = power / 2.0, []
    for k, b in enumerate(_BERNOULLI):
        terms.append(b * factor)
        order = 2 * k + 2
        factor *= (power + order - 1) * (power + order) / ((order + 1) * (order + 2))
    found = w ** float(1 - power) * (1 / (power - 1))
    found = found + total * (inverse * _polynomial(inverse * inverse, terms) + 0.5)
    for k in range(_FROM):
        found = found + (v + float(k)) ** float(-power)
    return found


def _cotangents(angle: Term, order: int) -> Term:
    """Return a derivative of pi cot(pi v) by v, a polynomial of the cotangent.

    Args:
        angle: pi v.
        order: Of the derivative.
    """
    cotangent = angle.call("Cos") / angle.call("Sin")
    terms = [0.0, 1.0]
    for _ in range(order):
        slopes = [k * c for k, c in enumerate(terms)][1:]
        terms = [-(a + b) for a, b in zip([*slopes, 0.0, 0.0], [0.0, 0.0, *slopes], strict=True)]
    return math.pi ** (order + 1) * _polynomial(cotangent, terms)


@rule("digamma", "polygamma")
def _polygamma(x: Exporter, s: Step) -> str:
    n, v = (0 if s.op == "digamma" else s["n"]), wide(x, s)
    low = v <= 0.0
    there = where(low, 1.0 - v, v)
    found = _digamma(there) if n == 0 else _zeta(there, n + 1) * (float(math.factorial(n)) * (-1) ** (n + 1))
    turned = _cotangents((v - v.call("Floor")) * math.pi, n)
    found = where(low, found * float((-1) ** n) - turned, found)
    whole = low & (v == v.call("Floor"))
    # Poles of n = 0 go to both infinities; at zero the sign of the zero decides.
    pole = where(v == 0.0, -1.0 / v, math.nan) if n == 0 else math.inf * (-1) ** (n + 1)
    return where(whole, pole, found).to(s.dtype).name


def scanned(
    x: Exporter, combine: Callable[[Term, Term], Term], v: Term, first: Term, dim: int, shape: Sequence[Any]
) -> Term:
    """Return what a function of two values gives along a dim: of the first element, of that and the next, and so on.

    Args:
        x: Gets the nodes.
        combine: The function, of what came before and of an element.
        v: The elements.
        first: What comes before the first element, of ``shape``.
        dim: The dim.
        shape: Of the results without the dim.
    """
    if 0 in shape:  # onnxruntime divides by the number of elements
        return v
    before, element = (Term(x, x.fresh(), v.dtype) for _ in range(2))
    with x.nested(BODY):
        y = combine(before, element).name
        outputs = [(x.node("Identity", [y]), v.dtype, list(shape)) for _ in range(2)]
        body = graph_of(x.nodes, [(t.name, v.dtype, list(shape)) for t in (before, element)], outputs)
    options = {"scan_input_axes": [dim], "scan_output_axes": [dim], "num_scan_inputs": 1}
    return Term(x, x.node("Scan", [first.name, v.name], 2, body=body, **options)[1], v.dtype)


@rule("cumprod")
def _cumprod(x: Exporter, s: Step) -> str:
    v, rank = Term.of(x, s.operand, s.dtype), x.rank(s.operand)
    if rank == 0:
        return v.name
    dim = s["dim"] % rank
    shape = [n for d, n in enumerate(s.shape) if d != dim]
    ones = Term(x, x.node("Expand", [v.operand(1), x.sizes(shape)]), s.dtype)
    return scanned(x, Term.__mul__, v, ones, dim, shape).name
