"""Print how far PyTorch's module samples give PyTorch's results: ``python -m module_report [names] [options]``.

Run from this directory. A sample of ``module_db`` gives the arguments of a constructor and of a call. The module is
constructed in both libraries, ours takes PyTorch's ``state_dict`` (strict), and five aspects are compared: the text of
``repr``, ``state_dict`` both ways, outputs, gradients of inputs and of parameters, and buffers after the call; each in
training and in evaluation mode.

Some samples have values of which float32 or a half type keeps few digits, so that PyTorch's own error is beyond the
tolerance. Where ours differs from PyTorch's, it passes if it is at most four times as far from PyTorch's float64
result.
"""

from __future__ import annotations

import argparse
import collections
import copy
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
os.environ.setdefault("TORCHLETTE_ADAPTER", "software")

import database
import oracle
import torch
from torch.testing._internal.common_modules import module_db

import torchlette
import torchlette.torch as facade

ASPECTS = ("repr", "state_dict", "forward", "gradient", "buffers")
#: Modules whose outputs are drawn.
DRAWS = frozenset({"nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d"})
Count = collections.Counter[str]
Info = Any
Sample = Any


def inputs(info: Info, dtype: torch.dtype, *, training: bool) -> Iterator[Sample]:
    """Yield an entry's samples, the tensors of which want gradients."""
    torch.manual_seed(database.SEED)
    yield from info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)


class Pair:
    """A module in both libraries with the same state, and one call of each."""

    def __init__(self, info: Info, sample: Sample, dtype: torch.dtype, device: str, *, training: bool) -> None:
        """Construct both."""
        made, call = sample.constructor_input, sample.forward_input
        self.device, self.call = device, call
        options = {"dtype": dtype} if info.module_memformat_affects_out or _takes_dtype(info.module_cls) else {}
        torch.manual_seed(database.SEED)
        self.theirs = info.module_cls(*made.args, **{**options, **made.kwargs}).to(dtype)
        convert = _Converter(device)
        ours = database.lookup(info.name)
        if ours is None:
            raise AttributeError(f"no {info.name}")
        self.ours = ours(*convert(made.args), **convert({**options, **made.kwargs})).to(device, convert(dtype))
        self.lazy = isinstance(self.theirs, torch.nn.modules.lazy.LazyModuleMixin)
        self.blank = repr(self.theirs), repr(self.ours)
        self.convert = database.Converter(device)
        self.args, self.kwargs = self.convert(call.args), self.convert(call.kwargs)
        for module in (self.theirs, self.ours):
            module.train(training)
        if self.lazy:
            self.theirs(*call.args, **call.kwargs)
            self.ours(*self.args, **self.kwargs)

    def check_repr(self) -> None:
        """Compare the text of the modules."""
        for got, want in ((self.blank[1], self.blank[0]), (repr(self.ours), repr(self.theirs))):
            assert got == want.replace("torch.", "torchlette."), f"got {got!r}, want {want!r}"

    def check_state(self) -> None:
        """Load PyTorch's state into ours, and ours into PyTorch's: the same keys, shapes, dtypes and order."""
        convert = database.Converter(self.device)
        self.ours.load_state_dict({k: convert(v) for k, v in self.theirs.state_dict().items()})
        back = {k: oracle.to_torch(v.to("cpu")) for k, v in self.ours.state_dict().items()}
        assert list(back) == list(self.theirs.state_dict()), (
            f"got keys {list(back)}, want {list(self.theirs.state_dict())}"
        )
        assert all(back[k].dtype == v.dtype for k, v in self.theirs.state_dict().items())
        self.theirs.load_state_dict(back)

    def run(self) -> None:
        """Call both."""
        self.want = database.tensors(_values(self.theirs(*self.call.args, **self.call.kwargs)))
        self.got = database.tensors(_values(self.ours(*self.args, **self.kwargs)))

    def exact(self, widen: oracle.Widener) -> tuple[list[torch.Tensor], list[Any]]:
        """Return PyTorch's outputs in float64 and the gradients of inputs and parameters."""
        module = copy.deepcopy(self.theirs).double()
        for mine, theirs in zip(module.parameters(), self.theirs.parameters(), strict=True):
            mine.data = widen(theirs).detach()
        out = oracle.tensors(_values(module(*widen(self.call.args), **widen(self.call.kwargs))))
        if not any(t.requires_grad for t in out):
            return out, []
        leaves = [widen.of(t) for t, _ in self.convert.leaves] + [p for p in module.parameters() if p.requires_grad]
        return out, _gradients(torch, out, leaves, [c.double() for c in self.cotangents()])

    def cotangents(self) -> list[torch.Tensor]:
        """Return the cotangents of the outputs that require gradients."""
        draw = torch.Generator().manual_seed(database.SEED)
        return [torch.rand(w.shape, dtype=w.dtype, generator=draw) + 0.5 for w in self.want if w.requires_grad]

    def check_forward(self, *, values: bool = True) -> None:
        """Compare the outputs."""
        assert len(self.got) == len(self.want), f"got {len(self.got)} results, want {len(self.want)}"
        for g, w in zip(self.got, self.want, strict=True):
            oracle.same_kind(g, w)
            assert g.requires_grad == w.requires_grad, f"requires_grad is {g.requires_grad}, want {w.requires_grad}"
        if values:
            _close(self.got, self.want, "output", lambda widen: self.exact(widen)[0])

    def check_gradient(self) -> bool:
        """Compare the gradients of inputs and parameters; return whether there are any."""
        if not any(w.requires_grad for w in self.want):
            return False
        mine = dict(self.ours.named_parameters())
        leaves = self.convert.leaves + [
            (p, mine[name]) for name, p in self.theirs.named_parameters() if p.requires_grad
        ]
        cotangents = self.cotangents()
        want = _gradients(torch, self.want, [t for t, _ in leaves], cotangents)
        got = _gradients(
            facade, self.got, [o for _, o in leaves], [database.tensor(c, self.device) for c in cotangents]
        )
        _close(got, want, "gradient", lambda widen: self.exact(widen)[1])
        return True

    def check_buffers(self) -> bool:
        """Compare the buffers that the call may have moved; return whether there are any."""
        mine = dict(self.ours.named_buffers())
        for name, b in self.theirs.named_buffers():
            oracle.assert_equal(mine[name], b, name)
        return bool(mine)


