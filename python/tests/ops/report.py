"""Print how much of PyTorch's operator database gives PyTorch's results: ``python -m report [names] [options]``.

Run from this directory. For each entry it prints samples passed and run, forward and gradient, and the first
failure of each kind; at the end, totals by tier.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
os.environ.setdefault("TORCHLETTE_ADAPTER", "software")

import database
import differences
import scope
import torch

import torchlette

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
GRADIENTS = ("float32", "complex64")
KINDS = ("forward", "gradient", "second gradient", "error")
Count = collections.Counter[str]
HEAD = """# Counts of PyTorch's operator database

`python -m report ... --out results.md` in this folder writes a section: how many samples give PyTorch's result, and the
entries with samples that do not, with the reason of differences.py or the failure's own text. With `--log FILE` a later
run of some entries replaces those. Samples that draw are compared by shape and dtype; gradients that PyTorch refuses
are left out. These are the options of the sections:

* strided: `--tier 1 --tier 2 --tier 3 --dtypes float32 --strided --limit 20 --device DEVICE`
* tiers of complex64: `--tier 1 --tier 2 --tier 3 --dtypes complex64 --limit 4`
* the whole database, absent names included: `--all --limit 3 --dtypes DTYPE --gradients DTYPE`, `--second` for float64
"""


class Options(NamedTuple):
    """What is run of an entry."""

    device: str
    dtypes: tuple[str, ...]
    limit: int
    all_forms: bool = False
    strided: bool = False
    gradients: tuple[str, ...] = GRADIENTS
    second: bool = False
    errors: bool = False


class Examination:
    """Counts of an entry's samples, and the first failure of each kind."""

    def __init__(self, op: Any, options: Options) -> None:
        self.op = op
        self.options = options
        self.count: Count = collections.Counter()
        self.first: dict[str, str] = {}

    def attempt(self, kind: str, what: str, f: Callable[[], Any]) -> None:
        """Count a comparison: it fails by raising, and returns False if there was nothing to compare."""
        try:
            done = f()
        except Exception as error:
            torchlette.reset() if isinstance(error, torchlette.PoisonedEngineError) else None
            text = " ".join(f"{type(error).__name__}: {error}".split())
            if "float64 is not supported on device wgpu" in text:  # GPUs have none: documented, and no failure
                self.count[kind + " in float64"] += 1
                return
            self.first.setdefault(f"{kind} {what}", text[:300])
            self.count[kind + " run"] += 1
            return
        if done is not False:
            self.count[kind + " run"] += 1
            self.count[kind + " passed"] += 1

    def samples(self, name: str, *, grad: bool) -> list[Any]:
        """Return the entry's samples of a dtype; none where PyTorch cannot make them."""
        dtype, options = getattr(torch, name), self.options
        try:
            return list(database.samples(self.op, dtype, grad=grad, limit=options.limit, strided=options.strided))
        except Exception as error:
            print(f"{database.label(self.op)}: no samples of {name}: {error}", file=sys.stderr)
            return []

    def forward(self, name: str) -> None:
        """Run the chosen forms of a dtype."""
        op, device = self.op, self.options.device
        drawn = self.samples(name, grad=False)
        for form in database.forms(op) if self.options.all_forms else ["function"]:
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
                values = not scope.draws(op.name, sample)
                run = functools.partial(database.forward, op, sample, device, form, values=values)
                self.attempt("forward", f"{form} {name} #{i}", run)

    def gradients(self, name: str) -> None:
        """Run the gradients of a dtype, and those of second order if asked."""
        op, device = self.op, self.options.device
        drawn = [s for s in self.samples(name, grad=True) if not scope.draws(op.name, s)]
        for i, sample in enumerate(drawn):
            self.attempt("gradient", f"{name} #{i}", functools.partial(database.gradient, op, sample, device))
        for i, sample in enumerate(drawn if self.options.second and op.supports_gradgrad else ()):
            run = functools.partial(database.second_gradient, op, sample, device)
            self.attempt("second gradient", f"{name} #{i}", run)

    def errors(self) -> None:
        """Run the calls that PyTorch refuses."""
        for i, case in enumerate(self.op.error_inputs("cpu") if self.op.error_inputs_func is not None else ()):
            self.attempt("error", f"#{i}", functools.partial(self.error, case))

    def error(self, case: Any) -> bool:
        """Assert that a call raises PyTorch's class; return whether PyTorch refuses it."""
        outcome = database.bad_call(self.op, case)
        assert outcome is None or outcome.right, f"raised {outcome.got!r}, want {outcome.want!r}"
        return outcome is not None


def examine(op: Any, options: Options) -> tuple[Count, dict[str, str]]:
    """Run every sample of an entry; return counts and the first failure of each kind."""
    run = Examination(op, options)
    for name in options.dtypes:
        if getattr(torch, name) not in op.dtypes:
            continue
        run.forward(name)
        if name in options.gradients and op.supports_autograd:
            run.gradients(name)
    if options.errors:
        run.errors()
    return run.count, run.first


def _one(job: tuple[str, Options]) -> Result:
    name, options = job
    op = next(o for o in database.op_db if database.label(o) == name)
    return name, *examine(op, options)


