"""Values of a program's steps by number, for passes that rewrite programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["number_of", "reads", "references", "renumbered"]

Step = Mapping[str, Any]


def number_of(reference: Any) -> int:
    """Return the number of a value, -1 for what is no reference to one."""
    found = isinstance(reference, str) and reference[:1] == "%" and reference[1:].isdigit()
    return int(reference[1:]) if found else -1


def references(args: Any) -> Iterator[int]:
    """Give the numbers of the values in a nest of arguments."""
    if isinstance(args, str):
        if number_of(args) >= 0:
            yield number_of(args)
    elif isinstance(args, (list, dict)):
        for v in args.values() if isinstance(args, dict) else args:
            yield from references(v)


def reads(step: Step, first: int) -> set[int]:
    """Return the numbers of the values that a step reads, also in the body of a loop.

    Args:
        step: The step.
        first: The number of its first result; from there on the body has numbers of its own.
    """
    found = set(references(step["args"]))
    if (body := step.get("body")) is not None:
        inner = set(references(body["results"]))
        found |= {n for n in inner.union(*(reads(s, first) for s in body["steps"])) if n < first}
    return found


def _replaced(args: Any, numbers: Mapping[str, str]) -> Any:
    if isinstance(args, str):
        return numbers.get(args, args)
    if isinstance(args, list):
        return [_replaced(v, numbers) for v in args]
    if isinstance(args, dict):
        return {key: _replaced(v, numbers) for key, v in args.items()}
    return args


def renumbered(
    steps: Sequence[Step], numbers: dict[str, str], old: int, new: int, dropped: frozenset[int] = frozenset()
) -> list[dict[str, Any]]:
    """Return steps with other numbers of their operands. Bodies of loops have numbers of their own.

    Args:
        steps: In order.
        numbers: What references become; those of the results are added.
        old: The number of the first result before.
        new: The same after.
        dropped: Places of steps that are left out.
    """
    found = []
    for i, step in enumerate(steps):
        made = {**step, "args": _replaced(step["args"], numbers)}
        if "body" in step:
            made["body"] = _body(step["body"], numbers, old, new)
        if i not in dropped:
            found.append(made)
        for _ in step["out"]:
            if i not in dropped:
                numbers[f"%{old}"] = f"%{new}"
                new += 1
            old += 1
    return found


def _body(body: Mapping[str, Any], numbers: Mapping[str, str], old: int, new: int) -> dict[str, Any]:
    count = len(body["inputs"])
    inner = {**numbers, **{f"%{old + k}": f"%{new + k}" for k in range(count)}}
    steps = renumbered(body["steps"], inner, old + count, new + count)
    return {**body, "steps": steps, "results": _replaced(body["results"], inner)}
