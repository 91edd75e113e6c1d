"""Details of modules and functions that PyTorch's own tests check; beside PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchlette.torch as facade

PROGRAMS: dict[str, Callable[[Any], Any]] = {}


def program(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Add a function of a module, whose result is compared."""
    PROGRAMS[function.__name__] = function
    return function


@program
def ctc_of_no_input(mod: Any) -> Any:
    found = []
    for inputs, targets in (([0, 0, 0], [0, 0, 0]), ([4, 0, 3], [2, 0, 2])):
        x = mod.zeros(4, 3, 20).log_softmax(2).requires_grad_()
        loss = mod.nn.functional.ctc_loss(
            x, mod.tensor([[1, 2]] * 3), mod.tensor(inputs), mod.tensor(targets), reduction="none"
        )
        (slope,) = mod.autograd.grad(loss.sum(), x)
        found += [loss.abs().tolist(), slope.abs().sum((0, 2)).tolist()]
    x = mod.zeros(1, 2, 20).log_softmax(2)
    found += (
        mod.nn.functional.ctc_loss(x, mod.ones(2, 1).long(), mod.tensor([0, 0]), mod.tensor([1, 0]), reduction="none")
        .abs()
        .tolist()
    )
    return found


@program
def classes_in_bytes(mod: Any) -> Any:
    x, t = mod.arange(12.0).reshape(3, 4).sin(), mod.tensor([0, 1, 2], dtype=mod.uint8)
    f = mod.nn.functional
    return [f.nll_loss(x, t).item(), f.cross_entropy(x, t).item(), f.cross_entropy(x, t, label_smoothing=0.1).item()]


@program
def an_image_without_channels(mod: Any) -> Any:
    return [
        list(mod.nn.functional.grid_sample(mod.ones(2, 0, *s), mod.ones(2, *g), align_corners=False).shape)
        for s, g in (((6, 6), (3, 3, 2)), ((2, 6, 6), (3, 3, 3, 3)))
    ]


@program
def initializers_of_other_bases(mod: Any) -> Any:
    class Base:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.given = (args, kwargs)

    class Calls(mod.nn.Module, Base):  # type: ignore[name-defined]
        call_super_init = True

    class Not(mod.nn.Module, Base):  # type: ignore[name-defined]
        pass

    return [Calls().given, hasattr(Not(), "given")]


@program
def an_unknown_argument_of_a_module(mod: Any) -> Any:
    return mod.nn.Module(a=1)


@program
def a_place_too_many(mod: Any) -> Any:
    return mod.nn.Module(1)


@program
def a_buffer_over_an_attribute(mod: Any) -> Any:
    module = mod.nn.Module()
    module.a = 5
    module.a = mod.nn.Buffer(mod.ones(1))


@program
def register_buffer_of_a_subclass_without_persistent(mod: Any) -> Any:
    class Old(mod.nn.Linear):  # type: ignore[name-defined]
        def register_buffer(self, name: str, tensor: Any) -> None:
            super().register_buffer(name, tensor, True)

    module = Old(2, 2)
    module.a = mod.nn.Buffer(mod.ones(2))
    module.a = mod.zeros(3)
    found = [sorted(module.state_dict()), module.a.tolist()]
    module.b = mod.nn.Buffer(mod.ones(2), persistent=False)
    return found


@program
def modules_of_complex_numbers(mod: Any) -> Any:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        mod.nn.Linear(2, 2).to(mod.complex64)
    return [str(w.message)[:45] for w in seen]


@program
def order_of_a_parameter_dict(mod: Any) -> Any:
    p = [mod.nn.Parameter(mod.ones(1)) for _ in range(6)]
    d = mod.nn.ParameterDict({"b": p[0], "a": p[1]})
    d.update({"z": p[2], "y": p[3]})
    d.update([("w", p[4]), ("v", p[5])])
    return [list(d), list(d.copy()), list(d | {"d": p[0], "c": p[1]})]


@program
def text_of_parameters_without_values(mod: Any) -> Any:
    return str(mod.nn.ParameterList([mod.nn.Parameter(mod.ones(1, device="meta")), None]))


@program
def a_circular_pad_of_too_many_dims(mod: Any) -> Any:
    return mod.nn.CircularPad1d(1)(mod.ones(1, 1, 1, 4))


@program
def a_circular_pad_of_too_few_dims(mod: Any) -> Any:
    return mod.nn.CircularPad2d(1)(mod.ones(4, 4))


@program
def types_of_new_tensors(mod: Any) -> Any:
    x = mod.ones(2)
    given = [[1], 1, [True], 2.5, [[1.5]], mod.tensor([1])]
    made = [t for of in (x, x.int(), x.half(), x > 2) for t in map(of.new_tensor, given)]
    named = [x.new_tensor([1], dtype=mod.int64), x.new([1, 2])]
    return [(str(t.dtype).rpartition(".")[2], t.tolist()) for t in made + named]


@program
def a_tensor_as_a_parameter(mod: Any) -> Any:
    mod.nn.Linear(1, 1).weight = mod.ones(1)


@program
def dropout_of_a_single_recurrent_layer(mod: Any) -> Any:
    return caught(lambda: [mod.nn.GRU(2, 3, dropout=0.5), mod.nn.LSTM(2, 3, 2, dropout=0.5)])


@program
def a_backward_hook_without_gradients_of_arguments(mod: Any) -> Any:
    layer = mod.nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda *given: None)
    return [w[:80] for w in caught(lambda: layer(mod.ones(1, 2)).sum().backward())]


