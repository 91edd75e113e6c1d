"""Runs PyTorch's own test files on this library and writes the counts: python run.py SOURCE [--files ...] [--out ...].

SOURCE is a source tree of PyTorch: a checkout, or what ``apt-get source pytorch`` of Debian unpacks. Each file runs in
a process of its own with a time limit; see standins.py. known.json holds the reasons of failures that stay: regular
expressions of messages, in order; the table counts how many failures each explains. One that has " \\| " is of a test's
name and its message.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
FILES = (
    "test_optim.py test_modules.py test_nn.py test_stateless.py test_autograd.py test_autocast.py test_dataloader.py "
    "test_pytree.py test_serialization.py test_utils.py distributions/test_distributions.py"
).split()


def run_file(source: str, file: str, limit: float, each: float, chosen: str | None) -> dict[str, object]:
    """Run one test file; return its counts and, by test and message, how many failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        command = [sys.executable, str(HERE / "standins.py"), source, file, f"--junitxml={report}", "--tb=line"]
        command += ["--timeout", str(each)] if each else []
        command += ["-k", chosen] if chosen else []
        try:
            done = subprocess.run(command, timeout=limit, capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            return {"error": f"stopped after {limit:g} s"}
        if not os.path.exists(report):
            return {"error": (done.stdout + done.stderr).strip()[-300:]}
        return counts(ET.parse(report).getroot())


def counts(report: ET.Element) -> dict[str, object]:
    """Return the counts of a JUnit report."""
    found: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    for case in report.iter("testcase"):
        problem = next((e for e in case if e.tag in ("failure", "error", "skipped")), None)
        kind = {"failure": "fail", "error": "fail", "skipped": "skip"}[problem.tag] if problem is not None else "pass"
        found[kind] += 1
        if kind == "fail" and problem is not None:
            text = problem.get("message") or ""
            if text == "collection failure":
                text = (problem.text or "").strip().rpartition("\nE ")[2]
            messages[f"{case.get('name')} | {' '.join(text.split())[:200]}"] += 1
    return {**{kind: found[kind] for kind in ("pass", "fail", "skip")}, "messages": dict(messages.most_common())}


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
    lines = ["| file | pass | fail | skip | note |", "|---|---|---|---|---|"]
    explained: Counter[str] = Counter()
    for file, result in results.items():
        found: dict[str, int] = result.get("messages", {})  # type: ignore[assignment]
        explained += reasons(found, known)
        cells = [str(result.get(kind, "")) for kind in ("pass", "fail", "skip")]
        lines.append(f"| {file} | {' | '.join(cells)} | {str(result.get('error', '')).replace(chr(10), ' ')} |")
    lines += ["", "| failures | reason |", "|---|---|"]
    lines += [f"| {count} | {reason} |" for reason, count in explained.most_common()]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the files of the command line and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="source tree of PyTorch")
    parser.add_argument("--files", nargs="+", default=FILES, help="files below SOURCE/test")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one file")
    parser.add_argument("--each", type=float, default=0, help="seconds for one test; needs pytest-timeout")
    parser.add_argument("-k", dest="chosen", help="tests to run, as for pytest")
    parser.add_argument("--out", default=str(HERE / "results.md"), help="where the table goes")
    options = parser.parse_args(arguments)
    known = json.loads((HERE / "known.json").read_text())
    results: dict[str, dict[str, object]] = {}
    for file in options.files:
        results[file] = run_file(options.source, file, options.limit, options.each, options.chosen)
        print(file, {k: v for k, v in results[file].items() if k != "messages"}, flush=True)
        found: dict[str, int] = results[file].get("messages", {})  # type: ignore[assignment]
        for case, count in found.items():
            if reasons({case: 1}, known)["unexplained"]:
                print(f"  {count:5} {case}")
        Path(options.out).write_text(table(results, known))
    return 0


if __name__ == "__main__":
    sys.exit(main())
