"""Float64 in imported programs: what depends on constants alone is computed on the CPU before a move to a GPU."""

from __future__ import annotations

import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

import torchlette as tl  # noqa: E402
import torchlette.onnx  # noqa: E402
from torchlette.export import load  # noqa: E402

CLOSE = {"rtol": 1e-5, "atol": 1e-6}


class Rotary(torch.nn.Module):
    """Frequencies and positions in float64, a scale without dims, and a table that is written in place."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)
        self.register_buffer("inv", 10000.0 ** (-torch.arange(0, 4, dtype=torch.float64) / 4))
        self.register_buffer("scale", torch.tensor(2.5, dtype=torch.float64))

    def forward(self, x):
        angles = torch.arange(3, dtype=torch.float64)[:, None] * self.inv[None]
        table = torch.zeros(3, 8, dtype=torch.float64)
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = angles.cos()
        y = self.lin(x * self.scale + table.to(x.dtype)) * (self.scale / 3)
        return torch.where(x > self.scale, y, -y)


class Growing(Rotary):
    def forward(self, x):
        angles = torch.arange(x.shape[0], dtype=torch.float64)[:, None] * self.inv[None]
        return x + torch.cat([angles.sin(), angles.cos()], -1).float()


class Cast(Rotary):
    def forward(self, x):
        return (x.double() * self.inv.repeat(2)).float()


def imported(module, *args, **kwargs):
    file = io.BytesIO()
    torch.export.save(torch.export.export(module.eval(), args, **kwargs), file)
    file.seek(0)
    return load(file)


def ran(program, x, device, how):
    """Return what a module or a session gives."""
    if how == "session":
        session = tl.InferenceSession(program, device=device)
        return session.run(None, {session.get_inputs()[0].name: x})[0]
    return program.module().to(device)(tl.tensor(x, device=device)).detach().cpu().numpy()


@pytest.mark.parametrize("how", ["module", "session"])
def test_constants_in_float64_run_on_each_device(device, how):
    module, x = Rotary(), torch.randn(3, 8)
    program = imported(module, x)
    assert any(out["dtype"] == "float64" for step in program.graph.nodes for out in step["out"])
    np.testing.assert_allclose(ran(program, x.numpy(), device, how), module(x).detach().numpy(), **CLOSE)


@pytest.mark.parametrize("how", ["module", "session"])
@pytest.mark.parametrize("typed", [np.float32, np.float16])
def test_onnx_constants_in_float64_run_on_each_device(tmp_path, device, how, typed):
    node = onnx.helper.make_node
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(typed))
    nodes = [
        node("Mul", ["positions", "inv"], ["angles"]),
        node("Sin", ["angles"], ["sines"]),
        node("Cast", ["sines"], ["low"], to=kind),
        node("Add", ["x", "low"], ["y"]),
    ]
    info = [onnx.helper.make_tensor_value_info(n, kind, [5, 4]) for n in "xy"]
    positions, inv = np.arange(5.0)[:, None], 10000.0 ** (-np.arange(4.0) / 4)
    tensors = [onnx.numpy_helper.from_array(v, n) for n, v in (("positions", positions), ("inv", inv))]
    graph = onnx.helper.make_graph(nodes, "g", info[:1], info[1:], tensors)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(typed)
    onnx.save(model, tmp_path / "model.onnx")
    program = torchlette.onnx.load(tmp_path / "model.onnx")
    got = ran(program, x, device, how)
    np.testing.assert_allclose(
        got, x + np.sin(positions * inv).astype(typed), rtol=1e-3 if typed == np.float16 else 1e-5
    )


@pytest.mark.parametrize("how", ["module", "session"])
@pytest.mark.parametrize(("cls", "step"), [(Growing, "arange"), (Cast, "_to_dtype")])
def test_float64_at_run_time_names_its_step_on_a_gpu(device, how, cls, step):
    module, x = cls(), torch.randn(3, 8)
    dims = ({0: torch.export.Dim("rows", min=2, max=64)},)
    program = imported(module, x, dynamic_shapes=dims)
    if device == "cpu":
        np.testing.assert_allclose(ran(program, x.numpy(), device, how), module(x).numpy(), rtol=1e-5)
        return
    with pytest.raises(TypeError, match=rf"step \d+ of the program, {step}\b.*float64"):
        ran(program, x.numpy(), device, how)


def test_buffers_that_are_left_keep_their_names(device):
    program = imported(Rotary(), torch.randn(3, 8))
    module = program.module()
    assert {"inv", "scale", "lin.weight"} <= set(module.state_dict())
    weight = module.lin.weight
    module.to(device)
    assert set(module.state_dict()) == ({"lin.weight", "lin.bias"} | ({"inv", "scale"} if device == "cpu" else set()))
    assert module.lin.weight is weight


def test_a_cast_module_computes_with_the_buffers_that_it_has(device):
    module, x = Rotary(), torch.randn(3, 8)
    ours = imported(module, x).module()
    with torch.no_grad():
        module.scale.fill_(0.5)
        ours.scale.fill_(0.5)
    got = ours.to(device)(tl.tensor(x.numpy(), device=device)).detach().cpu().numpy()
    np.testing.assert_allclose(got, module(x).detach().numpy(), **CLOSE)