Result = tuple[str, Count, dict[str, str]]


def logged(results: Iterable[Result], path: str) -> Iterator[Result]:
    """Yield the results, each added to a file as it comes."""
    with Path(path).open("a") as file:
        for result in results:
            print(json.dumps(result), file=file, flush=True)
            yield result


def read_log(path: str) -> list[Result]:
    """Return the results of a file of :func:`logged`, of each entry the last."""
    lines = map(json.loads, Path(path).read_text().splitlines())
    last = {name: (name, collections.Counter(count), first) for name, count, first in lines}
    return list(last.values())


def _percent(total: Count, kind: str) -> str:
    """Return how many samples of a kind passed."""
    passed, run = total[kind + " passed"], total[kind + " run"]
    return f"{passed} of {run} samples ({100 * passed / max(1, run):.2f} %)"


def _percents(total: Count) -> list[str]:
    return [f"* {kind}: {_percent(total, kind)}" for kind in KINDS if total[kind + " run"]]


def record(path: str, title: str, total: Count, wrong: dict[str, dict[str, str]]) -> None:
    """Write the counts and the failing entries with their reasons as the section ``title`` of a Markdown file."""
    file = Path(path)
    sections = (file.read_text() if file.exists() else HEAD).split("\n## ")
    lines = [title, "", *_percents(total), ""]
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
    parser.add_argument("names", nargs="*", help="operators (default: the tiers, or all)")
    parser.add_argument("--tier", type=int, choices=(1, 2, 3), action="append")
    parser.add_argument("--all", action="store_true", help="the whole database, absent names too")
    parser.add_argument("--gradients", default=",".join(GRADIENTS), help="dtypes whose gradients are run")
    parser.add_argument("--second", action="store_true", help="gradients of second order of these dtypes too")
    parser.add_argument("--errors", action="store_true", help="the calls that PyTorch refuses too")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--limit", type=int, default=60, help="samples of an entry, dtype and form")
    parser.add_argument("--forms", action="store_true", help="methods, in-place forms and aliases too")
    parser.add_argument("--strided", action="store_true", help="tensors with gaps between their elements")
    parser.add_argument("--failures", type=int, default=2, help="first failures shown of an entry")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--log", help="file that keeps each entry's counts; a later run adds to it and replaces its own"
    )
    parser.add_argument("--out", help="file of counts; the section of this device, dtypes and PyTorch is replaced")
    return parser.parse_args()


def printed(results: Iterable[Result], failures: int) -> Iterator[Result]:
    """Print each entry's counts and its first failures as they come."""
    for name, count, first in results:
        state = "ok  " if not first else "FAIL"
        counts = " ".join(f"{k} {count[k + ' passed']}/{count[k + ' run']}" for k in KINDS if count[k + " run"])
        print(f"{state} {name:45} {counts}", flush=True)
        for what, text in list(first.items())[:failures]:
            print(f"       {what}: {text}")
        yield name, count, first


def title(options: argparse.Namespace) -> str:
    """Return the title of a run's section: device, dtypes, entries, PyTorch's version."""
    software = options.device == "wgpu" and os.environ["TORCHLETTE_ADAPTER"] == "software"
    parts = [options.device + " on the software adapter" * software, options.dtypes]
    parts += ["strided"] * options.strided
    parts += ["the whole database" if options.all else f"tiers {', '.join(map(str, options.tier or (1, 2)))}"]
    version = torch.__version__.partition("+")[0]
    return f"{', '.join(parts)}; at most {options.limit} samples of an entry; PyTorch {version}"


def main() -> None:
    """Parse the arguments, run, print."""
    options = _parsed()
    tiers = {1: scope.TIER_1, 2: scope.TIER_2, 3: scope.TIER_3}
    names = frozenset(options.names) or frozenset().union(*(tiers[t] for t in options.tier or (1, 2)))
    if options.all and not options.names:
        names = frozenset(op.name for op in database.op_db)
    chosen = Options(
        options.device,
        tuple(filter(None, options.dtypes.split(","))),
        options.limit,
        options.forms,
        options.strided,
        tuple(options.gradients.split(",")),
        options.second,
        options.errors,
    )
    jobs = [(database.label(op), chosen) for op in database.entries(names)]
    if options.workers > 1:
        pool = multiprocessing.get_context("spawn").Pool(options.workers)
        results: Iterable[Result] = pool.imap_unordered(_one, jobs)
    else:
        results = map(_one, jobs)
    results = list(printed(logged(results, options.log) if options.log else results, options.failures))
    results = read_log(options.log) if options.log else results
    total: Count = sum((count for _, count, _ in results), collections.Counter())
    wrong = {name: first for name, _, first in results if first}
    print(f"entries without a failure: {len(results) - len(wrong)} of {len(results)}")
    for k in KINDS:
        asked = f"; {n} ask a GPU for float64" if (n := total[k + " in float64"]) else ""
        print(f"{k}: {_percent(total, k)}{asked}")
    if options.out:
        record(options.out, title(options), total, wrong)


if __name__ == "__main__":
    main()
