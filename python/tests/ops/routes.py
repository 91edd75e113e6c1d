"""PyTorch's operator database through saved programs: ``python -m routes ROUTE [names] [options]`` in this directory.

A route makes a program of a sample's call, whose inputs are the sample's tensors:

* ``tlp``: export, saved and loaded
* ``session``: the same file in an InferenceSession
* ``pt2``: torch.export's program, saved by PyTorch and loaded here
* ``onnx``: export to ONNX, run by onnxruntime

It prints how many samples give PyTorch's result, and how many are refused, fail, or differ, with the first text of each
kind. Samples that PyTorch itself refuses, or cannot export, are left out.
"""

from __future__ import annotations

import argparse
import collections
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
os.environ.setdefault("TORCHLETTE_ADAPTER", "software")

import database
import numpy as np
import oracle
import scope
import torch

import torchlette
import torchlette.torch as facade
from torchlette import export

Route = Callable[["Call", str], Callable[..., Any]]


class Left(Exception):
    """A sample that PyTorch or onnxruntime refuses."""


def leaves(x: Any) -> list[Any]:
    """Return the tensors in an argument and its contents, each once."""
    if isinstance(x, (torch.Tensor, torchlette.Tensor)):
        return [x]
    if isinstance(x, slice):
        x = [x.start, x.stop, x.step]
    found = [
        leaf
        for v in (x.values() if isinstance(x, dict) else x if type(x) in (list, tuple) else [])
        for leaf in leaves(v)
    ]
    return list({id(leaf): leaf for leaf in found}.values())


def filled(x: Any, tensors: dict[int, Any]) -> Any:
    """Return an argument with other tensors in place of its own, by their ids."""
    if isinstance(x, (torch.Tensor, torchlette.Tensor)):
        return tensors[id(x)]
    if isinstance(x, slice):
        return slice(*(filled(v, tensors) for v in (x.start, x.stop, x.step)))
    if isinstance(x, dict):
        return {k: filled(v, tensors) for k, v in x.items()}
    return type(x)(filled(v, tensors) for v in x) if type(x) in (list, tuple) else x


