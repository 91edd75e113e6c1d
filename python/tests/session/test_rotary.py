"""Rotary positions in every spelling and file: values beside PyTorch, and one step that turns the pairs."""

from __future__ import annotations

import io

import numpy as np
import onnx
import pytest
import torch
import transformers as hf
from onnx import TensorProto, helper

import torchlette as tl
import torchlette.onnx
import torchlette.torch

HEADS, STEPS, WIDTH = 2, 5, 16


def halves(lib, x, cos, sin):
    """Turn the halves of a head, as in Llama."""
    n = x.shape[-1] // 2
    return x * cos + lib.cat((-x[..., n:], x[..., :n]), dim=-1) * sin


def pairs(lib, x, cos, sin):
    """Turn neighbours, as in GPT-J."""
    return x * cos + lib.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2) * sin


def parts(lib, x, cos, sin):
    """Turn the halves each by itself."""
    n = x.shape[-1] // 2
    a, b, cos, sin = x[..., :n], x[..., n:], cos[..., :n], sin[..., :n]
    return lib.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def partial(lib, x, cos, sin):
    """Turn the first half of a head, and pass the other on, as in GPT-NeoX and Phi."""
    n = x.shape[-1] // 2
    return lib.cat((halves(lib, x[..., :n], cos[..., :n], sin[..., :n]), x[..., n:]), dim=-1)


def partial_pairs(lib, x, cos, sin):
    """Turn neighbours in the first quarter of a head."""
    n = x.shape[-1] // 4
    return lib.cat((pairs(lib, x[..., :n], cos[..., :n], sin[..., :n]), x[..., n:]), dim=-1)


def products(lib, x, cos, sin):
    """Multiply complex numbers, as Llama's first code does."""
    n = x.shape[-1] // 2
    z = lib.view_as_complex(x.reshape(*x.shape[:-1], n, 2))
    angles = lib.view_as_complex(lib.stack((cos[..., :n], sin[..., :n]), dim=-1))
    return lib.view_as_real(z * angles).flatten(-2)


SPELLINGS = {f.__name__: f for f in (halves, pairs, parts, partial, partial_pairs, products)}


def module(lib, spelling, before=1.0, after=1.0):
    """Return a module of a library that turns heads which lie behind their positions, scaled before and after."""

    class Turn(lib.nn.Module):
        def forward(self, x, cos, sin):
            x = x.transpose(1, 2)
            x = SPELLINGS[spelling](lib, x if before == 1.0 else x * before, cos, sin)
            return x if after == 1.0 else x * after

    return Turn()


def inputs():
    """Return heads [1, steps, heads, width] and angles [1, 1, steps, width]."""
    r = np.random.default_rng(0)
    return [r.normal(size=s).astype("float32") for s in ((1, STEPS, HEADS, WIDTH), *[(1, 1, STEPS, WIDTH)] * 2)]


def session(spelling, form, path, scales=(1.0, 1.0), **options):
    """Return a session of a program in a form."""
    given = inputs()
    if form == "ours":
        spec = [tl.export.InputSpec(n, tl.float32, list(v.shape)) for n, v in zip(("x", "c", "s"), given, strict=True)]
        program = tl.export.from_callable(module(torchlette.torch, spelling, *scales).forward, spec, ["y"])
        return tl.InferenceSession(program, **options)
    theirs, tensors = module(torch, spelling, *scales), tuple(map(torch.from_numpy, given))
    if form == "onnx":
        torch.onnx.export(theirs, tensors, path / "m.onnx", dynamo=False, opset_version=17)
        return tl.InferenceSession(path / "m.onnx", **options)
    program = torch.export.export(theirs, tensors)
    torch.export.save(program.run_decompositions() if form == "decomposed" else program, path / "m.pt2")
    return tl.InferenceSession(path / "m.pt2", **options)


def run(s, given):
    """Run a session, and return its result."""
    return torch.from_numpy(s.run(None, {p.name: v for p, v in zip(s.get_inputs(), given, strict=True)})[0])