class _Converter(database.Converter):
    """Maps a layer that is an argument to one of ours."""

    def __call__(self, x: Any) -> Any:
        """Convert an argument and its contents."""
        if not isinstance(x, torch.nn.TransformerEncoderLayer):
            return super().__call__(x)
        heads, norm, attention = x.self_attn.num_heads, x.norm1, x.self_attn
        ours = facade.nn.TransformerEncoderLayer(
            x.linear1.in_features,
            heads,
            x.linear1.out_features,
            x.dropout.p,
            self(x.activation),
            norm.eps,
            attention.batch_first,
            x.norm_first,
            x.linear1.bias is not None,
        )
        return ours.to(self(x.linear1.weight.dtype))


def _gradients(lib: Any, outputs: list[Any], leaves: list[Any], cotangents: list[Any]) -> list[Any]:
    return list(lib.autograd.grad([t for t in outputs if t.requires_grad], leaves, cotangents, allow_unused=True))


def _close(got: list[Any], want: list[Any], what: str, exact: Callable[[oracle.Widener], list[Any]]) -> None:
    """Assert that results are PyTorch's by the rule of :func:`oracle.assert_near`."""
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert (g is None) == (w is None), f"{what} {i} is {'none' if g is None else 'given'}, want the other"
    given = [i for i, w in enumerate(want) if w is not None]
    oracle.assert_near(
        [got[i] for i in given], [want[i] for i in given], lambda widen: [exact(widen)[i] for i in given], what
    )


def _takes_dtype(cls: type) -> bool:
    return "dtype" in cls.__init__.__code__.co_varnames


def _values(result: Any) -> Any:
    """Return a result with packed sequences and the like as tuples."""
    return tuple(_values(r) for r in result) if isinstance(result, (tuple, list)) else result


def examine(info: Info, dtype: torch.dtype, device: str) -> tuple[Count, dict[str, str]]:
    """Compare all samples of an entry; return counts by aspect and the first failure of each."""
    count: Count = collections.Counter()
    first: dict[str, str] = {}

    def attempt(aspect: str, what: str, f: Callable[[], Any]) -> bool:
        count[aspect + " run"] += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                done = f()
        except Exception as error:
            first.setdefault(f"{aspect} {what}", " ".join(f"{type(error).__name__}: {error}".split())[:300])
            return False
        count[aspect + (" passed" if done is not False else " run")] += 1 if done is not False else -1
        return True

    for training in (True, False) if info.train_and_eval_differ else (True,):
        for i, sample in enumerate(inputs(info, dtype, training=training)):
            if sample.forward_input is None:
                continue
            what = f"{'train' if training else 'eval'} #{i} {sample.desc}"
            made: list[Pair] = []
            if not attempt(
                "construct",
                what,
                lambda s=sample, t=training, m=made: m.append(Pair(info, s, dtype, device, training=t)),
            ):
                continue
            pair = made[0]
            attempt("repr", what, pair.check_repr)
            attempt("state_dict", what, pair.check_state)
            if attempt("call", what, pair.run):
                attempt("forward", what, lambda p=pair: p.check_forward(values=info.name not in DRAWS))
                attempt("buffers", what, pair.check_buffers)
                if info.name not in DRAWS:
                    attempt("gradient", what, pair.check_gradient)
    return count, first


def main() -> None:
    """Parse the arguments, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help='modules, such as "nn.Linear" (default: all)')
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--failures", type=int, default=3, help="first failures shown of an entry")
    options = parser.parse_args()
    total: Count = collections.Counter()
    whole, entries = 0, [m for m in module_db if not options.names or m.name in options.names]
    for info in entries:
        count: Count = collections.Counter()
        first: dict[str, str] = {}
        for name in options.dtypes.split(","):
            if (dtype := getattr(torch, name)) in info.dtypes:
                c, f = examine(info, dtype, options.device)
                count.update(c)
                first.update(f)
        total.update(count)
        whole += not first
        shown = " ".join(
            f"{k} {count[k + ' passed']}/{count[k + ' run']}"
            for k in ("construct", "call", *ASPECTS)
            if count[k + " run"]
        )
        print(f"{'FAIL' if first else 'ok  '} {info.name:32} {shown}", flush=True)
        for what, text in list(first.items())[: options.failures]:
            print(f"       {what}: {text}")
    torchlette.reset()
    print(f"modules without a failure: {whole} of {len(entries)}")
    for k in ("construct", "call", *ASPECTS):
        print(
            f"{k}: {total[k + ' passed']} of {total[k + ' run']} "
            f"({100 * total[k + ' passed'] / max(1, total[k + ' run']):.2f} %)"
        )


if __name__ == "__main__":
    main()
