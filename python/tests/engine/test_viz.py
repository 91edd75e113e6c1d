"""torchlette.viz writes pages whose data are the engine's, which need no network and work in a browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browser
import pytest

import torchlette
from torchlette import nn, viz
from torchlette.profiler import profile

ROOT = Path(__file__).resolve().parents[3]


def embedded(path: Path) -> dict[str, Any]:
    """Return the data of a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found.group(1))
    return data


class Net(nn.Module):
    """A product, a GELU by hand, and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 64)

    def forward(self, x: torchlette.Tensor) -> torchlette.Tensor:
        h = self.up(x)
        return (0.5 * h * (1 + torchlette.tanh(0.8 * (h + 0.04 * h * h * h)))).sum(1)


def compiling() -> int:
    return torchlette.stats()["plans_compiling"]


def program_of(data: dict[str, Any], plan: int = 0) -> list[str]:
    """Return the lines of a plan's program, without comments."""
    p = data["plans"][plan]
    return [n["text"] for n in [*p["inputs"], *p["program"]]] + p["stores"]


def test_the_data_are_those_of_explain(device: str, tmp_path: Path) -> None:
    net = Net().to(device)
    x = torchlette.ones(8, 16, device=device)
    made = []

    def run() -> torchlette.Tensor:
        made[:] = [net(x)]
        return made[0]

    for _ in range(1000):  # a GPU compiles the kernel of the fusion group beside the runs
        run().tolist()
        if device == "cpu" or torchlette.explain(made[0])["plan"]["runs"] > 3 and not compiling():
            break
        time.sleep(0.005)
    path = viz.plan(run, tmp_path / "plan.html")
    assert path == tmp_path / "plan.html"
    data, told = embedded(path), torchlette.explain(made[0], program=True)
    assert data["title"].endswith("run") and data["version"] == torchlette.__version__
    assert len(data["plans"]) == 1 and data["dropped"] == 0
    p, want = data["plans"][0], told["plan"]
    assert program_of(data) == [line.split("  #")[0] for line in told["program"].splitlines()]
    for key in ("number", "runs", "nodes", "built_because", "bytes_written"):
        assert p.get(key) == want.get(key), key
    assert p["windows"] == [told["window"]] == [w["number"] for w in data["windows"]]
    assert len(p["kernels"]) == len(want["kernels"]) > 1
    for got, kernel in zip(p["kernels"], want["kernels"], strict=True):
        kernel.pop("members", None)
        kernel.pop("epilogue", None)
        assert got == kernel
        assert got["microseconds"] >= 0, "it was timed"
    # Each node has its line and module, and belongs to one launch.
    assert {data["sites"][n["site"]]["at"].split(" in ")[1] for n in p["program"]} == {"Net.forward"}
    assert "h = self.up(x)" in {data["sites"][n["site"]]["text"] for n in p["program"]}
    assert {tuple(data["scopes"][n["scope"]]) for n in p["program"]} == {("Net",), ("Net", "Net.up")}
    assert {n["computed_by"] for n in p["program"]} == {k["node"] for k in p["kernels"]}
    group = [n for n in p["program"] if n["op"] in ("mul", "tanh", "add")]
    assert len(group) == 9 and len({n["computed_by"] for n in group}) == 1, "the GELU is one fusion group"
    assert [pass_["name"] for pass_ in p["passes"]][-1] == "memory" and all(
        pass_["notes"] for pass_ in p["passes"][-1:]
    )
    assert set(data["roofs"]) == {p["kernels"][0]["device"]}
    assert all(rate > 0 for roof in data["roofs"].values() for rate in roof.values())
    made.clear()


def test_buffers_and_lifetimes_cover_the_program(tmp_path: Path) -> None:
    x = torchlette.ones(300, 7, device="cpu")
    x.tolist()
    data = embedded(viz.plan(lambda: x.cumsum(0).cumsum(1).cumsum(0).sum(), tmp_path / "p.html"))
    p = data["plans"][0]
    held = {i: life for life in p["lifetimes"] for i in life["nodes"]}
    for i, n in enumerate(p["program"]):
        assert i in held, "every value of this program is in memory"
        assert held[i]["first"] <= i <= held[i]["last"]
        assert p["buffers"][held[i]["buffer"]]["bytes"] >= n["bytes"]
    assert {b["kind"] for b in p["buffers"]} == {"input", "output", "buffer"}
    assert all(b["pool_bytes"] >= b["bytes"] for b in p["buffers"])


