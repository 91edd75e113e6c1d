"""The command line of the scripts that measure the CPU or a GPU."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from typing import Any


def main(suite: str, description: str | None, rows: Callable[[str], Iterable[Any]]) -> None:
    """Print the table of the device that the command line names and, when asked, record it."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("device", choices=("cpu", "gpu"))
    parser.add_argument("--record", action="store_true", help=f"write results/{suite}_<device>.json")
    options = parser.parse_args()
    if options.device == "cpu":  # before either library starts its threads
        os.environ.setdefault("TORCHLETTE_NUM_THREADS", "2")
        os.environ.setdefault("OMP_NUM_THREADS", "2")
    table = []
    for row in rows(options.device):
        table.append(row)
        print(row, flush=True)
    if options.record:
        from measure import record

        print(f"recorded in {record(f'{suite}_{options.device}', options.device, table)}")
