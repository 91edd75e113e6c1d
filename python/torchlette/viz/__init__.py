"""Pictures of plans and of time, as HTML pages that need no network.

    torchlette.viz.plan(lambda: model(x), "plan.html")    # what ran: programs, passes, kernels, memory
    torchlette.viz.timeline("timeline.html")              # when the last windows ran, and what the host did

The engine keeps no decisions of its passes. :func:`plan` has the passes run again over the programs that it saw, so
there is no cost for programs that nobody looks at.
"""

from __future__ import annotations

import html
import json
import linecache
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchlette import _C, profiler
from torchlette._runtime.api import _info, _tensors_in
from torchlette._version import __version__

__all__ = ["plan", "timeline"]


def plan(
    what: _C.Tensor | Callable[[], Any], path: str | os.PathLike[str], *, warmup: int = 3, title: str | None = None
) -> Path:
    """Run a function or compute a tensor, and write a page about every program that ran.

    The page shows, for each window: the program with its launches and fusion groups coloured by time, the program
    before and after each pass of the planner, the buffers over time, and the times by operation, module and line. A
    node has its source line, module, shape, dtype and bytes, and a launch its FLOP/s and bytes/s beside the rates that
    the device reaches in a short measurement.

    A function is called ``warmup`` times untimed and once timed, so a step that trains is taken ``warmup + 1`` times.
    The first call may initialise tensors: after three calls the program is the one that a loop runs. On a GPU it has
    its fusion groups once their kernels are compiled, some calls after the third. The tensors that the function returns
    are computed. Each read within it ends a window; like windows are shown once, with their mean times.

    Args:
        what: A function without arguments, or a tensor that is not computed yet, which is then computed. Only
            functions have their modules named.
        path: The file to write, such as ``plan.html``; it is replaced.
        warmup: Calls of the function before the timed one.
        title: The heading; by default the function's name.

    Returns:
        The file's absolute path.

    Raises:
        TypeError: ``what`` is neither.
        ValueError: The tensor is computed already, or the function computed nothing.
        FileNotFoundError, IsADirectoryError: ``path`` cannot be a file.
        RuntimeError: A profile is being taken.

    Example:
        >>> import tempfile, torchlette
        >>> x = torchlette.ones(4, 4, device="cpu")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torchlette.viz.plan(lambda: (x @ x + 1).relu(), folder + "/plan.html").name
        'plan.html'
    """
    target = _target("plan", path)
    if profiler._recorder is not None:
        raise RuntimeError("viz.plan: a profile is being taken: call it outside, for it takes a profile itself")
    if isinstance(what, _C.Tensor):
        found = _watch_tensor(what)
        name = "tensor"
    elif callable(what):
        found = _watch_calls(what, warmup)
        name = getattr(what, "__qualname__", type(what).__name__)
    else:
        raise TypeError(f"viz.plan: what: got {type(what).__name__}, want a function without arguments or a tensor")
    if not found["plans"]:
        raise ValueError(
            "viz.plan: the function computed nothing: return the tensors that it makes, or read a value in it"
        )
    scripts = ("page.js", "plan.js", "plan_views.js", "plan_state.js")
    _write(target, "plan.html", scripts, title or name, _describe(found))
    return target


def timeline(path: str | os.PathLike[str], *, title: str = "timeline") -> Path:
    """Write a page about the last windows (at most 512) on a common axis of time.

    For each window it shows the time in which the host recorded it, found it in the cache (key), built its plan, ran it
    and waited for the device; steps, plans, nodes and kernels. Windows that ran under
    :class:`torchlette.profiler.profile` also have the time on their device. Elsewhere the CPU's device time is the run
    itself, and a GPU's is unknown.

    Args:
        path: The file to write, such as ``timeline.html``; it is replaced.
        title: The heading.

    Returns:
        The file's absolute path.

    Raises:
        ValueError: Nothing has run yet.
        FileNotFoundError, IsADirectoryError: ``path`` cannot be a file.
    """
    target = _target("timeline", path)
    windows = _info("windows")
    if not windows:
        raise ValueError("viz.timeline: no window has run yet: call it after the program's work")
    _write(target, "timeline.html", ("page.js", "timeline.js"), title, {"windows": windows})
    return target