def test_a_pending_tensor_is_computed_and_shown(device: str, tmp_path: Path) -> None:
    torchlette.mark_step()
    x = torchlette.ones(5, 3, device=device)
    x.tolist()
    y = (x * 3).exp().sum(1)
    data = embedded(viz.plan(y, tmp_path / "p.html", title="three <operators>"))
    assert data["title"] == "three <operators>"
    assert [n["op"] for n in data["plans"][0]["program"]] == ["mul", "exp", "sum"]
    assert torchlette.explain(y)["computed"]
    assert all("microseconds" in k for k in data["plans"][0]["kernels"])
    with pytest.raises(ValueError, match=r"computed already: pass it before it is read.*viz\.plan\(lambda: model\(x\)"):
        viz.plan(y, tmp_path / "p.html")


def test_each_read_ends_a_window_and_like_windows_are_one(tmp_path: Path) -> None:
    x = torchlette.ones(6, device="cpu")
    x.tolist()

    def reads() -> None:
        for _ in range(3):
            (x * 2 + 1).tolist()
        x.sum().item()

    data = embedded(viz.plan(reads, tmp_path / "p.html"))
    assert [(len(p["program"]), len(p["windows"]), p["timed_runs"]) for p in data["plans"]] == [(2, 3, 3), (1, 1, 1)]
    assert [w["why"] for w in data["windows"]] == ["read"] * 4
    last = torchlette.explain(x * 2 + 1)["pending"]["plan"]["kernels"][0]["microseconds"]
    assert data["plans"][0]["kernels"][0]["microseconds"] > 0 and last > 0, "the mean of three runs, and the last"


def test_a_function_is_called_warmup_times_and_once(tmp_path: Path) -> None:
    calls = []

    def count() -> torchlette.Tensor:
        calls.append(1)
        return torchlette.ones(3, device="cpu") + 1

    viz.plan(count, tmp_path / "p.html")
    assert len(calls) == 4
    viz.plan(count, tmp_path / "p.html", warmup=0)
    assert len(calls) == 5