class Call:
    """A sample's call in both libraries, as modules whose inputs are its tensors."""

    def __init__(self, op: database.OpInfo, sample: database.Sample) -> None:
        self.op, self.sample = op, sample
        self.theirs = (sample.input, tuple(sample.args), dict(sample.kwargs))
        self.inputs = [t.detach().resolve_conj().resolve_neg() for t in leaves(self.theirs)]
        convert = database.Converter("cpu")
        self.ours = tuple(convert(x) for x in self.theirs)

    def module(self, lib: Any, f: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Return the module of a library, PyTorch or ours, that calls ``f`` on its inputs in the sample's places."""

        class Called(lib.nn.Module):  # type: ignore[misc]
            def forward(self, *tensors: Any) -> Any:
                given = dict(zip(map(id, leaves(arguments)), tensors, strict=True))
                first, rest, named = filled(arguments, given)
                return f(first, *rest, **named)

        return Called().eval()

    def exported(self) -> Any:
        """Return our program."""
        module = self.module(facade, database.counterpart(self.op), self.ours)
        return export.export(module, tuple(t.detach() for t in leaves(self.ours)))


def _left(f: Callable[[], Any]) -> Any:
    try:
        return f()
    except Exception as error:
        raise Left(str(error)) from error


def tlp(call: Call, path: str) -> Callable[..., Any]:
    """Save and load our program."""
    export.save(call.exported(), path)
    return export.load(path).module()


def session(call: Call, path: str) -> Callable[..., Any]:
    """Save our program and make a session of the file."""
    export.save(call.exported(), path)
    return torchlette.InferenceSession(path)


def pt2(call: Call, path: str) -> Callable[..., Any]:
    """Save PyTorch's program and load it here."""
    module = call.module(torch, call.op.op, call.theirs)
    program = _left(lambda: torch.export.export(module, tuple(call.inputs), strict=False))
    _left(lambda: torch.export.save(program, path + ".pt2"))
    return export.load(path + ".pt2").module()


def onnx(call: Call, path: str) -> Callable[..., Any]:
    """Export our module to ONNX for onnxruntime. Complex numbers are pairs there."""
    import onnxruntime

    module = call.module(facade, database.counterpart(call.op), call.ours)
    torchlette.onnx.export(module, tuple(t.detach() for t in leaves(call.ours)), path)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    runner = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(*tensors: torchlette.Tensor) -> tuple[Any, ...]:
        arrays = [(facade.view_as_real(t) if t.is_complex() else t).numpy() for t in tensors]
        got = runner.run(None, dict(zip((i.name for i in runner.get_inputs()), arrays, strict=True)))
        return tuple(torchlette.tensor(np.ascontiguousarray(x).reshape(x.shape)) for x in got)

    return run


ROUTES: dict[str, Route] = {"tlp": tlp, "session": session, "pt2": pt2, "onnx": onnx}


def compare(op: database.OpInfo, sample: database.Sample, route: str) -> None:
    """Assert that a sample's call through a route gives PyTorch's result.

    Raises:
        Left: PyTorch refuses the call, or its export.
        AssertionError: Another result.
        Exception: What the route raises.
    """
    torch.manual_seed(database.SEED)
    want = _left(lambda: database.call(op.op, sample, lambda x: x, "function"))
    call = Call(op, sample)
    with tempfile.TemporaryDirectory() as folder:
        run = ROUTES[route](call, os.path.join(folder, "program"))
        got = run(*(database.tensor(t) for t in call.inputs))
    got, wanted = oracle.tensors(got), oracle.tensors(want)
    assert len(got) == len(wanted), f"{len(got)} results, want {len(wanted)}"
    got = [
        facade.view_as_complex(g) if w.is_complex() and not g.is_complex() else g
        for g, w in zip(got, wanted, strict=True)
    ]
    if scope.draws(op.name, sample):
        for g, w in zip(got, wanted, strict=True):
            oracle.same_kind(g, w)
        return
    same = got[0] if isinstance(want, torch.Tensor) else _like(want, iter(got))
    database.close(op, same, want, lambda widen: database.call(op.op, sample, widen, "function"))


def _like(want: Any, got: Iterator[Any]) -> Any:
    """Return ``got`` in the structure of ``want``."""
    if isinstance(want, torch.Tensor):
        return next(got)
    if isinstance(want, dict):
        return {k: _like(v, got) for k, v in want.items()}
    if isinstance(want, (list, tuple)):
        made = [_like(v, got) for v in want]
        return made if isinstance(want, list) else tuple(made)
    return want


def kind(error: Exception) -> str:
    """Return how an error is counted."""
    if isinstance(error, AssertionError):
        return "different"
    refusal = NotImplementedError, torchlette.HostReadInCompileError
    return "refused" if isinstance(error, refusal) else "failed"


def drawn(op: database.OpInfo, dtype: torch.dtype, limit: int) -> list[database.Sample]:
    """Return at most ``limit`` samples; none where the entry has no such dtype or PyTorch cannot make them."""
    if dtype not in op.dtypes:
        return []
    try:
        return list(database.samples(op, dtype, grad=False, limit=limit))
    except Exception as error:
        print(f"{database.label(op)}: no samples: {error}", file=sys.stderr)
        return []


def outcome(op: database.OpInfo, sample: database.Sample, route: str) -> tuple[str, str]:
    """Return how a sample's call through a route is counted, and the text of its error."""
    try:
        compare(op, sample, route)
    except Left as error:
        return "left out", str(error)
    except Exception as error:
        return kind(error), f"{type(error).__name__}: {' '.join(str(error).split())}"
    return "equal", ""


def main() -> None:
    """Parse the arguments, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("route", choices=ROUTES)
    parser.add_argument("names", nargs="*", help="operators (default: all of the database that we have)")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--limit", type=int, default=2, help="samples of an entry and dtype")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th entry from the i-th on")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    names = frozenset(options.names) or frozenset(op.name for op in database.op_db) - scope.ABSENT.keys()
    part, parts = map(int, options.part.split("/"))
    count: collections.Counter[str] = collections.Counter()
    for op in database.entries(names)[part::parts]:
        for name in options.dtypes.split(","):
            for i, sample in enumerate(drawn(op, getattr(torch, name), options.limit)):
                what, text = outcome(op, sample, options.route)
                count[what] += 1
                if what not in ("equal", "left out"):
                    print(f"{what} {database.label(op)} {name} #{i}: {text[:200]}", flush=True)
    print(f"{options.route}: " + ", ".join(f"{n} {what}" for what, n in count.most_common()))


if __name__ == "__main__":
    main()