def _target(function: str, path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a file that can be written, before any work is done for it."""
    target = Path(path).absolute()
    if target.is_dir():
        raise IsADirectoryError(f"viz.{function}: path: got the folder {target}, want a file, such as page.html in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"viz.{function}: path: there is no folder {target.parent}: create it first")
    return target


def _watch_tensor(tensor: _C.Tensor) -> dict[str, Any]:
    """Compute a pending tensor and return what ran."""
    if _info("explain", tensor).get("pending") is None:
        raise ValueError(
            "viz.plan: the tensor is computed already: pass it before it is read, or a function that computes it, as "
            "in viz.plan(lambda: model(x), path)"
        )
    _C._set_option("profile", "1")
    _C._set_option("watch", "1")
    try:
        _C._realize([tensor])
        return _seen()
    finally:
        _C._set_option("watch", "0")
        _C._set_option("profile", "0")


def _watch_calls(function: Callable[[], Any], warmup: int) -> dict[str, Any]:
    """Call a function and return what ran in the last call."""
    if warmup < 0:
        raise ValueError(f"viz.plan: warmup: got {warmup}, want 0 or more")
    for _ in range(warmup):
        _finish(function())
    with profiler.profile():
        _C._set_option("watch", "1")
        try:
            _finish(function())
            return _seen()
        finally:
            _C._set_option("watch", "0")


def _finish(result: Any) -> None:
    """Compute what a function returned, and end its step."""
    _C._realize(_tensors_in(result, []))
    _C.mark_step()


def _seen() -> dict[str, Any]:
    """Return the plans that ran, and the windows that they ran for."""
    found: dict[str, Any] = _info("watched")
    mine = {number for p in found["plans"] for number in p["windows"]}
    return found | {"windows": [w for w in _info("windows") if w["number"] in mine]}


def _describe(found: dict[str, Any]) -> dict[str, Any]:
    """Return the data of the page: what the engine told, with the text of the source lines and the devices' rates.

    Lines and scopes are numbers in their lists, since many nodes share one.
    """
    sites: dict[str, int] = {"": 0}
    scopes: dict[str, int] = {"": 0}
    devices = {k["device"] for p in found["plans"] for k in p["kernels"] if k["name"] != "transfer"}
    for p in found["plans"]:
        for node in p["program"]:
            node["site"] = sites.setdefault(node["site"], len(sites))
            node["scope"] = scopes.setdefault(node["scope"], len(scopes))
        for kernel in p["kernels"]:
            for key in ("members", "epilogue"):  # the nodes say which kernel computes them
                kernel.pop(key, None)
    rates = {device: profiler.ceilings(device) for device in sorted(devices)}
    return found | {
        "sites": [{"at": site, "text": _source_line(site)} for site in sites],
        "scopes": [list(profiler._scope(scope)) for scope in scopes],
        "roofs": {
            device: {"bytes_per_s": rate.bytes_per_s, "flops_per_s": rate.flops_per_s} for device, rate in rates.items()
        },
    }


def _source_line(site: str) -> str:
    """Return the text of a line named ``file:number in function``, nothing where it cannot be read."""
    place = re.match(r"(.*):(\d+)( in .*)?$", site)
    return linecache.getline(place.group(1), int(place.group(2))).strip() if place else ""


def _write(target: Path, body: str, scripts: tuple[str, ...], title: str, data: dict[str, Any]) -> None:
    """Write a page: its styles, scripts and data are all inside."""
    folder = Path(__file__).parent
    # "<" would end the script element that holds the text.
    text = json.dumps(data | {"title": title, "version": __version__}, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "title": html.escape(title),
        "style": (folder / "page.css").read_text("utf-8"),
        "script": "\n".join((folder / name).read_text("utf-8") for name in scripts),
        "body": (folder / body).read_text("utf-8"),
        "data": text,
    }
    page = (folder / "page.html").read_text("utf-8")
    filled = re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m.group(1)], page)
    target.write_text(filled, "utf-8")