ERRORS: list[tuple[Callable[[Path], Any], type[Exception], str]] = [
    (lambda p: viz.plan(lambda: None, p / "no" / "p.html"), FileNotFoundError, "path: there is no folder .*create it"),
    (lambda p: viz.plan(lambda: None, p), IsADirectoryError, "want a file, such as page.html in it"),
    (lambda p: viz.plan(lambda: None, p / "p.html"), ValueError, "computed nothing: return the tensors that it makes"),
    (lambda p: viz.plan(3, p / "p.html"), TypeError, "what: got int, want a function without arguments or a tensor"),
    (lambda p: viz.plan(lambda: None, p / "p.html", warmup=-1), ValueError, "warmup: got -1, want 0 or more"),
    (lambda p: viz.plan(torchlette.tensor([1.0]), p / "p.html"), ValueError, "the tensor is computed already"),
    (lambda p: viz.timeline(p / "no" / "t.html"), FileNotFoundError, "viz.timeline: path: there is no folder"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS, ids=[t[:30] for _, _, t in ERRORS])
def test_errors_say_what_to_do(call: Callable[[Path], Any], error: type[Exception], text: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=text):
        call(tmp_path)
    assert not list(tmp_path.iterdir()), "no page is begun"


def test_a_failure_of_the_function_leaves_nothing_on(tmp_path: Path) -> None:
    def fails() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        viz.plan(fails, tmp_path / "p.html")
    assert json.loads(torchlette._C._info("watched")) == {"plans": [], "dropped": 0}
    with profile() as prof:
        (torchlette.ones(3, device="cpu") + 1).tolist()
        with pytest.raises(RuntimeError, match="a profile is being taken: call it outside"):
            viz.plan(lambda: torchlette.ones(3), tmp_path / "p.html")
    assert prof.events(), "the profile goes on"


def test_the_timeline_has_the_last_windows(device: str, tmp_path: Path) -> None:
    x = torchlette.ones(40, device=device)
    for _ in range(3):
        (x * 5).tolist()
    with profile():
        (x * 5).tolist()
        x.add_(1)
    data = embedded(viz.timeline(tmp_path / "t.html", title="mine"))
    assert data["title"] == "mine"
    last = data["windows"][-5:]
    assert [w["why"] for w in last] == ["read"] * 4 + ["stores"]
    assert len({w["plan"] for w in last[:4]}) <= 2, "a GPU's plan may be built again with fusion groups"
    assert [bool(w["device"]) for w in last] == [False, False, False, True, True], "where it was profiled"
    assert all(w["device"][0]["busy_ns"] > 0 for w in last[3:])
    for before, w in zip(last, last[1:], strict=False):
        assert before["end_ns"] <= w["start_ns"] < w["end_ns"]
        assert w["key_ns"] > 0 and w["run_ns"] > 0 and w["kernels"] >= 1 and w["nodes"] >= 1
    if device != "cpu":
        assert all(w["wait_ns"] > 0 for w in last[:4]), "a read waits for a GPU"


def test_an_engine_without_windows_has_no_timeline(tmp_path: Path) -> None:
    script = "import torchlette, sys; torchlette.viz.timeline(sys.argv[1])"
    ran = subprocess.run([sys.executable, "-c", script, str(tmp_path / "t.html")], capture_output=True, text=True)
    assert "ValueError: viz.timeline: no window has run yet: call it after the program's work" in ran.stderr


def test_a_page_needs_nothing_else(tmp_path: Path) -> None:
    x = torchlette.ones(3, device="cpu")
    pages = [viz.plan(lambda: x * 2, tmp_path / "p.html", title="</script><b>"), viz.timeline(tmp_path / "t.html")]
    for path in pages:
        text = path.read_text("utf-8")
        assert not re.search(r"""(src|href)\s*=|url\(|@import|https?://|\{\{""", text), "it loads nothing"
        assert "default-src 'none'" in text
        assert text.count("</script>") == 2, "what the data say ends no script"
    assert "<title>&lt;/script&gt;&lt;b&gt;</title>" in pages[0].read_text("utf-8")


def test_the_pages_parts_are_small_and_in_the_wheel(tmp_path: Path) -> None:
    names = {p.name for p in Path(viz.__file__).parent.iterdir() if p.suffix in (".html", ".css", ".js")}
    assert {"page.html", "page.css", "page.js", "plan.html", "timeline.html", "plan.js", "timeline.js"} <= names
    assert sum((Path(viz.__file__).parent / n).stat().st_size for n in names) < 60_000
    pytest.importorskip("setuptools")
    built = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path)]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True)
    assert {p.name for p in (tmp_path / "torchlette" / "viz").iterdir() if p.suffix != ".py"} == names


