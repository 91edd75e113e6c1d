"""Random compositions of the transforms of ``func``, for :mod:`torchlette.testing.fuzz`.

A composition is a chain of transforms, each of a function of a vector that uses the arguments of the functions around
it. It runs under any library with PyTorch's names. Loops are those of ``torchlette.lax``, and loops in Python under
PyTorch.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["Composition", "evaluate", "generate"]

#: The length of all vectors.
SIZE = 3
POINT, CAPTURED = [0.3, -0.7, 1.1], [0.9, 0.4, -0.2]
MATRIX = [[0.5, -1.2, 0.3], [0.8, 1.1, -0.4], [-0.6, 0.2, 0.7]]


def _written(lib: Any, x: Any, y: Any) -> Any:
    z = x * y
    z[1:] = (y * x)[:-1] * x[:1]
    z.view(1, SIZE)[0].add_(x)
    return z.mul_(0.5)


def _norm(lib: Any, x: Any, y: Any) -> Any:
    if lib.__name__ != "torch":
        return lib.nn.functional.layer_norm(x, (SIZE,), y, x)
    # In forward mode, PyTorch's layer_norm has wrong second derivatives.
    centred = x - x.mean()
    return centred / (centred.pow(2).mean() + 1e-5).sqrt() * y + x


def _selected(lib: Any, x: Any, y: Any) -> Any:
    return lib.where(x > y * 0.5, x, y * x)


def _scan(lib: Any, f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, reverse: bool = False) -> Any:
    """Return the last carry and the stacked results of a loop over the rows of xs."""
    if lib.__name__ != "torch":
        return _lax().scan(f, init, xs, reverse=reverse)
    carry, ys = init, []
    for x in reversed(xs.unbind()) if reverse else xs.unbind():
        carry, y = f(carry, x)
        ys.append(y)
    return carry, lib.stack(ys[::-1] if reverse else ys)


def _lax() -> Any:
    from torchlette import lax

    return lax


def _loop(lib: Any, x: Any, y: Any) -> Any:
    last, sums = _scan(lib, lambda c, t: (lib.tanh(c * t + y), c.sum() * t), x, lib.stack([x * y, y]))
    return last + sums.sum(0)


def _loop_back(lib: Any, x: Any, y: Any) -> Any:
    first = (x, y.sum())
    step = lambda c, t: ((c[0].sin() * c[1], (c[0] * t).sum()), c[0] + t)  # noqa: E731
    (last, total), ys = _scan(lib, step, first, lib.stack([y, x * 0.5, x + y]), reverse=True)
    return last * total + ys[0] - ys[2]


def _loop_detached(lib: Any, x: Any, y: Any) -> Any:
    return _scan(lib, lambda c, t: (c.detach() * t + c * y.detach(), c), x, lib.stack([x, y]))[0]


def _branch(lib: Any, x: Any, y: Any) -> Any:
    if lib.__name__ == "torch":
        return lib.where(x.sum() > y[0], x * y, lib.sin(x))
    return _lax().cond(x.sum() > y[0], lambda: x * y, lambda: lib.sin(x))


def _ended(lib: Any, x: Any, y: Any) -> Any:
    """A loop that a condition ends; without reverse-mode gradient."""
    if lib.__name__ == "torch":
        for _ in range(3):
            x = x * 0.5 + lib.cos(y * x)
        return x
    more, step = lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 0.5 + lib.cos(y * c[1]))
    return _lax().while_loop(more, step, (lib.tensor(0), x))[1]


def _put(lib: Any, x: Any, y: Any) -> Any:
    z, at = x * y, lib.tensor([2, 0, 2])
    z.index_put_((at,), (y * x).sin(), accumulate=True)
    z[lib.tensor([1])] = x[2] * 0.5
    return z


def _viewed(lib: Any, x: Any, y: Any) -> Any:
    """Views of a view are written in place, and another view is read."""
    z = lib.stack([x * y, x - y])
    row = z.t()[1:]
    row[:, 0].mul_(x[0])
    z[1].copy_(z[0] + x)
    row.add_((x * x)[1:, None])
    return z.sum(0)


def _rows(lib: Any, x: Any, y: Any) -> Any:
    rows = lib.stack([x * y, y, x.sin()])
    return rows.amin(1) * rows.max(0).values + rows.min(1).values


def _largest(lib: Any, x: Any, y: Any) -> Any:
    values, at = (x * y + x).topk(2)
    return lib.cat([values, y.gather(0, at)[:1]])


def _positive(lib: Any, x: Any) -> Any:
    """Return a symmetric matrix with positive eigenvalues."""
    return x[:, None] * x[None] + 2 * lib.eye(SIZE, dtype=x.dtype)


def _convolution(lib: Any, x: Any, y: Any) -> Any:
    weight = lib.stack([y, x * y]).reshape(2, 1, SIZE)
    return lib.nn.functional.conv1d(x.reshape(1, 1, SIZE), weight, x[:2], padding=1)[0].prod(0)


def _attention(lib: Any, x: Any, y: Any) -> Any:
    q, k = lib.stack([x, y, x * y])[None], lib.stack([y, x])[None]
    if lib.__name__ == "torch":  # PyTorch's has no forward mode on the CPU
        return (lib.softmax(q @ k.mT / SIZE**0.5, -1) @ k * 0.5)[0].sum(0)
    return lib.nn.functional.scaled_dot_product_attention(q, k, k * 0.5)[0].sum(0)


def _spectrum(lib: Any, x: Any, y: Any) -> Any:
    """A convolution of the vectors as rings, and parts of complex numbers."""
    product = lib.fft.rfft(x) * lib.fft.rfft(y)
    return lib.fft.irfft(product, n=SIZE) + lib.cat([product.real, product.imag[1:]])


def _loop_of_branches(lib: Any, x: Any, y: Any) -> Any:
    if lib.__name__ == "torch":
        step = lambda c, t: (lib.where(c.sum() > t[0], c * t, (c + y).sin()), c * x)  # noqa: E731
    else:
        cond = _lax().cond
        step = lambda c, t: (cond(c.sum() > t[0], lambda: c * t, lambda: (c + y).sin()), c * x)  # noqa: E731
    last, ys = _scan(lib, step, x, lib.stack([y, x, x * y]))
    return last + ys.sum(0)


def _nested_loops(lib: Any, x: Any, y: Any) -> Any:
    def outer(c: Any, t: Any) -> tuple[Any, Any]:
        last, ys = _scan(lib, lambda d, u: ((d * u + t).sin(), d * x), c, lib.stack([t, y]))
        return last, ys.sum(0)

    last, ys = _scan(lib, outer, x, lib.stack([x * y, y]), reverse=True)
    return last * ys[1] + ys[0]


def _switch(lib: Any, x: Any, y: Any) -> Any:
    branches: list[Callable[[], Any]] = [lambda: x * y, lambda: x.cos() * y[0], lambda: y.sin()]
    which = (x.sum() > 0).long() + (y[0] > 0.3).long()
    if lib.__name__ != "torch":
        return _lax().switch(which, branches)
    one, two, three = (f() for f in branches)
    return lib.where(which == 0, one, lib.where(which == 1, two, three))


def _running(lib: Any, x: Any, y: Any) -> Any:
    """Values of a linear recurrence."""

    def joined(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    if lib.__name__ != "torch":
        return _lax().associative_scan(joined, (x, y))[1]
    found = [y[0]]
    for n in range(1, SIZE):
        found.append(found[-1] * x[n] + y[n])
    return lib.stack(found)


def _again(lib: Any, x: Any, y: Any) -> Any:
    """A checkpoint. PyTorch has none in its transforms."""

    def f(a: Any, b: Any) -> Any:
        return (a * b).sin() * a

    if lib.__name__ == "torch":
        return f(x, y)
    return lib.utils.checkpoint.checkpoint(f, x, y, use_reentrant=False)


def _custom(lib: Any, x: Any, y: Any) -> Any:
    """A function with its own rules. PyTorch computes it by ordinary operators."""
    if lib.__name__ == "torch":
        return (x * y).sin() * y
    return _function().apply(x, y)


@functools.cache
def _function() -> Any:
    from torchlette.autograd.function import Function

    class Product(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return (x * y).sin() * y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, y = ctx.saved_tensors
            slope = (x * y).cos() * y
            return grad * slope * y, grad * (slope * x + (x * y).sin())

        @staticmethod
        def jvp(ctx: Any, dx: Any, dy: Any) -> Any:
            x, y = ctx.saved_tensors
            slope = (x * y).cos() * y
            found = 0 if dx is None else dx * slope * y
            return found if dy is None else found + dy * (slope * x + (x * y).sin())

    return Product


def _compiled(lib: Any, x: Any, y: Any) -> Any:
    if lib.__name__ == "torch":
        return (x * y).tanh() + y
    return import_module("torchlette").jit(lambda a: (a * y).tanh() + y)(x)


#: Functions of two vectors that give a vector.
STEPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sin": lambda lib, x, y: x.sin() + y,
    "exp": lambda lib, x, y: (-x * x).exp() * y,
    "sigmoid": lambda lib, x, y: x.sigmoid() - y,
    "root": lambda lib, x, y: (x * x + 1).sqrt() / (y * y + 1),
    "power": lambda lib, x, y: x**3 * y,
    "softmax": lambda lib, x, y: lib.softmax(x, 0) * y,
    "log_softmax": lambda lib, x, y: lib.log_softmax(x * y, -1),
    "cumsum": lambda lib, x, y: x.cumsum(0) * y.flip(0),
    "product": lambda lib, x, y: x.prod() * y + y.cumprod(0),
    "sum": lambda lib, x, y: x.sum() * y,
    "variance": lambda lib, x, y: x.var() * y + x.mean(),
    "norm": _norm,
    "index": lambda lib, x, y: x[[2, 0, 0]] * y[1],
    "gather": lambda lib, x, y: x.gather(0, lib.tensor([1, 1, 2])) + y[:1],
    "scatter": lambda lib, x, y: x.scatter_add(0, lib.tensor([0, 0, 2]), y * x),
    "view": lambda lib, x, y: (x.reshape(SIZE, 1).t() * y.expand(2, SIZE))[1].reshape(-1),
    "joined": lambda lib, x, y: lib.cat([x[1:], (x * y)[:1]]),
    "outer": lambda lib, x, y: (x[:, None] * y[None]).tanh().sum(0),
    "matrix": lambda lib, x, y: lib.tensor(MATRIX, dtype=lib.float64) @ x * y,
    "maximum": lambda lib, x, y: lib.maximum(x * y, y + 0.1),
    "sorted": lambda lib, x, y: (x * y + x).sort().values * y,
    "selected": _selected,
    "written": _written,
    "detached": lambda lib, x, y: x.detach() * y,
    "loop": _loop,
    "loop back": _loop_back,
    "loop with detached values": _loop_detached,
    "branch": _branch,
    "put": _put,
    "viewed": _viewed,
    "rows": _rows,
    "largest": _largest,
    "einsum": lambda lib, x, y: lib.einsum("i,j,jk->k", x, y, lib.outer(y, x)),
    "convolution": _convolution,
    "attention": _attention,
    "clamped": lambda lib, x, y: x.clamp(-0.41, 0.63) * y + x.clamp(min=y - 0.3),
    "masked": lambda lib, x, y: (x * y).masked_fill(x > y, 0.5) * x[0],
    "logsumexp": lambda lib, x, y: lib.stack([x * y, y]).logsumexp(0) + lib.logaddexp(x, y),
    "length": lambda lib, x, y: x / lib.linalg.vector_norm(x + y),
    "gelu": lambda lib, x, y: lib.nn.functional.gelu(x * y) + lib.nn.functional.silu(x),
    "softplus": lambda lib, x, y: lib.nn.functional.softplus(x) * lib.nn.functional.leaky_relu(y, 0.2),
    "padded": lambda lib, x, y: lib.nn.functional.pad(x * y, (1, 1)).unfold(0, 3, 1).prod(1) + x.roll(1),
    "solved": lambda lib, x, y: lib.linalg.solve(_positive(lib, x), y * x),
    "cholesky": lambda lib, x, y: lib.linalg.cholesky(_positive(lib, x)) @ y,
    "determinant": lambda lib, x, y: lib.linalg.slogdet(_positive(lib, x))[1] * lib.linalg.inv(_positive(lib, y))[0],
    "spectrum": _spectrum,
    "loop of branches": _loop_of_branches,
    "nested loops": _nested_loops,
    "switch": _switch,
    "running": _running,
    "again": _again,
    "custom": _custom,
    "compiled": _compiled,
}

#: More such functions, for compositions of transforms in forward mode alone.
FORWARD_STEPS = {"loop until": _ended}


def _vjp(lib: Any, f: Callable[[Any], Any], x: Any) -> Any:
    out, pull = lib.func.vjp(f, x)
    return pull(out.cos())[0] + out


def _jvp(lib: Any, f: Callable[[Any], Any], x: Any) -> Any:
    out, slope = lib.func.jvp(f, (x,), (x * 0.5 + 0.1,))
    return slope - out


def _linearize(lib: Any, f: Callable[[Any], Any], x: Any) -> Any:
    if lib.__name__ == "torch":
        out, slope = lib.func.jvp(f, (x,), (x * 0.25 + 0.1,))
        return slope + out
    out, push = lib.func.linearize(f, x)
    return push(x * 0.25 + 0.1) + out


def _value_and_grad(lib: Any, f: Callable[[Any], Any], x: Any) -> Any:
    slope, (value, aux) = lib.func.grad_and_value(lambda v: (f(v).sum(), v * 2), has_aux=True)(x)
    return slope * value - aux


def _tree(lib: Any, f: Callable[[Any], Any], x: Any) -> Any:
    def split(d: Any, w: Any) -> Any:
        return {"sum": f(d["a"] * w), "rest": (d["b"],)}

    rows = lib.stack([x, x - 0.25], -1)
    out = lib.func.vmap(split, in_dims=({"a": -1, "b": None}, None), out_dims={"sum": 1, "rest": (0,)})(
        {"a": rows, "b": x}, x
    )
    return out["sum"].sum(1) - out["rest"][0].sum(0)


def _looped(lib: Any, f: Callable[[Any], Any], x: Any) -> Any:
    """The function is the body of a loop."""
    last, ys = _scan(lib, lambda c, t: (f(c) * t, c * t), x, lib.stack([x * 0 + 1, x]))
    return last + ys.sum(0)


def _mapped(lib: Any, f: Callable[[Any], Any], x: Any) -> Any:
    rows = lib.stack([x, x * 0.5, x + 1])
    if lib.__name__ == "torch":
        return lib.stack([f(r) for r in rows.unbind()]).sum(0)
    return _lax().map(f, rows).sum(0)


#: Uses of a transform on a function from vectors to vectors, which give such a function.
TRANSFORMS: dict[str, Callable[[Any, Callable[[Any], Any], Any], Any]] = {
    "grad": lambda lib, f, x: lib.func.grad(lambda v: f(v).sum())(x),
    "vjp": _vjp,
    "jvp": _jvp,
    "jacrev": lambda lib, f, x: lib.func.jacrev(f)(x).sum(0),
    "jacfwd": lambda lib, f, x: lib.func.jacfwd(f)(x).sum(1),
    "vmap": lambda lib, f, x: lib.func.vmap(f)(lib.stack([x, x * 0.5])).sum(0),
    "vmap of last dims": lambda lib, f, x: lib.func.vmap(f, -1, -1)(lib.stack([x, x * 0.5], -1)).sum(-1),
    "vmap of a tree": _tree,
    "vmap of chunks": lambda lib, f, x: lib.func.vmap(f, chunk_size=2)(lib.stack([x, x * 0.5, x + 1])).sum(0),
    "jacrev of chunks": lambda lib, f, x: lib.func.jacrev(f, chunk_size=2)(x).sum(0),
    "hessian": lambda lib, f, x: lib.func.hessian(lambda v: f(v).sum())(x).sum(0),
    "linearize": _linearize,
    "value and grad": _value_and_grad,
    "loop": _looped,
    "map": _mapped,
    "vmap of directions": lambda lib, f, x: lib.func.vmap(lambda t: lib.func.jvp(f, (x,), (t,))[1])(
        lib.stack([x, x + 1])
    ).sum(0),
}


#: Those that walk back nowhere.
FORWARD = ("jvp", "jacfwd", "vmap", "vmap of directions", "vmap of last dims", "vmap of a tree", "loop", "map")


@dataclasses.dataclass
class Level:
    """A transform, whether it applies at the argument around it, and the steps of its function."""

    transform: str
    own_point: bool
    steps: list[tuple[str, int, int]]


@dataclasses.dataclass
class Composition:
    """Transforms, the outermost first."""

    levels: list[Level]


def generate(seed: int, depth: int = 4) -> Composition:
    """Return the composition of a seed, of at most ``depth`` transforms."""
    rng = random.Random(seed)
    forward = rng.random() < 0.2
    names = [*STEPS, *FORWARD_STEPS] if forward else list(STEPS)
    levels: list[Level] = []
    for _ in range(rng.randint(1, depth)):
        # The function that linearize gives is no function of the point to the transforms around it.
        chosen = FORWARD if forward else [t for t in TRANSFORMS if not levels or t != "linearize"]
        transform = rng.choice(chosen)
        if transform in ("loop", "map"):  # their bodies refuse functions with rules in Python
            names = [n for n in names if n != "custom"]
        steps = [(rng.choice(names), rng.randint(0, 99), rng.randint(0, 99)) for _ in range(rng.randint(1, 3))]
        levels.append(Level(transform, rng.random() < 0.7, steps))
    return Composition(levels)


def evaluate(lib: Any, composition: Composition) -> list[float]:
    """Return the result of a composition under a library, in float64."""
    point, captured = (lib.tensor(v, dtype=lib.float64) for v in (POINT, CAPTURED))

    def level(k: int, known: list[Any]) -> Callable[[Any], Any]:
        here = composition.levels[k]

        def f(x: Any) -> Any:
            values = [*known, x]
            for name, i, j in here.steps:
                step = STEPS.get(name) or FORWARD_STEPS[name]
                values.append(lib.tanh(step(lib, values[-1 - i % 2], values[j % len(values)])))
            out = values[-1]
            if k + 1 < len(composition.levels):
                inner = composition.levels[k + 1]
                at = x if inner.own_point else point
                out = out + TRANSFORMS[inner.transform](lib, level(k + 1, [*known, x]), at)
            return out

        return f

    found: list[float] = TRANSFORMS[composition.levels[0].transform](lib, level(0, [captured]), point).tolist()
    return found
