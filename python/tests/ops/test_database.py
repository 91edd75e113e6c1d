"""Operators of the tiers on PyTorch's own operator samples: values in every form, dtypes, gradients.

``report.py`` prints the same comparison with more samples. On a GPU of software tiers 1 and 3 are run, a sample of
each.
"""

from __future__ import annotations

import database
import differences
import processor
import pytest
import report
import scope

SAMPLES = {"cpu": 3, "wgpu": 1}
DTYPES = {"cpu": ("float32", "float64", "float16", "int64", "uint8", "bool"), "wgpu": ("float32", "int64", "uint8")}
CASES = [("cpu", database.label(op)) for op in database.entries(scope.TIER_1 | scope.TIER_2 | scope.TIER_3)]
CASES += [("wgpu", database.label(op)) for op in database.entries(scope.TIER_1 | scope.TIER_3)]
ENTRIES = {database.label(op): op for op in database.op_db}


@pytest.mark.parametrize(("device", "label"), CASES, indirect=["device"])
def test_results_are_pytorchs(device: str, label: str) -> None:
    op = ENTRIES[label]
    count, failures = report.examine(op, report.Options(device, DTYPES[device], SAMPLES[device], device == "cpu"))
    wrong = {what: text for what, text in failures.items() if not differences.excuse(label, what)}
    assert not wrong, "\n".join(f"{what}: {text}" for what, text in wrong.items())
    assert sum(count.values()) > 0 or not (set(DTYPES[device]) & {str(d).removeprefix("torch.") for d in op.dtypes}), (
        "no sample ran"
    )
    if device == "cpu" and label in differences.EXCEPTIONS and op.name not in scope.DRAWS:
        processor.report_stale([] if failures else [label])


def test_every_entry_is_in_a_tier_or_absent_for_a_reason() -> None:
    known = scope.TIER_1 | scope.TIER_2 | scope.TIER_3 | scope.ABSENT.keys()
    assert {op.name for op in database.op_db} - known == set()