# In a browser ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    """Start a browser."""
    program = browser.find()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(browser.NAMES)} is installed, so the pages' scripts are not run")
    with browser.Browser(program, tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def page(chromium: browser.Browser, tmp_path: Path) -> browser.Browser:
    """Open the page of a training step and of a read."""
    net = Net()
    optimizer = torchlette.optim.AdamW(net.parameters())
    x = torchlette.ones(8, 16)

    def step() -> float:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    chromium.errors.clear()
    chromium.open(viz.plan(step, tmp_path / "plan.html"))
    assert chromium.value("document.documentElement.dataset.ready") == "plan", chromium.errors
    return chromium


def test_the_program_is_shown_with_its_launches(page: browser.Browser, tmp_path: Path) -> None:
    data = embedded(tmp_path / "plan.html")
    p = data["plans"][0]
    facts = dict(zip(page.texts("#facts dt"), page.texts("#facts dd"), strict=True))
    assert facts["nodes"] == str(len(p["program"])) and facts["launches"] == str(len(p["kernels"]))
    assert len(page.texts("#window option")) == len(data["plans"])
    heads = page.texts("#program .row.head")
    assert any("mul + add + mul + tanh + add + mul + sum" in h and "group of 10" in h for h in heads), heads
    nodes = page.texts("#program .row.node")
    assert any(n.startswith("%0 = matmul") and "Net.up · test_viz.py" in n for n in nodes), nodes
    assert page.texts("#details h2") == ["Hottest launches"]
    page.click("#program .row.node")
    assert page.value("document.querySelectorAll('.row.node.selected').length") == 1
    details = page.texts("#details")[0]
    assert "test_viz.py" in details and "float32" in details and "of the roof" not in details and "Memory" in details
    page.mouse("mouseMoved", "#program .row.head:not(:first-child)")
    assert not page.value("document.getElementById('tip').hidden") and "launch" in page.texts("#tip")[0]
    assert page.errors == []


def test_keys_search_and_views(page: browser.Browser, tmp_path: Path) -> None:
    p = embedded(tmp_path / "plan.html")["plans"][0]
    page.press("/")
    assert page.value("document.activeElement.id") == "search"
    page.call("Input.insertText", text="tanh")
    assert 0 < len(page.texts("#program .row.head")) < len(p["kernels"])
    assert {t.lower() for t in page.texts("#program mark")} == {"tanh"}
    page.press("Escape")
    assert page.value("document.activeElement.tagName") == "BODY" and not page.texts("#program mark")
    page.press("2")
    shown = "[...document.querySelectorAll('.view')].filter((v) => !v.hidden).map((v) => v.id).join()"
    assert page.value(shown) == "passes"
    assert page.texts("#passes .cols div") == ["before fuse", "after fuse"]
    assert [t.rstrip("0123456789") for t in page.texts("#passes nav button")] == [x["name"] for x in p["passes"]]
    fuse = next(x for x in p["passes"] if x["name"] == "fuse")
    page.press("c")
    notes, shown_notes = [fuse["notes"][i] for i in sorted(fuse["notes"], key=int)], page.texts("#passes .tag.new")
    assert len(shown_notes) > 10 and shown_notes == notes[: len(shown_notes)], "the rows in view"
    page.press("]")
    assert page.texts("#passes .cols div") == ["before lower", "after lower"]
    page.press("3")
    assert page.value(shown) == "memory"
    drawn = "((c) => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size)"
    assert page.value(f"{drawn}(document.querySelector('#memory canvas'))") > 10, "the chart has colours"
    before = page.value("document.querySelector('#memory canvas').toDataURL()")
    page.press("+")
    assert page.value("document.querySelector('#memory canvas').toDataURL()") != before, "it zooms"
    page.press("4")
    assert page.texts("#hot th")[0] == "operation" and len(page.texts("#hot tbody tr")) > 3
    theme = page.value("document.documentElement.dataset.theme")
    page.press("t")
    assert {theme, page.value("document.documentElement.dataset.theme")} == {"light", "dark"}
    page.press("h")
    assert page.value(shown) == "program" and page.texts("#details h2")[0].startswith("%")
    assert page.errors == []


def test_a_large_program_is_shown_in_part(chromium: browser.Browser, tmp_path: Path) -> None:
    """Only the rows in view are in the document."""
    x = torchlette.ones(4, device="cpu")
    x.tolist()

    def deep() -> torchlette.Tensor:
        y = x
        for _ in range(1500):
            y = (y * 0.5).sum(0, keepdim=True) + x
        return y

    chromium.errors.clear()
    chromium.open(viz.plan(deep, tmp_path / "p.html", warmup=0))
    assert chromium.texts("#facts dd")[1] == "4,500"
    assert len(chromium.texts("#program .row")) < 120
    chromium.value("document.getElementById('program').scrollTop = 1e9")
    chromium.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    rows = chromium.texts("#program .row.node")
    assert any(r.startswith("%4499 ") for r in rows), rows[-3:]
    for key in "234":
        chromium.press(key)
    assert chromium.errors == []


def test_the_timeline_in_a_browser(chromium: browser.Browser, tmp_path: Path) -> None:
    x = torchlette.ones(4, device="cpu")
    for _ in range(5):
        (x + 1).tolist()
        x.mul_(2)
        torchlette.mark_step()
    path = viz.timeline(tmp_path / "t.html")
    chromium.errors.clear()
    chromium.open(path)
    assert chromium.value("document.documentElement.dataset.ready") == "timeline", chromium.errors
    assert "windows in view" in chromium.texts("#details h2")[0]
    chromium.press("/")
    chromium.call("Input.insertText", text="stores")
    rows = chromium.texts("#windows .row.win:not(.title)")
    assert rows and all("stores" in r for r in rows)
    chromium.press("Escape")
    chromium.press("j")
    assert chromium.value("document.querySelectorAll('.row.win.selected').length") == 1
    assert "finding the plan" in chromium.texts("#details")[0]
    chromium.press("+")
    assert chromium.errors == []
