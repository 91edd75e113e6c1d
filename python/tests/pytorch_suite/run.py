"""Runs PyTorch's own test files on this library and writes the counts: python run.py SOURCE [--files ...] [--out ...].

SOURCE is a source tree of PyTorch: a checkout, or what ``apt-get source pytorch`` of Debian unpacks. Each file runs in
a process of its own with a time limit, a long one in several; see standins.py. known.json holds the reasons of failures
that stay: regular expressions of messages, in order; the table counts how many failures each explains. One that has
" \\| " is of a test's name and its message.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import junit  # noqa: E402

FILES = (
    "test_optim.py test_modules.py test_nn.py test_stateless.py test_autograd.py test_autocast.py test_dataloader.py "
    "test_pytree.py test_serialization.py test_utils.py distributions/test_distributions.py"
).split()


def run_file(options: argparse.Namespace, file: str) -> dict[str, object]:
    """Run one test file, in parts; return its counts and, by test and message, how many failed."""
    found: dict[str, object] = dict.fromkeys(junit.COUNTS, 0) | {"messages": {}}
    for part in range(options.parts):
        command = [sys.executable, str(HERE / "standins.py"), options.source, file]
        command += ["--part", f"{part}/{options.parts}"] if options.parts > 1 else []
        command += ["--each", str(options.each)] if options.each else []
        command += ["-k", options.chosen] if options.chosen else []
        try:
            add(found, counts(junit.run(command, options.limit)))
        except junit.NoReport as error:
            of = f"part {part}: " if options.parts > 1 else ""
            found["note"] = f"{found.get('note', '')} {of}{str(error)[-300:]}".replace("\n", " ").strip()
    return found


def add(found: dict[str, object], more: dict[str, object]) -> None:
    """Add the counts and messages of another part."""
    for key, value in more.items():
        found[key] = found[key] | value if key == "messages" else found[key] + value  # type: ignore[operator]


def counts(report: ET.Element) -> dict[str, object]:
    """Return the counts of a JUnit report."""
    found: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    for case, kind, problem in junit.cases(report):
        found[kind] += 1
        if kind == "fail" and problem is not None:
            text = problem.get("message") or ""
            if text == "collection failure":
                text = (problem.text or "").strip().rpartition("\nE ")[2]
            messages[f"{case.get('name')} | {' '.join(text.split())[:200]}"] += 1
    return {**{kind: found[kind] for kind in junit.COUNTS}, "messages": dict(messages.most_common())}


def reasons(messages: dict[str, int], known: dict[str, str]) -> Counter[str]:
    """Return how many failures each known reason explains; the others are under "unexplained"."""
    explained: Counter[str] = Counter()
    for case, count in messages.items():
        message = case.partition(" | ")[2] or case
        found = (text for pattern, text in known.items() if re.search(pattern, case if r" \| " in pattern else message))
        explained[next(found, "unexplained")] += count
    return explained


def table(results: dict[str, dict[str, object]], known: dict[str, str]) -> str:
    """Return the results as Markdown."""
    explained: Counter[str] = Counter()
    for result in results.values():
        explained += reasons(result.get("messages", {}), known)  # type: ignore[arg-type]
    lines = [*junit.counts_table(results.items(), "note"), "", *junit.reasons_table(explained.most_common())]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the files of the command line and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="source tree of PyTorch")
    parser.add_argument("--files", nargs="+", default=FILES, help="files below SOURCE/test")
    parser.add_argument("--parts", type=int, default=1, help="parts of a file, each in a process of its own")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one part")
    parser.add_argument("--each", type=int, default=0, help="seconds for one test")
    parser.add_argument("-k", dest="chosen", help="tests to run, as for pytest")
    parser.add_argument("--out", default=str(HERE / "results.md"), help="where the table goes")
    options = parser.parse_args(arguments)
    known = json.loads((HERE / "known.json").read_text())
    results: dict[str, dict[str, object]] = {}
    for file in options.files:
        results[file] = run_file(options, file)
        print(file, {k: v for k, v in results[file].items() if k != "messages"}, flush=True)
        found: dict[str, int] = results[file].get("messages", {})  # type: ignore[assignment]
        for case, count in found.items():
            if reasons({case: 1}, known)["unexplained"]:
                print(f"  {count:5} {case}")
        Path(options.out).write_text(table(results, known))
    return 0


if __name__ == "__main__":
    sys.exit(main())
