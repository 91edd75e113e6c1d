"""``import torch`` answered by torchlette: for a program, a process, and an installed package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PYTHON = Path(__file__).parents[2]
SOURCES = Path(__file__).parents[3]
# The processes find torchlette where these tests found it.
LIBRARY = Path(sys.modules["torchlette"].__file__ or "").parents[1]

PROGRAM = """
import pickle
import sys
import importlib.metadata
import importlib.util
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
import torchlette.torch as own

assert torch is own and F is own.nn.functional and sys.modules["torch.nn"] is own.nn
assert (torch.__name__, F.__name__) == ("torch", "torch.nn.functional")
assert torch.__version__ == importlib.metadata.version("torch") and "+torchlette" in torch.__version__
assert importlib.util.find_spec("torch") and importlib.util.find_spec("torch.nn")
assert importlib.util.find_spec("torch.nothing") is None
WRONG = {
    RuntimeError: lambda: torch.ones(2) + torch.ones(3),
    IndexError: lambda: torch.ones(2)[5],
    NotImplementedError: lambda: torch.ones(2, dtype=torch.complex64) < 1,
    ValueError: lambda: torch.tensor([[1], [1, 2]]),
}
try:
    torch.linalg.inv(torch.zeros(2, 2))
except torch._C._LinAlgError as error:
    assert str(type(error)) == "<class 'torch._C._LinAlgError'>" and torch.linalg.LinAlgError is type(error)
    assert type(pickle.loads(pickle.dumps(error))) is torch.linalg.LinAlgError
ones = torch.ones(2)
assert str(type(ones)) == "<class 'torch.Tensor'>" and type(pickle.loads(pickle.dumps(ones))) is torch.Tensor
for kind, call in WRONG.items():
    try:
        call()
    except kind as error:
        again = pickle.loads(pickle.dumps(error))
        assert (type(error).__name__, type(again), again.args) == (kind.__name__, kind, error.args), type(error)
    else:
        raise AssertionError(kind)
