"""Runs the array API's test suite on a namespace and writes the counts: python run.py CHECKOUT [--module ...].

CHECKOUT is a checkout of data-apis/array-api-tests with its submodule array-api; the suite needs hypothesis, ndindex
and pytest-json-report. Complex dtypes and all integers are on. known_failures.txt lists the tests that fail, below
comments with the reason, in the form of the suite's own ``--xfails-file``; the exit status is 1 if another test fails.
``--module array_api_compat.torch`` counts PyTorch itself, with ``--as-torch`` this library under PyTorch's names.
"""

from __future__ import annotations

import argparse
import os
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import junit  # noqa: E402


def known_failures(file: Path) -> dict[str, str]:
    """Return the reason of each test of a list: the comment lines above it."""
    known: dict[str, str] = {}
    reason: list[str] = []
    done = True
    for line in file.read_text().splitlines():
        if line.startswith("#"):
            reason = [] if done else reason
            reason.append(line.removeprefix("#").strip())
            done = False
        elif line.strip():
            known[line] = " ".join(reason)
            done = True
    return known


def counts(report: ET.Element) -> tuple[dict[str, Counter[str]], list[str]]:
    """Return the counts by file of a JUnit report, and the tests that failed."""
    files: dict[str, Counter[str]] = {}
    failed = []
    for case, kind, _ in junit.cases(report):
        parts = case.get("classname", "").split(".")
        file = next(f"{'/'.join(parts[: i + 1])}.py" for i, part in enumerate(parts) if part.startswith("test_"))
        inside = parts[file.count("/") + 1 :]
        files.setdefault(file, Counter())[kind] += 1
        if kind == "fail":
            failed.append("::".join([file, *inside, case.get("name", "")]))
    return files, failed


def table(title: str, files: dict[str, Counter[str]], failed: list[str], known: dict[str, str]) -> str:
    """Return the counts and the failures by reason as a Markdown section."""
    total = sum(files.values(), Counter[str]())
    rows = [(file.rpartition("/")[2], found) for file, found in [*sorted(files.items()), ("all", total)]]
    lines = [f"## {title}", "", *junit.counts_table(rows)]
    reasons = Counter(known.get(test, "not in known_failures.txt") for test in failed)
    if reasons:
        lines += ["", *junit.reasons_table(reasons.most_common())]
    return "\n".join(lines) + "\n"


def write(path: Path, section: str) -> None:
    """Write a section into a Markdown file, in place of the one of the same title."""
    title = section.partition("\n")[0].removeprefix("## ")
    text = path.read_text() if path.exists() else "# Counts of the array API's test suite\n"
    head, *others = text.split("\n## ")
    kept = [part for part in others if part.partition("\n")[0] != title]
    parts = [head, *kept, section.removeprefix("## ")]
    path.write_text("\n## ".join(part.rstrip("\n") + "\n" for part in parts))


def main(arguments: list[str] | None = None) -> int:
    """Run the suite of the command line and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", help="checkout of the suite")
    parser.add_argument("--module", default="torchlette.array_api", help="namespace to test")
    parser.add_argument("--as-torch", action="store_true", help="answer import torch by this library")
    parser.add_argument("--title", help="title of the section (default: the module's name)")
    parser.add_argument("--max-examples", type=int, default=10, help="examples of a test")
    parser.add_argument("--known", default=str(HERE / "known_failures.txt"), help="list of known failures")
    parser.add_argument("--out", default=str(HERE / "results.md"), help="file of counts; its section is replaced")
    parser.add_argument("-k", dest="chosen", help="tests to run, as for pytest")
    parser.add_argument("--workers", type=int, default=0, help="processes; needs pytest-xdist")
    options = parser.parse_args(arguments)
    start = ["-m", "torchlette.as_torch", "-m", "pytest"] if options.as_torch else ["-m", "pytest"]
    command = [sys.executable, *start, "array_api_tests", "-q", "-p", "no:cacheprovider", "-W", "ignore"]
    command += ["--derandomize", "--disable-deadline", "--max-examples", str(options.max_examples)]
    command += ["-k", options.chosen] if options.chosen else []
    command += ["-n", str(options.workers)] if options.workers else []
    environment = os.environ | {"ARRAY_API_TESTS_MODULE": options.module}
    try:
        files, failed = counts(junit.run(command, cwd=options.checkout, env=environment))
    except junit.NoReport as error:
        print(error, file=sys.stderr)
        return 2
    known = known_failures(Path(options.known))
    title = f"{options.title or options.module}, {options.max_examples} examples"
    write(Path(options.out), table(title, files, failed, known))
    new = [test for test in failed if test not in known]
    print("\n".join([*(f"not known: {test}" for test in new), f"{len(failed)} failed, {len(new)} of them not known"]))
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
