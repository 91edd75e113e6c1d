"""If, Loop, Scan, SequenceMap: by the conditions and loops of torchlette.lax, or written out where all is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C, lax
from torchlette._import.files import unsupported
from torchlette._import.recording import choose, is_recording
from torchlette._runtime.errors import ExecutionError, HostReadInCompileError
from torchlette.onnx.tensors import Host

__all__ = ["CONTROL"]

Tensor = _C.Tensor

#: Steps of a loop that is written out: more become a loop of the engine.
WRITTEN_OUT = 128
#: Iterations of a loop that is written out in a program, because no loop of the engine can run it; also iterations of a
#: loop with a condition that all run, so that it has a gradient.
UNROLLED = 256
#: Iterations of a loop whose end Python's numbers tell.
COUNTED = 4096
#: Iterations of a loop that only Python can run.
ITERATIONS = 100_000


def _tensor(value: Any, device: Any) -> Any:
    if isinstance(value, Host):
        return value.tensor(device)
    return [_tensor(item, device) for item in value] if isinstance(value, list) else value


def _host(value: Any, known: Host | None) -> Host | None:
    return value if isinstance(value, Host) else known


def _if(
    attributes: dict[str, Any],
    known: list[Host | None],
    outer: Sequence[str],
    count: int,
    device: Any,
    values: list[Any],
    env: dict[str, Any],
    condition: Any,
) -> list[Any]:
    scope = _scope(outer, values, env)
    branches = attributes["then_branch"], attributes["else_branch"]
    flag = _host(condition, known[0])
    if flag is not None:
        return branches[0 if flag.values[0] else 1].run(device, scope, [])[:count]

    def call(body: Any) -> Callable[[], list[Any]]:
        return lambda: [_tensor(v, device) for v in body.run(device, scope, [])]

    try:
        return choose(condition, call(branches[0]), call(branches[1]))
    except (TypeError, ValueError, ExecutionError) as exc:  # only one branch fits the sizes: the condition must be read
        if is_recording() and isinstance(exc, TypeError):
            raise unsupported(f"a condition on values chooses between results of unequal types: {exc}") from exc
        if is_recording():
            raise
        return branches[0 if condition.item() else 1].run(device, scope, [])[:count]


def _loop(
    attributes: dict[str, Any],
    known: list[Host | None],
    outer: Sequence[str],
    count: int,
    device: Any,
    values: list[Any],
    env: dict[str, Any],
    trips: Any = None,
    condition: Any = None,
    *carry: Any,
) -> list[Any]:
    body = attributes["body"]
    scope = _scope(outer, values, env)
    known = [*known, *[None] * 2]
    most, first = _host(trips, known[0]), _host(condition, known[1])
    if len(body.inputs) != len(carry) + 2 or len(body.results) < len(carry) + 1:
        raise ValueError(f"Loop: the body has {len(body.inputs)} inputs for {len(carry)} carried values")

    def run(i: Any, flag: Any, state: Sequence[Any]) -> list[Any]:
        return body.run(device, scope, [i, flag, *state])

    scans = len(body.results) - 1 - len(carry)
    endless = condition is None or first is not None and bool(first.values[0])
    whole = [None if k is None or k.dtype.is_floating_point else k for k in known[2:]]
    carry = tuple(_host(v, k) or v for v, k in zip(carry, whole, strict=False))
    counted = most is not None and endless and _always(body)
    if not counted and endless and (trips is None or most is not None and not most.moving):
        tried = COUNTED if most is None else min(COUNTED, max(0, most.values[0]))
        found = body.trips(device, scope, carry, tried)
        if found is not None and (found <= tried or most is not None and tried == max(0, most.values[0])):
            most, counted = Host([min(found, tried)], [], _C.int64), True
    if is_recording():
        return _recorded(run, most, counted, first or condition, carry, scans, device, len(body.steps))
    if counted and most.values[0] * max(1, len(body.steps)) > WRITTEN_OUT and not _has_lists(carry):
        try:
            return _counted(run, most.values[0], [_tensor(v, device) for v in carry], device)
        except TypeError:  # a carried value changes its sizes
            pass
    if scans == 0 and not counted and not _has_lists(carry) and (trips is None or most is not None):
        probe = run(Host([0], [], _C.int64), Host([True], [], _C.bool), carry) if endless else [condition]
        if isinstance(probe[0], Tensor):
            limit = None if most is None else most.values[0]
            try:
                return _while(run, limit, condition, [_tensor(v, device) for v in carry], device)
            except TypeError:
                pass
    return _written_out(run, trips, most, condition, first, carry, scans, device)


def _always(body: Any) -> bool:
    """Return whether the body never ends its loop: its condition is the given one, or a constant."""
    name = body.results[0]
    sources = {str(step.results[0]): step for step in body.steps if step.results}
    while name in sources and sources[name].target == "Identity":
        name = str(sources[name].args[1])
    host = body.known.get(name)
    return name == body.inputs[1] or host is not None and bool(host.values and host.values[0])


def _has_lists(values: Sequence[Any]) -> bool:
    return any(not isinstance(v, (Tensor, Host)) for v in values)


def _counted(run: Any, trips: int, carry: list[Any], device: Any) -> list[Any]:
    n = len(carry)

    def step(state: Any, i: Any) -> Any:
        found = [_tensor(v, device) for v in run(i, Host([True], [], _C.bool), state)]
        return tuple(found[1 : 1 + n]), tuple(found[1 + n :])

    numbers = _C.arange(max(0, trips), device=device)
    last, ys = lax.scan(step, tuple(carry), numbers, max(0, trips))
    return [*last, *ys]


def _while(run: Any, limit: int | None, condition: Any, carry: list[Any], device: Any) -> list[Any]:
    def flag(value: Any) -> Any:
        return _C.full([], True, dtype=_C.bool, device=device) if value is None else _tensor(value, device).reshape(())

    def going(state: Any) -> Any:
        i, more, _ = state
        return more if limit is None else more & (i < limit)

    def body(state: Any) -> Any:
        i, more, values = state
        found = [_tensor(v, device) for v in run(i, more, values)]
        return i + 1, found[0].reshape(()), tuple(found[1:])

    start = _C.zeros([], dtype=_C.int64, device=device), flag(condition), tuple(carry)
    return list(lax.while_loop(going, body, start)[2])


def _scope(outer: Sequence[str], values: Sequence[Any], env: dict[str, Any]) -> dict[str, Any]:
    """Return the names that a body reads from outside, with their values."""
    return {**dict(zip(outer, values, strict=True)), "#tensors": env["#tensors"]}


def _stacked(rows: Sequence[list[Tensor]], device: Any) -> list[Tensor]:
    """Return what iterations have put out, stacked; an empty tensor where there were none."""
    return [_C.stack(row) if row else _C.zeros([0], device=device) for row in rows]


def _written_out(
    run: Any, trips: Any, most: Host | None, condition: Any, first: Host | None, carry: Any, scans: int, device: Any
) -> list[Any]:
    """Run the iterations one after the other; conditions that are tensors are read."""
    limit = None if trips is None else most.values[0] if most is not None else int(trips.item())
    flag: Any = True if condition is None else first if first is not None else condition
    state, rows, i = list(carry), [[] for _ in range(scans)], 0
    given = condition
    while (limit is None or i < limit) and _truth(flag):
        if i >= ITERATIONS:
            raise ValueError(f"Loop: it has more than {ITERATIONS} iterations that Python must run")
        found = run(Host([i], [], _C.int64), Host([True], [], _C.bool) if given is None else flag, state)
        flag, given = found[0], found[0]
        for row, value in zip(rows, found[1 + len(state) :], strict=True):
            row.append(_tensor(value, device))
        state = found[1 : 1 + len(state)]
        i += 1
    return [*state, *_stacked(rows, device)]


def _recorded(
    run: Any, most: Host | None, counted: bool, condition: Any, carry: Any, scans: int, device: Any, steps: int
) -> list[Any]:
    """Run a loop that becomes part of a program.

    A counted loop becomes a scan, or is written out where it is small. A condition on values makes a scan of all
    iterations that may run, after the end of which carried values stay; or, of many, a loop without gradient.
    """
    trips = None if most is None else most.values[0]
    few = trips is not None and trips <= UNROLLED
    if scans and not counted:
        raise unsupported("a loop whose number of results depends on values is no part of a program")
    small = counted and few and trips * max(1, steps) <= WRITTEN_OUT and not (most is not None and most.moving)
    if not small and not _has_lists(carry):
        state = [_tensor(v, device) for v in carry]
        try:
            if counted:
                return _counted(run, trips, state, device)
            return (_masked if few else _while)(run, trips, condition, state, device)
        except (TypeError, HostReadInCompileError) as exc:  # sizes or Python's numbers differ from step to step
            if not few:
                raise unsupported(
                    f"a program holds loops of more than {UNROLLED} iterations, or of a number that the file does not "
                    f"tell, only if all iterations have the same sizes: {exc}"
                ) from exc
    if not few and most is not None:
        raise _too_long()
    return _unrolled(run, most, counted, condition, carry, scans, device)


def _too_long() -> Exception:
    return unsupported(f"a program holds loops over sequences of at most {UNROLLED} iterations, known from the file")


def _masked(run: Any, trips: Any, condition: Any, carry: list[Any], device: Any) -> list[Any]:
    """Run all iterations. After the one whose condition is false, carried values stay."""
    first = Host([True], [], _C.bool) if condition is None else condition

    def step(state: Any, i: Any) -> Any:
        more, values = state
        found = [_tensor(v, device) for v in run(i, more, values)]
        if any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(found[1:], values, strict=True)):
            raise TypeError("a carried value changes its shape or dtype")
        new = tuple([_C.where(more, a, b) for a, b in zip(found[1:], values, strict=True)])
        return (more & found[0].reshape(()), new), ()

    state = _tensor(first, device).reshape(()), tuple(carry)
    return list(lax.scan(step, state, _C.arange(max(0, trips), device=device), max(0, trips))[0][1])


def _unrolled(run: Any, most: Any, counted: bool, condition: Any, carry: Any, scans: int, device: Any) -> list[Any]:
    """Write out a loop for a program. After the end that a condition on values sets, carried values stay."""
    state, rows = list(carry), [[] for _ in range(scans)]
    more = Host([True], [], _C.bool) if condition is None or counted else condition
    for i in range(UNROLLED + 1 if most is None else most.values[0]):
        if isinstance(more, Host) and not more.values[0]:
            break
        if most is None and (i == UNROLLED or not isinstance(more, Host)):
            raise _too_long()
        found = run(Host([i], [], _C.int64), more, state)
        for row, value in zip(rows, found[1 + len(state) :], strict=True):
            row.append(_tensor(value, device))
        new, after = found[1 : 1 + len(state)], found[0]
        if isinstance(more, Tensor):
            flag = more.reshape(())
            new = [_C.where(flag, _tensor(a, device), _tensor(b, device)) for a, b in zip(new, state, strict=True)]
            after = flag & _tensor(after, device).reshape(())
        state, more = new, Host([True], [], _C.bool) if counted else after
    return [*state, *_stacked(rows, device)]


def _truth(flag: Any) -> bool:
    if isinstance(flag, Host):
        return bool(flag.values[0])
    return bool(flag.item()) if isinstance(flag, Tensor) else bool(flag)


def _scan(
    attributes: dict[str, Any],
    known: list[Host | None],
    outer: Sequence[str],
    count: int,
    device: Any,
    values: list[Any],
    env: dict[str, Any],
    *given: Any,
) -> list[Any]:
    body, inputs = attributes["body"], attributes["num_scan_inputs"]
    scope = _scope(outer, values, env)
    if not 0 < inputs <= len(given) or len(body.inputs) != len(given):
        raise ValueError(f"Scan: {inputs} inputs are scanned, there are {len(given)}")
    n = len(given) - inputs
    outputs = len(body.results) - n
    axes, turned = (
        attributes.get("scan_input_axes") or [0] * inputs,
        attributes.get("scan_input_directions") or [0] * inputs,
    )
    out_axes, out_turned = (attributes.get(f"scan_output_{kind}") or [0] * outputs for kind in ("axes", "directions"))
    carry, xs = [_tensor(v, device) for v in given[:n]], [_tensor(v, device) for v in given[n:]]
    xs = [x.movedim(axis, 0) for x, axis in zip(xs, axes, strict=True)]
    xs = [x.flip(0) if back else x for x, back in zip(xs, turned, strict=True)]

    def step(state: Any, elements: Any) -> Any:
        found = [_tensor(v, device) for v in body.run(device, scope, [*state, *elements])]
        return tuple(found[:n]), tuple(found[n:])

    last, ys = lax.scan(step, tuple(carry), tuple(xs))
    ys = [y.flip(0) if back else y for y, back in zip(ys, out_turned, strict=True)]
    return [*last, *(y.movedim(0, axis) for y, axis in zip(ys, out_axes, strict=True))]


def _sequence_map(
    attributes: dict[str, Any],
    known: list[Host | None],
    outer: Sequence[str],
    count: int,
    device: Any,
    values: list[Any],
    env: dict[str, Any],
    *given: Any,
) -> list[Any]:
    body = attributes["body"]
    scope = _scope(outer, values, env)
    rows = [body.run(device, scope, [v[i] if isinstance(v, list) else v for v in given]) for i in range(len(given[0]))]
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]


#: By ONNX's name.
CONTROL: dict[str, Callable[..., list[Any]]] = {"If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _sequence_map}
