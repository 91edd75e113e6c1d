"""Print how much of PyTorch's operator database gives PyTorch's results: ``python -m report [names] [options]``.

Run from this directory. For each entry it prints samples passed and run, forward and gradient, and the first
failure of each kind; at the end, totals by tier.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import sys
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
os.environ.setdefault("TORCHLETTE_ADAPTER", "software")

import database
import scope
import torch

import torchlette

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
GRADIENTS = ("float32", "complex64")
Count = collections.Counter[str]


def examine(
    op: Any, device: str, dtypes: tuple[str, ...], limit: int, *, all_forms: bool, strided: bool = False
) -> tuple[Count, dict[str, str]]:
    """Run every sample of an entry; return counts and the first failure of each kind."""
    count: Count = collections.Counter()
    first: dict[str, str] = {}

    def attempt(kind: str, what: str, f: Any) -> None:
        try:
            done = f()
        except Exception as error:
            torchlette.reset() if isinstance(error, torchlette.PoisonedEngineError) else None
            text = " ".join(f"{type(error).__name__}: {error}".split())
            if "float64 is not supported on device wgpu" in text:  # GPUs have none: documented, and no failure
                count[kind + " in float64"] += 1
                return
            first.setdefault(f"{kind} {what}", text[:300])
            count[kind + " run"] += 1
            return
        if done is not False:
            count[kind + " run"] += 1
            count[kind + " passed"] += 1

    values = database.label(op) not in scope.DRAWS and op.name not in scope.DRAWS
    for name in dtypes:
        dtype = getattr(torch, name)
        if dtype not in op.dtypes:
            continue
        chosen = database.forms(op) if all_forms else ["function"]
        try:
            drawn = list(database.samples(op, dtype, grad=False, limit=limit, strided=strided))
        except Exception as error:
            print(f"{database.label(op)}: no samples of {name}: {error}", file=sys.stderr)
            continue
        for form in chosen:
            if form == "out":
                continue
            for i, sample in enumerate(drawn):
                if form == "inplace" and sample.broadcasts_input:
                    continue
                try:
                    torch.manual_seed(0)
                    database.call(database.theirs_of(op, form), sample, lambda x: x, form)
                except Exception:
                    continue  # PyTorch itself refuses
                attempt(
                    "forward",
                    f"{form} {name} #{i}",
                    lambda s=sample, f=form: database.forward(op, s, device, f, values=values),
                )
        if name in GRADIENTS and op.supports_autograd and values:
            for i, sample in enumerate(database.samples(op, dtype, grad=True, limit=limit, strided=strided)):
                attempt("gradient", f"{name} #{i}", lambda s=sample: database.gradient(op, s, device))
    return count, first


def _one(job: tuple[str, str, tuple[str, ...], int, bool, bool]) -> tuple[str, Count, dict[str, str]]:
    name, device, dtypes, limit, all_forms, strided = job
    op = next(o for o in database.op_db if database.label(o) == name)
    return name, *examine(op, device, dtypes, limit, all_forms=all_forms, strided=strided)


def main() -> None:
    """Parse the arguments, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="operators (default: tiers 1 and 2)")
    parser.add_argument("--tier", type=int, choices=(1, 2, 3), action="append")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--limit", type=int, default=60, help="samples of an entry, dtype and form")
    parser.add_argument("--forms", action="store_true", help="methods, in-place forms and aliases too")
    parser.add_argument("--strided", action="store_true", help="tensors with gaps between their elements")
    parser.add_argument("--failures", type=int, default=2, help="first failures shown of an entry")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    tiers = {1: scope.TIER_1, 2: scope.TIER_2, 3: scope.TIER_3}
    names = frozenset(options.names) or frozenset().union(*(tiers[t] for t in options.tier or (1, 2)))
    jobs = [
        (
            database.label(op),
            options.device,
            tuple(options.dtypes.split(",")),
            options.limit,
            options.forms,
            options.strided,
        )
        for op in database.entries(names)
    ]
    total: Count = collections.Counter()
    if options.workers > 1:
        pool = multiprocessing.get_context("spawn").Pool(options.workers)
        results = pool.imap_unordered(_one, jobs)
    else:
        results = map(_one, jobs)
    whole = 0
    for name, count, first in results:
        total.update(count)
        whole += not first
        state = "ok  " if not first else "FAIL"
        print(
            f"{state} {name:45} "
            + " ".join(f"{k} {count[k + ' passed']}/{count[k + ' run']}" for k in ("forward", "gradient")),
            flush=True,
        )
        for what, text in list(first.items())[: options.failures]:
            print(f"       {what}: {text}")
    print(f"entries without a failure: {whole} of {len(jobs)}")
    for k in ("forward", "gradient"):
        asked = f"; {n} ask a GPU for float64" if (n := total[k + " in float64"]) else ""
        print(
            f"{k}: {total[k + ' passed']} of {total[k + ' run']} samples "
            f"({100 * total[k + ' passed'] / max(1, total[k + ' run']):.2f} %){asked}"
        )


if __name__ == "__main__":
    main()
