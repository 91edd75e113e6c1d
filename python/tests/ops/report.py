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
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
os.environ.setdefault("TORCHLETTE_ADAPTER", "software")

import database
import differences
import scope
import torch

import torchlette

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
GRADIENTS = ("float32", "complex64")
Count = collections.Counter[str]
HEAD = """# Counts of PyTorch's operator database

`python -m report --tier 1 --tier 2 --tier 3 --dtypes float32 --strided --limit 20 --device DEVICE --out results.md`
in this folder writes a section: how many samples give PyTorch's result, and the entries with samples that do not.
Samples that draw are compared by shape and dtype; gradients that PyTorch refuses are left out.
"""


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
                    lambda s=sample, f=form: database.forward(op, s, device, f, values=not scope.draws(op.name, s)),
                )
        if name in GRADIENTS and op.supports_autograd:
            for i, sample in enumerate(database.samples(op, dtype, grad=True, limit=limit, strided=strided)):
                if scope.draws(op.name, sample):
                    continue
                attempt("gradient", f"{name} #{i}", lambda s=sample: database.gradient(op, s, device))
    return count, first


def _one(job: tuple[str, str, tuple[str, ...], int, bool, bool]) -> tuple[str, Count, dict[str, str]]:
    name, device, dtypes, limit, all_forms, strided = job
    op = next(o for o in database.op_db if database.label(o) == name)
    return name, *examine(op, device, dtypes, limit, all_forms=all_forms, strided=strided)


def _percent(total: Count, kind: str) -> str:
    """Return how many samples of a kind passed."""
    passed, run = total[kind + " passed"], total[kind + " run"]
    return f"{passed} of {run} samples ({100 * passed / max(1, run):.2f} %)"


def record(path: str, title: str, total: Count, wrong: dict[str, dict[str, str]]) -> None:
    """Write the counts and the failing entries with their reasons as the section ``title`` of a Markdown file."""
    file = Path(path)
    sections = (file.read_text() if file.exists() else HEAD).split("\n## ")
    lines = [title, "", *(f"* {kind}: {_percent(total, kind)}" for kind in ("forward", "gradient")), ""]
    if wrong:
        lines += ["| entry | samples | reason |", "|---|---|---|"]
    for label, found in sorted(wrong.items()):
        reasons = {differences.excuse(label, what, seldom=True) or text[:100] for what, text in found.items()}
        lines.append(f"| {label} | {len(found)} | {'; '.join(sorted(reasons)).replace('|', ' ')} |")
    kept = [section for section in sections[1:] if section.partition("\n")[0] != title]
    text = "\n## ".join(part.rstrip("\n") + "\n" for part in [sections[0], *kept, "\n".join(lines)])
    file.write_text(text)


def _parsed() -> argparse.Namespace:
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
    parser.add_argument("--out", help="file of counts; the section of this device, dtypes and PyTorch is replaced")
    return parser.parse_args()


def main() -> None:
    """Parse the arguments, run, print."""
    options = _parsed()
    tiers = {1: scope.TIER_1, 2: scope.TIER_2, 3: scope.TIER_3}
    names = frozenset(options.names) or frozenset().union(*(tiers[t] for t in options.tier or (1, 2)))
    dtypes = tuple(options.dtypes.split(","))
    jobs = [
        (database.label(op), options.device, dtypes, options.limit, options.forms, options.strided)
        for op in database.entries(names)
    ]
    total: Count = collections.Counter()
    if options.workers > 1:
        pool = multiprocessing.get_context("spawn").Pool(options.workers)
        results = pool.imap_unordered(_one, jobs)
    else:
        results = map(_one, jobs)
    wrong: dict[str, dict[str, str]] = {}
    for name, count, first in results:
        total.update(count)
        if first:
            wrong[name] = first
        state = "ok  " if not first else "FAIL"
        print(
            f"{state} {name:45} "
            + " ".join(f"{k} {count[k + ' passed']}/{count[k + ' run']}" for k in ("forward", "gradient")),
            flush=True,
        )
        for what, text in list(first.items())[: options.failures]:
            print(f"       {what}: {text}")
    print(f"entries without a failure: {len(jobs) - len(wrong)} of {len(jobs)}")
    for k in ("forward", "gradient"):
        asked = f"; {n} ask a GPU for float64" if (n := total[k + " in float64"]) else ""
        print(f"{k}: {_percent(total, k)}{asked}")
    if options.out:
        layout = ", strided" if options.strided else ""
        title = f"{options.device}, {options.dtypes}{layout}; PyTorch {torch.__version__.partition('+')[0]}"
        record(options.out, title, total, wrong)


if __name__ == "__main__":
    main()