FORMS = ["ours", "pt2", "decomposed", "onnx"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_each_spelling_is_one_step(spelling, form, tmp_path):
    if (spelling, form) == ("products", "onnx"):
        pytest.skip("files of ONNX have no complex numbers")
    s, given = session(spelling, form, tmp_path), inputs()
    want = module(torch, spelling)(*map(torch.from_numpy, given))
    torch.testing.assert_close(run(s, given), want)
    turning = [step for step in s.profile() if step["shape"][:4] == [1, HEADS, STEPS, step["shape"][3]]]
    assert len(turning) == 1, turning


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
@pytest.mark.parametrize("form", ["ours", "decomposed"])
@pytest.mark.parametrize("scales", [(0.5, 1.0), (1.0, 0.5)], ids=["before", "after"])
@pytest.mark.parametrize("spelling", ["halves", "pairs", "parts"])
def test_queries_that_are_scaled_turn_in_one_step(spelling, scales, form, device, tmp_path):
    s, given = session(spelling, form, tmp_path, scales, device=device), inputs()
    want = module(torch, spelling, *scales)(*map(torch.from_numpy, given))
    torch.testing.assert_close(run(s, given), want)
    turning = [step for step in s.profile() if step["shape"][:4] == [1, HEADS, STEPS, step["shape"][3]]]
    assert len(turning) == 1, turning


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_gpu_turns_in_one_dispatch(spelling, tmp_path):
    s, given = session(spelling, "ours", tmp_path, device="wgpu"), inputs()
    want = module(torch, spelling)(*map(torch.from_numpy, given))
    torch.testing.assert_close(run(s, given), want)
    turning = [step for step in s.profile() if step["shape"][:4] == [1, HEADS, STEPS, step["shape"][3]]]
    assert len(turning) == 1, turning


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("width", [0, WIDTH // 2])
def test_the_operator_of_onnx_is_one_step(interleaved, width, tmp_path):
    n = (width or WIDTH) // 2
    shapes = {"x": [1, HEADS, STEPS, WIDTH], "c": [1, STEPS, n], "s": [1, STEPS, n]}
    values = [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in (*shapes.items(), ("y", shapes["x"]))]
    node = helper.make_node(
        "RotaryEmbedding", ["x", "c", "s"], ["y"], interleaved=interleaved, rotary_embedding_dim=width
    )
    graph = helper.make_graph([node], "g", values[:3], values[3:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), tmp_path / "m.onnx")
    r = np.random.default_rng(0)
    feeds = {k: r.normal(size=v).astype("float32") for k, v in shapes.items()}
    s = tl.InferenceSession(tmp_path / "m.onnx")
    got = torch.from_numpy(s.run(None, feeds)[0])
    x, cos, sin = (torch.from_numpy(v) for v in feeds.values())
    table = (lambda t: t.repeat_interleave(2, -1)) if interleaved else (lambda t: torch.cat((t, t), -1))
    turned = (pairs if interleaved else halves)(torch, x[..., : 2 * n], table(cos)[:, None], table(sin)[:, None])
    torch.testing.assert_close(got, torch.cat((turned, x[..., 2 * n :]), -1))
    assert len(s.profile()) == 1


SMALL = {
    **{"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2},
    **{"max_position_embeddings": 32, "intermediate_size": 48},
}
GPTJ = {"vocab_size": 40, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 32, "rotary_dim": 8}
ENDS = {"bos_token_id": 0, "eos_token_id": 0}
MODELS = {
    "Llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, num_key_value_heads=1)),
    "GPTNeoX": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**SMALL, rotary_pct=0.25)),
    "Phi": lambda: hf.PhiForCausalLM(hf.PhiConfig(**SMALL, partial_rotary_factor=0.5)),
    "GPTJ": lambda: hf.GPTJForCausalLM(hf.GPTJConfig(**GPTJ, **ENDS)),
}


class Logits(torch.nn.Module):
    """A model without its cache."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, use_cache=False).logits


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_layers_of_transformers_turn_queries_and_keys_in_a_step_each(name, decomposed):
    torch.manual_seed(0)
    model, ids = Logits(MODELS[name]().eval()), torch.randint(0, 40, (1, 6))
    with torch.no_grad():
        program, want = torch.export.export(model, (ids,)), model(ids)
    file = io.BytesIO()
    torch.export.save(program.run_decompositions() if decomposed else program, file)
    s = tl.InferenceSession(tl.export.load(io.BytesIO(file.getvalue())))
    torch.testing.assert_close(run(s, [ids.numpy()]), want)
    steps = [step for step in s.profile() if step["op"] not in ("matmul", "attention", "layer_norm", "index_select")]
    turning = [step for step in steps if step["op"] == "cat"]
    assert 2 <= len(turning) <= 4, steps  # one a layer, or one for queries and one for keys
    assert all("copy" not in step["kernel"] for step in turning), turning
    # Versions of the library differ in what they copy.
    rest = [step for step in steps if step["op"] != "cat" and "norm" not in step["kernel"]]
    rest = [step for step in rest if not step["kernel"].startswith("copy")]
    assert len(rest) <= 1, rest


def written_attention(path):
    """Write a layer as PyTorch's exporter (dynamo=True): queries and keys are scaled, and NaN are chosen away."""
    n, node = WIDTH // 2, helper.make_node
    nodes = []
    for name in ("q", "k", "v"):
        nodes += [node("Reshape", [name, "heads"], [f"{name}_h"])]
        nodes += [node("Transpose", [f"{name}_h"], [f"{name}_t"], perm=[0, 2, 1, 3])]
    for name in ("q", "k"):
        t = f"{name}_t"
        nodes += [node("Mul", [t, "cos"], [f"{name}_cos"]), node("Slice", [t, "zero", "half", "last"], [f"{name}_a"])]
        nodes += [node("Slice", [t, "half", "end", "last"], [f"{name}_b"]), node("Neg", [f"{name}_b"], [f"{name}_n"])]
        nodes += [node("Concat", [f"{name}_n", f"{name}_a"], [f"{name}_c"], axis=-1)]
        nodes += [node("Mul", [f"{name}_c", "sin"], [f"{name}_sin"])]
        nodes += [node("Add", [f"{name}_cos", f"{name}_sin"], [f"{name}_turned"])]
    nodes += [node("Transpose", ["k_turned"], ["k_last"], perm=[0, 1, 3, 2])]
    nodes += [node("Mul", ["q_turned", "root"], ["q_scaled"]), node("Mul", ["k_last", "root"], ["k_scaled"])]
    nodes += [node("MatMul", ["q_scaled", "k_scaled"], ["scores"]), node("Add", ["scores", "mask"], ["masked"])]
    nodes += [node("Softmax", ["masked"], ["p"], axis=-1), node("IsNaN", ["p"], ["bad"])]
    nodes += [node("Where", ["bad", "none", "p"], ["weights"]), node("MatMul", ["weights", "v_t"], ["o"])]
    nodes += [node("Transpose", ["o"], ["o_t"], perm=[0, 2, 1, 3]), node("Reshape", ["o_t", "flat"], ["y"])]
    angles = np.arange(STEPS)[:, None] / 50.0 ** (np.arange(n) / n)
    angles = np.concatenate([angles, angles], -1).astype("float32")
    tensors = {"cos": np.cos(angles)[None, None], "sin": np.sin(angles)[None, None], "none": np.float32(0)}
    tensors |= {"mask": np.triu(np.full((STEPS, STEPS), -np.inf, "float32"), 1)[None, None]}
    tensors |= {"root": np.float32(WIDTH**-0.25), "heads": np.array([1, STEPS, HEADS, WIDTH])}
    tensors |= {"flat": np.array([1, STEPS, HEADS * WIDTH]), "zero": np.array([0]), "half": np.array([n])}
    tensors |= {"end": np.array([WIDTH]), "last": np.array([3])}
    shape = [1, STEPS, HEADS * WIDTH]
    values = [helper.make_tensor_value_info(k, TensorProto.FLOAT, shape) for k in ("q", "k", "v", "y")]
    initial = [onnx.numpy_helper.from_array(v, k) for k, v in tensors.items()]
    graph = helper.make_graph(nodes, "g", values[:3], values[3:], initial)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return torch.from_numpy(tensors["cos"]), torch.from_numpy(tensors["sin"])


def test_scaled_queries_and_keys_of_the_exporter_turn_in_a_step_each(tmp_path):
    cos, sin = written_attention(tmp_path / "m.onnx")
    r = np.random.default_rng(1)
    feeds = {name: r.normal(size=(1, STEPS, HEADS * WIDTH)).astype("float32") for name in "qkv"}
    q, k, v = (torch.from_numpy(x).reshape(1, STEPS, HEADS, WIDTH).transpose(1, 2) for x in feeds.values())
    q, k = (halves(torch, x, cos, sin) for x in (q, k))
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    s = tl.InferenceSession(tmp_path / "m.onnx")
    got = torch.from_numpy(s.run(None, feeds)[0])
    torch.testing.assert_close(got, want.transpose(1, 2).reshape(1, STEPS, -1))
    assert sorted(step["op"] for step in s.profile() if step["op"] != "copy") == ["attention", "cat", "cat"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["Llama", "GPTNeoX"])
def test_files_of_the_dynamo_exporter_turn_queries_and_keys_in_a_step_each(name, tmp_path):
    pytest.importorskip("onnxscript", reason="torch.onnx.export(dynamo=True) needs onnxscript")
    torch.manual_seed(0)
    model, ids = Logits(MODELS[name]().eval()), torch.randint(0, 40, (1, 6))
    torch.onnx.export(model, (ids,), dynamo=True, verbose=False).save(tmp_path / "m.onnx")
    with torch.no_grad():
        want = model(ids)
    s = tl.InferenceSession(tmp_path / "m.onnx")
    torch.testing.assert_close(run(s, [ids.numpy()]), want)
    steps = [step["op"] for step in s.profile()]
    assert steps.count("attention") == 2
    assert 2 <= steps.count("cat") <= 4, steps
    assert not set(steps) - {"attention", "cat", "matmul", "layer_norm", "index_select", "where", "mul", "copy"}, steps