loss = nn.Linear(2, 1)(torch.ones(3, 2)).sum()
loss.backward()
print(f"{float(loss.detach() * 0):.1f}", *sys.argv[1:])
"""


def child(*args: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a new process and check its exit code."""
    env = {**os.environ, "PYTHONPATH": str(LIBRARY), **environment}
    done = subprocess.run([sys.executable, *args], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def program(tmp_path: Path) -> str:
    """Return the path of a script that uses torch and a module beside it."""
    (tmp_path / "script.py").write_text(PROGRAM)
    return str(tmp_path / "script.py")


def test_a_program_runs(program: str) -> None:
    """With its arguments, by its path."""
    assert child("-m", "torchlette.as_torch", program, "-x", "--y").stdout.split() == ["0.0", "-x", "--y"]


def test_a_module_runs(program: str, tmp_path: Path) -> None:
    """``-m`` finds modules of the working directory and of the path."""
    done = child("-m", "torchlette.as_torch", "-m", "script", "z", PYTHONPATH=f"{LIBRARY}{os.pathsep}{tmp_path}")
    assert done.stdout.split() == ["0.0", "z"]


def test_the_variable_holds_for_a_process(program: str) -> None:
    """The line that the wheel adds to the environment's folder acts only where the variable is 1."""
    line = (PYTHON / "torchlette-as-torch.pth").read_text()
    text = f"{line}\nimport runpy\nrunpy.run_path({program!r})"
    assert child("-c", text, TORCHLETTE_AS_TORCH="1").stdout.strip() == "0.0"
    text = f"{line}\nimport sys\nprint('torchlette' in sys.modules)"
    assert child("-c", text, TORCHLETTE_AS_TORCH="").stdout.strip() == "False"


def test_the_installed_package_is_the_facade(program: str) -> None:
    """The package of the second distribution gives the module itself, first of all imports too."""
    path = f"{PYTHON / 'as_torch'}{os.pathsep}{LIBRARY}"
    assert child(program, PYTHONPATH=path).stdout.strip() == "0.0"


def test_the_wheel_installs_the_package_and_the_metadata_of_torch(program: str, tmp_path: Path) -> None:
    """An installer takes a wheel with one .dist-info folder at its top, and puts .data/purelib beside the package."""
    sources, site = tmp_path / "python", tmp_path / "site"
    shutil.copytree(PYTHON / "as_torch", sources / "as_torch", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    for file in ("_version.py", "torch/version.py"):
        (sources / "torchlette" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PYTHON / "torchlette" / file, sources / "torchlette" / file)
    text = f"""
import os, runpy, sys, sysconfig
paths = sysconfig.get_paths
sysconfig.get_paths = lambda *a, **k: {{**paths(*a, **k), "purelib": {str(site)!r}}}
os.chdir({str(sources / "as_torch")!r})
sys.argv = ["setup.py", "-q", "bdist_wheel", "-d", {str(tmp_path)!r}]
runpy.run_path("setup.py", run_name="__main__")
"""
    child("-c", text)
    (wheel,) = tmp_path.glob("torchlette_as_torch-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
        archive.extractall(site)
    assert sum(top.endswith(".dist-info") for top in tops) == 1
    (beside,) = site.glob("*.data/purelib/*")
    shutil.move(beside, site / beside.name)
    assert beside.name.startswith("torch-") and "+torchlette" in beside.name
    line = "import importlib.metadata as m; import sys; v = m.version('torch'); assert 'torch' not in sys.modules"
    path = f"{site}{os.pathsep}{LIBRARY}"
    assert child("-c", f"{line}; assert '+torchlette' in v", PYTHONPATH=path).stdout == ""
    assert child(program, PYTHONPATH=path).stdout.strip() == "0.0"


def test_the_package_refuses_to_lie_over_pytorch(tmp_path: Path) -> None:
    """Files of PyTorch in its folder are an error that names both."""
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text((PYTHON / "as_torch" / "torch" / "__init__.py").read_text())
    (package / "_tensor.py").write_text("")
    done = child("-c", "import torch", code=1, PYTHONPATH=f"{tmp_path}{os.pathsep}{LIBRARY}")
    assert "uninstall torchlette-as-torch and torch" in done.stderr


def test_the_build_refuses_beside_pytorch(tmp_path: Path) -> None:
    """setup.py looks into the environment that it builds for."""
    (tmp_path / "torch-2.9.0.dist-info").mkdir()
    text = f"""
import sysconfig
paths = sysconfig.get_paths
sysconfig.get_paths = lambda *a, **k: {{**paths(*a, **k), "purelib": {str(tmp_path)!r}}}
import sys, runpy
sys.argv = ["setup.py", "--version"]
runpy.run_path({str(PYTHON / "as_torch" / "setup.py")!r}, run_name="__main__")
"""
    assert "pip uninstall torch" in child("-c", text, code=1).stderr


def test_pytorch_that_is_imported_is_not_replaced() -> None:
    """``activate`` comes before any import of PyTorch."""
    text = """
import sys, types
sys.modules["torch"] = real = types.ModuleType("torch")
real._C, real.__file__ = object(), "site/torch/__init__.py"
from torchlette import as_torch
try:
    as_torch.activate()
except ImportError as error:
    print("site/torch/__init__.py" in str(error))
"""
    assert child("-c", text).stdout.strip() == "True"


def test_all_code_of_the_process_follows_pytorch() -> None:
    """Code that imports no torch reads tensors like numbers."""
    text = """
from torchlette import as_torch
as_torch.activate()
import statistics, heapq
from torch import tensor
print(statistics.fmean([tensor(1.0), tensor(3.0)]), heapq.nlargest(1, [tensor(1), tensor(2)])[0].item())
"""
    assert child("-c", text).stdout.split() == ["2.0", "2"]


def test_the_report_names_what_is_missing(tmp_path: Path) -> None:
    """Modules, functions and methods that were asked for, each with the lines that asked."""
    script = tmp_path / "asks.py"
    script.write_text(
        "import torch\n"
        "for _ in range(2):\n"
        "    hasattr(torch, 'surely_missing')\n"
        "hasattr(torch.ones(1), 'also_missing')\n"
        "torch.ones(1).sum()\n"
        "import torch.never_there\n"
    )
    done = child("-m", "torchlette.as_torch", "--report", str(script), code=1)
    assert "ModuleNotFoundError" in done.stderr
    lines = done.stderr[done.stderr.index("torchlette.as_torch: 3 names") :].splitlines()
    assert [line.strip() for line in lines[1:7]] == [
        "torch.surely_missing",
        f"{script}:3 (2 times)",
        "torch.Tensor.also_missing",
        f"{script}:4",
        "torch.never_there",
        f"{script}:6",
    ]


def test_the_report_says_when_nothing_is_missing(tmp_path: Path) -> None:
    """A program that gets all is told so."""
    script = tmp_path / "fine.py"
    script.write_text("import torch.nn.functional as F\nimport torch\nF.relu(torch.ones(2)).sum().item()\n")
    assert "every name" in child("-m", "torchlette.as_torch", "--report", str(script)).stderr


def test_the_import_is_light() -> None:
    """``import torch`` loads neither modules nor optimizers nor what inspects code; they come with their first use."""
    text = """
from torchlette import as_torch
as_torch.activate()
import sys, torch
print({"inspect", "argparse", "importlib.metadata", "torchlette.nn", "torchlette.optim"} & set(sys.modules))
print(torch.nn.Linear(1, 1)(torch.ones(1)).shape == (1,))
"""
    assert child("-c", text).stdout.split() == ["set()", "True"]


FUNCTORCH = """
import warnings
warnings.simplefilter("ignore", FutureWarning)
import torch
import functorch
from functorch import combine_state_for_ensemble, grad, make_functional, make_functional_with_buffers, vmap
from functorch.experimental import chunk_vmap, control_flow
from functorch.experimental.control_flow import cond
from torch._higher_order_ops.while_loop import while_loop

class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(2, 2)
        self.second = self.first
        self.norm = torch.nn.BatchNorm1d(2)
        self.register_buffer("shift", torch.ones(2))
        self.again = self.shift
        self.register_buffer("tied", self.shift)

    def forward(self, x):
        return self.second(self.first(x)) + self.shift + self.tied

net, x = Tied().eval(), torch.ones(3, 2)
f, params, buffers = make_functional_with_buffers(net)
print(len(params), len(buffers), torch.equal(f(params, buffers, x), net(x)))
params[0].data.zero_()  # copies
print(net.first.weight.abs().sum().item() > 0)
f, params = make_functional(net.first, disable_autograd_tracking=True)
print([p.requires_grad for p in params], tuple(grad(lambda p: f(p, x).sum())(params)[0].shape))
f, params, buffers = combine_state_for_ensemble([Tied().eval() for _ in range(4)])
print(tuple(vmap(f, (0, 0, None))(params, buffers, x).shape), functorch.vmap is vmap)
sizes = []
print(chunk_vmap(lambda a: (sizes.append(functorch.__name__), a * 2)[1], chunks=3)(torch.ones(7)).tolist(), len(sizes))
for call in (lambda: make_functional(net), lambda: combine_state_for_ensemble([])):
    try:
        call()
    except RuntimeError as error:
        print(str(error).split(":")[0])
print(cond is torch.cond, control_flow.map(lambda v: v * 2, x).shape == x.shape)
print([v.item() for v in while_loop(lambda v: v < 5, lambda v: (v + 2,), (torch.tensor(0),))])
warnings.simplefilter("error", FutureWarning)
try:
    functorch.hessian(lambda x: x.sum())
except FutureWarning as warning:
    print("`torch.func.hessian` instead" in str(warning))
"""


def test_functorch_is_a_package() -> None:
    """Its functions are those of ``torch.func``, with PyTorch's warnings, and modules as functions of their state."""
    text = "from torchlette import as_torch\nas_torch.activate()\n" + FUNCTORCH
    assert child("-c", text).stdout.splitlines() == [
        "4 4 True",
        "True",
        "[False, False] (2, 2)",
        "(4, 3, 2) True",
        "[2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0] 3",
        "make_functional(model)",
        "combine_state_for_ensemble",
        "True True",
        "[6]",
        "True",
    ]
