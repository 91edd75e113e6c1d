"""Corners of ONNX operators beside onnxruntime: long steps, dims of size 0, integers, adaptive samples."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import torchlette

R: np.random.Generator


def both(op, feeds, constants=(), opset=18, device="cpu", **attributes):
    """Return the results of onnxruntime and of a session for a model of one operator."""
    names = [*feeds, *(name for name, _ in constants)]
    order = sorted(names, key=lambda n: int(n[1:]))
    slots = [f"i{k}" if f"i{k}" in order else "" for k in range(int(order[-1][1:]) + 1)]
    node = helper.make_node(op, slots, ["y"], **attributes)
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in feeds.items()
    ]
    held = [numpy_helper.from_array(v, n) for n, v in constants]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")], held)
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    (want,) = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    path = both.folder / "m.onnx"
    path.write_bytes(data)
    (got,) = torchlette.InferenceSession(path, device=device).run(None, feeds)
    assert got.dtype == want.dtype and got.shape == want.shape
    return want, got


@pytest.fixture(autouse=True)
def folder(tmp_path):
    """Each test draws the same numbers, whichever run before it."""
    global R
    R = np.random.default_rng(0)
    both.folder = tmp_path


@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize(("kernel", "step", "gap"), list(itertools.product((1, 2, 3), (1, 2, 3, 5), (1, 2))))
def test_transposed_convolutions_of_any_step(kernel, step, gap, pad):
    feeds = {"i0": R.normal(size=(1, 2, 5, 4)).astype("f4"), "i1": R.normal(size=(2, 3, kernel, kernel)).astype("f4")}
    feeds["i2"] = R.normal(size=3).astype("f4")
    for extra in range(2 if step > 1 else 1):
        given = {"output_padding": [extra] * 2, "strides": [step] * 2, "dilations": [gap] * 2, "auto_pad": pad}
        want, got = both("ConvTranspose", feeds, **given)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


REDUCTIONS = "Mean Sum Max Min Prod L1 L2 LogSum LogSumExp SumSquare".split()


@pytest.mark.parametrize("kind", ["f4", "i4"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_nothing(name, kind):
    for shape, axes, keep in itertools.product(((2, 0, 3), (0,), (3, 0)), ((0,), (1,), None), (0, 1)):
        if axes is None or max(axes) < len(shape):
            constants = [("i1", np.array(axes))] if axes else []
            want, got = both(f"Reduce{name}", {"i0": np.zeros(shape, kind)}, constants, keepdims=keep)
            np.testing.assert_array_equal(got, want)


PLACES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("kind", "mode"), list(itertools.product(("u1", "i4"), ("linear", "cubic"))))
def test_antialiased_integers_are_rounded_after_each_dim(kind, mode, place):
    """Every other sum is near a half, so that the last bit of a weight, and the order of a sum, show."""
    for seed, outside in itertools.product(range(3), (0, 1)):
        x = np.random.default_rng(seed).integers(*((0, 256) if kind == "u1" else (-1000, 1000)), (1, 2, 10, 12))
        for sizes in ((1, 2, 3, 4), (1, 2, 5, 9), (1, 2, 4, 20), (1, 2, 20, 3)):
            given = {"antialias": 1, "coordinate_transformation_mode": place, "exclude_outside": outside, "mode": mode}
            want, got = both("Resize", {"i0": x.astype(kind)}, [("i3", np.array(sizes))], **given)
            np.testing.assert_array_equal(got, want)


def test_antialiased_signed_bytes_are_shifted_bytes():
    """onnxruntime cuts negative results of int8 off at 0, so that it is asked for the same numbers from 0 to 255."""
    x = R.integers(0, 256, (1, 2, 10, 12)).astype("u1")
    sizes = [("i3", np.array([1, 2, 3, 4]))]
    want, _ = both("Resize", {"i0": x}, sizes, antialias=1, mode="linear")
    _, got = both("Resize", {"i0": (x.astype(int) - 128).astype("i1")}, sizes, antialias=1, mode="linear")
    np.testing.assert_allclose(got.astype(int), want.astype(int) - 128, atol=1)


ROIS = [[0, 0, 7.3, 8.2], [1.2, 2.3, 3.4, 9.9], [-2, -1, 20, 20], [3, 3, 3, 3], [0, 0, 0.5, 0.4], [5, 5, 2, 2]]


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("place", ["half_pixel", "output_half_pixel"])
def test_regions_with_as_many_samples_as_pixels(place, mode, device):
    feeds = {"i0": R.normal(size=(2, 3, 12, 9)).astype("f4"), "i1": np.array(ROIS, "f4")}
    feeds["i2"] = np.array([0, 1, 1, 0, 1, 0])
    for tall, wide, samples in ((1, 1, 0), (2, 3, 0), (5, 5, 0), (2, 3, 2)):
        given = {"coordinate_transformation_mode": place, "mode": mode, "spatial_scale": 0.9, "sampling_ratio": samples}
        want, got = both("RoiAlign", feeds, opset=16, device=device, output_height=tall, output_width=wide, **given)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_rank_that_is_cast_like_another_number_chooses_a_branch(tmp_path):
    """As PyTorch's exporter writes ``column_stack``: the branches have results of unequal sizes."""
    text = """<ir_version: 9, opset_import: ["" : 20]>
    g (float[2,3] x) => (float[6] y) <int64 one = {1}, int64[1] flat = {-1}> {
        shape = Shape (x)
        rank = Size (shape)
        like = CastLike (one, rank)
        low = Less (like, rank)
        y = If (low) <
            then_branch = a () => (float[6] u) { u = Reshape (x, flat) },
            else_branch = b () => (float[2,3] v) { v = Identity (x) }
        >
    }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    x = R.normal(size=(2, 3)).astype("f4")
    (found,) = torchlette.InferenceSession(tmp_path / "m.onnx", device="cpu").run(None, {"x": x})
    np.testing.assert_array_equal(found, x.reshape(-1))
