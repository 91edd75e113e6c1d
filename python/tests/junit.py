"""Runs of pytest in processes of their own, their JUnit reports, and Markdown tables of the counts: what the runners of
foreign test suites share.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: What a test can end with, in the order of the tables.
COUNTS = ("pass", "fail", "skip")
KINDS = {"failure": "fail", "error": "fail", "skipped": "skip"}


class NoReport(Exception):
    """A run ended without a report; the text says why."""


def run(command: list[str], limit: float | None = None, **options: Any) -> ET.Element:
    """Run pytest by a command, for at most ``limit`` seconds, and return its report."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        command = [*command, f"--junitxml={report}", "--tb=line"]
        try:
            done = subprocess.run(command, timeout=limit, capture_output=True, text=True, **options)
        except subprocess.TimeoutExpired as error:
            raise NoReport(f"stopped after {limit:g} s") from error
        if not os.path.exists(report):
            raise NoReport((done.stdout + done.stderr).strip()[-2000:])
        return ET.parse(report).getroot()


def cases(report: ET.Element) -> Iterator[tuple[ET.Element, str, ET.Element | None]]:
    """Yield each test of a report, what it ended with, and the element that says why it did not pass."""
    for case in report.iter("testcase"):
        problem = next((e for e in case if e.tag in KINDS), None)
        yield case, "pass" if problem is None else KINDS[problem.tag], problem


def counts_table(rows: Iterable[tuple[str, Mapping[str, Any]]], *further: str) -> list[str]:
    """Return the lines of a table of files and their counts, with the further columns."""
    columns = (*COUNTS, *further)
    lines = [f"| file | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for file, found in rows:
        lines.append(
            f"| {file} | {' | '.join(str(found.get(column, 0 if column in COUNTS else '')) for column in columns)} |"
        )
    return lines


def reasons_table(reasons: Iterable[tuple[str, int]]) -> list[str]:
    """Return the lines of a table of failures by their reasons."""
    return ["| failures | reason |", "|---|---|", *(f"| {count} | {reason} |" for reason, count in reasons)]