@program
def masks_of_two_types(mod: Any) -> Any:
    q = mod.ones(3, 1, 4)
    layer = mod.nn.MultiheadAttention(4, 2)
    return caught(lambda: layer(q, q, q, attn_mask=mod.ones(3, 3), key_padding_mask=mod.ones(1, 3) > 2))


@program
def a_causal_hint_without_a_mask(mod: Any) -> Any:
    q = mod.ones(3, 1, 4)
    return mod.nn.MultiheadAttention(4, 2)(q, q, q, is_causal=True)


def caught(call: Callable[[], Any]) -> list[str]:
    """Return the texts of the warnings of a call."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in seen]


def attend(mod: Any, batched: bool, **masks: tuple[int, ...]) -> Any:
    q = mod.ones(3, 1, 4) if batched else mod.ones(3, 4)
    given = {name: mod.ones(*shape) if name == "attn_mask" else mod.ones(*shape) > 2 for name, shape in masks.items()}
    return mod.nn.MultiheadAttention(4, 2)(q, q, q, **given)


@pytest.mark.parametrize(
    ("batched", "masks"),
    [
        (True, {"attn_mask": (2, 2)}),
        (True, {"attn_mask": (2, 3, 2)}),
        (True, {"attn_mask": (1, 3, 3)}),
        (True, {"attn_mask": (3,)}),
        (False, {"attn_mask": (1, 3, 3)}),
        (False, {"key_padding_mask": (1, 3)}),
        (True, {"key_padding_mask": (3,)}),
        (True, {"key_padding_mask": (2, 3)}),
    ],
)
def test_masks_of_another_shape_raise_what_pytorch_raises(batched: bool, masks: dict[str, tuple[int, ...]]) -> None:
    found = []
    for mod in (torch, facade):
        with pytest.raises((RuntimeError, AssertionError)) as error:
            attend(mod, batched, **masks)
        found.append((error.type is AssertionError, str(error.value)))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_detail_is_as_in_pytorch(name: str) -> None:
    def result(mod: Any) -> Any:
        try:
            return PROGRAMS[name](mod)
        except Exception as error:
            return type(error), str(error)

    want, got = result(torch), result(facade)
    if isinstance(want, list) and name in ("ctc_of_no_input", "classes_in_bytes"):
        assert got == [pytest.approx(w, rel=1e-5, nan_ok=True) for w in want]
    else:
        assert got == want


SIZES: list[dict[str, Any]] = [
    {"size": (4, 4.5)},
    {"size": (4.7, 4)},
    {"size": (4,)},
    {"scale_factor": (1.5,)},
    {"size": 3, "mode": "linear"},
    {"size": 3, "mode": "trilinear"},
]


@pytest.mark.parametrize("wrong", SIZES, ids=str)
def test_wrong_sizes_of_interpolate_raise_what_pytorch_raises(wrong: dict[str, Any]) -> None:
    messages = []
    for mod in (torch, facade):
        with pytest.raises((TypeError, ValueError, NotImplementedError)) as caught:
            mod.nn.functional.interpolate(mod.ones(1, 1, 4, 4), **wrong)
        messages.append((caught.type, str(caught.value)))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("size", [4.7, (4.7,)])
def test_sizes_of_interpolate_are_integers(size: Any) -> None:
    with pytest.raises(TypeError, match="expected size to be one of int"):
        facade.nn.functional.interpolate(facade.ones(1, 1, 4), size=size)
    assert facade.nn.functional.interpolate(facade.ones(1, 1, 4), size=facade.tensor(6)).shape == (1, 1, 6)


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
@pytest.mark.parametrize("size", [(3, 4), (17, 23), (9, 11), (1, 30)])
def test_images_are_resized_by_lanczos_windows(size: tuple[int, int], device: str) -> None:
    x = torch.randn(2, 3, 9, 11, requires_grad=True)
    want = torch.nn.functional.interpolate(x, size=size, mode="lanczos", antialias=True)
    y = facade.tensor(x.detach().numpy(), device=device, requires_grad=True)
    got = facade.nn.functional.interpolate(y, size=size, mode="lanczos", antialias=True)
    torch.testing.assert_close(torch.from_numpy(got.detach().cpu().numpy()), want.detach())
    want.square().sum().backward()
    got.square().sum().backward()
    torch.testing.assert_close(torch.from_numpy(y.grad.cpu().numpy()), x.grad)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "lanczos"},
        {"mode": "lanczos", "antialias": True, "align_corners": True},
        {"mode": "nearest", "antialias": True},
    ],
)
def test_wrong_ways_of_antialiasing_raise_what_pytorch_raises(wrong: dict[str, Any]) -> None:
    texts = []
    for mod in (torch, facade):
        with pytest.raises(ValueError) as raised:
            mod.nn.functional.interpolate(mod.ones(1, 1, 4, 4), size=3, **wrong)
        texts.append(str(raised.value))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_a_resized_image_keeps_its_channels_last(mode: str, antialias: bool) -> None:
    for mod in (torch, facade):
        x = mod.arange(384.0).reshape(2, 3, 8, 8).contiguous(memory_format=mod.channels_last)
        y = mod.nn.functional.interpolate(x, size=(4, 5), mode=mode, antialias=antialias)
        assert y.is_contiguous(memory_format=mod.channels_last)
