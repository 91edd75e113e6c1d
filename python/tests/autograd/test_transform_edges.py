"""Transforms do as PyTorch's at their edges: hooks, writes to arguments, nested dims, own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oracle
import pytest
import torch
from torch.autograd import forward_ad as torch_ad
from torchlette.torch.autograd import forward_ad as facade_ad

import torchlette.torch as facade

LIBS = [torch, facade]


def both(case: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return what a case gives under PyTorch and here: its result, or the class and the text of its error."""
    found = []
    for lib in (torch, facade):
        try:
            found.append(case(lib))
        except Exception as error:
            kind = next(k for k in (NotImplementedError, RuntimeError, ValueError, TypeError) if isinstance(error, k))
            found.append((kind, str(error)))
    return found[0], found[1]


# Hooks and checkpoints ----------------------------------------------------------------------------------------------

MAPPED = {
    "sin": lambda lib, x: lib.func.vmap(lib.sin)(x),
    "broadcast": lambda lib, x: lib.func.vmap(lambda a: a[:, None] * a)(x),
    "nested": lambda lib, x: lib.func.vmap(lib.func.vmap(lambda a: lib.exp(a) * a))(x),
    "last dim": lambda lib, x: lib.func.vmap(lambda a: a.cumsum(0) * a, in_dims=1, out_dims=1)(x),
    "not mapped": lambda lib, x: lib.func.vmap(lambda a, b: (a * b).exp(), in_dims=(0, None))(x, x[0]),
    "qr": lambda lib, x: lib.func.vmap(lambda a: lib.linalg.qr(a.outer(a) + lib.eye(3))[1])(x),
}


def _by_checkpoint(lib: Any, f: Callable[[Any], Any], x: Any) -> Any:
    return lib.utils.checkpoint.checkpoint(f, x, use_reentrant=False)


def _by_hooks(lib: Any, f: Callable[[Any], Any], x: Any) -> Any:
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
        return f(x)


def _by_cpu(lib: Any, f: Callable[[Any], Any], x: Any) -> Any:
    with lib.autograd.graph.save_on_cpu():
        return f(x)


@pytest.mark.parametrize("way", [_by_checkpoint, _by_hooks, _by_cpu])
@pytest.mark.parametrize("name", MAPPED)
def test_packed_values_of_vmap_keep_their_batch(name: str, way: Callable[..., Any]) -> None:
    """A value that a hook of saved tensors gives back is mapped as the one that it packed."""
    gradients = []
    for lib in (torch, facade):
        x = (lib.arange(6.0) / 7).reshape(2, 3).requires_grad_()
        plain = torch if way is _by_hooks and lib is torch else lib
        f = lambda x, lib=plain: MAPPED[name](lib, x)  # noqa: E731
        y = f(x) if lib is torch else way(lib, f, x)
        (y * y).sum().backward()
        gradients.append(x.grad)
    oracle.assert_equal(gradients[1], gradients[0])


# Writes to arguments ------------------------------------------------------------------------------------------------


def _copied(x: Any, y: Any) -> Any:
    y.copy_(x)
    return y


def _partly(x: Any, y: Any) -> Any:
    y[1:] *= x[:1]
    return (y * x).sum()


@pytest.mark.parametrize("write", [_copied, _partly])
@pytest.mark.parametrize("transform", ["jacrev", "jacfwd"])
@pytest.mark.parametrize("argnums", [0, (0,)])
def test_jacobians_of_functions_that_write_to_other_arguments(write: Any, transform: str, argnums: Any) -> None:
    found = []
    for lib in (torch, facade):
        x, y = lib.arange(3.0) + 1, lib.ones(3)
        found.append((getattr(lib.func, transform)(write, argnums)(x, y), y, y.requires_grad))
    oracle.assert_equal(found[1], found[0])


PUSHED = {
    "whole": (lambda x: x.mul_(3), lambda lib, f, x, t: lib.func.jvp(f, (x,), (t,))),
    "view": (lambda x: x[..., 1:].mul_(3), lambda lib, f, x, t: lib.func.jvp(f, (x,), (t,))),
    "mapped": (
        lambda x: x[1:].mul_(3),
        lambda lib, f, x, t: lib.func.vmap(lambda x, t: lib.func.jvp(f, (x,), (t,)))(x, t),
    ),
    "mapped, last dim": (
        lambda x: x.copy_(x * x),
        lambda lib, f, x, t: lib.func.vmap(lambda x, t: lib.func.jvp(f, (x,), (t,)), in_dims=1)(x, t),
    ),
}


@pytest.mark.parametrize("name", PUSHED)
def test_what_jvp_writes_to_its_arguments_reaches_them(name: str) -> None:
    f, call = PUSHED[name]
    found = []
    for lib in (torch, facade):
        x = lib.arange(6.0).reshape(2, 3)
        result = [t.clone() for t in call(lib, f, x, lib.full((2, 3), 0.5))]
        found.append((result[0], x))
    oracle.assert_equal(found[1], found[0])


@pytest.mark.parametrize("lib", LIBS)
def test_jvp_does_not_write_to_a_leaf(lib: Any) -> None:
    x = lib.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place operation"):
        lib.func.jvp(lambda x: x.mul_(3), (x,), (lib.ones(3),))


def test_a_result_that_is_an_argument_is_that_of_the_caller() -> None:
    def identities(lib: Any) -> list[bool]:
        x = lib.full((2, 2), 0.25)
        vmap = lib.func.vmap
        found = [
            vmap(lib.Tensor.sin_)(x),
            vmap(lambda x: x, 1)(x),
            vmap(lambda x: x, 1, 1)(x),
            vmap(lambda x: x, -1, 1)(x),
        ]
        return [y is x for y in found]

    want, got = both(identities)
    assert got == want
    for lib in LIBS:
        for dim in (2, 4, -3, -4):
            with pytest.raises(IndexError):
                lib.func.vmap(lambda x: x, out_dims=dim)(lib.ones(2, 2))


# Dims ---------------------------------------------------------------------------------------------------------------

OUT_DIMS = {
    "one of one": lambda lib, x: lib.func.vmap(lambda x: x, out_dims=(1,))(x),
    "beside others": lambda lib, x: lib.func.vmap(lambda x: (x, "a"), out_dims=(0, None))(x),
    "none": lambda lib, x: lib.func.vmap(lambda x: None, out_dims=None)(x),
    "nested": lambda lib, x: lib.func.vmap(lambda x: ({"a": x}, [x, x]), out_dims=({"a": 1}, 0))(x),
    "nested, in chunks": lambda lib, x: lib.func.vmap(
        lambda x: ({"a": x}, [x, x]), out_dims=({"a": 1}, 0), chunk_size=1
    )(x),
}


@pytest.mark.parametrize("name", OUT_DIMS)
def test_positions_of_results(name: str) -> None:
    want, got = (OUT_DIMS[name](lib, lib.arange(6.0).reshape(2, 3)) for lib in (torch, facade))
    oracle.assert_equal(got, want)


@pytest.mark.parametrize("dims", ["lol", (0, "a"), [0, 0], {"a": 0}, (0, 0, 0)])
def test_positions_that_do_not_fit_are_refused(dims: Any) -> None:
    want, got = both(lambda lib: lib.func.vmap(lambda x: (x, x), out_dims=dims)(lib.ones(2, 3)))
    assert got[0] is want[0] is ValueError
    assert got[1].split(" has structure")[0].replace("lambda", "") == want[1].split(" has structure")[0].replace(
        "lambda", ""
    )


# Own functions ------------------------------------------------------------------------------------------------------


def _own(lib: Any, **members: Any) -> Any:
    """Return a Function that multiplies by its second argument."""
    parts = {
        "forward": staticmethod(lambda x, y=2: x * y),
        "setup_context": staticmethod(lambda ctx, inputs, output: None),
        "backward": staticmethod(lambda ctx, g: (g, None)),
        **{k: v if isinstance(v, bool) else staticmethod(v) for k, v in members.items()},
    }
    return type("Own", (lib.autograd.Function,), parts)


def _nested_rule(info: Any, in_dims: Any, x: Any, y: Any) -> Any:
    assert in_dims == (0, {"a": 0, "b": None})
    return [x * y["b"], y["a"]], [0, 0]


RULES = {
    "dims of nested arguments": lambda lib, x: lib.func.vmap(
        lambda x: tuple(_own(lib, vmap=_nested_rule).apply(x, {"a": x, "b": 3}))
    )(x),
    "one dim for all": lambda lib, x: lib.func.vmap(_own(lib, vmap=lambda info, dims, x, y: ((x, x), 0)).apply)(x),
    "by name": lambda lib, x: lib.func.vmap(_own(lib, vmap=lambda info, dims, x, y: (x * y, 0)).apply)(x, y=3),
    "by name, not mapped": lambda lib, x: _own(lib).apply(x, y=3),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_of_own_functions(name: str) -> None:
    want, got = (RULES[name](lib, lib.arange(6.0).reshape(2, 3)) for lib in (torch, facade))
    oracle.assert_equal(got, want)


WRONG_RULES = {
    "both": lambda lib, x: _own(lib, generate_vmap_rule=True, vmap=lambda info, dims, x, y: (x, 0)),
    "none": lambda lib, x: _own(lib),
    "one return": lambda lib, x: _own(lib, vmap=lambda info, dims, x, y: x),
    "three returns": lambda lib, x: _own(lib, vmap=lambda info, dims, x, y: (x, 0, 0)),
    "too few dims": lambda lib, x: _own(lib, vmap=lambda info, dims, x, y: ((x, x), (0,))),
    "dims of another kind": lambda lib, x: _own(lib, vmap=lambda info, dims, x, y: ([x, x], (0, 0))),
}


@pytest.mark.parametrize("name", WRONG_RULES)
def test_wrong_rules_of_own_functions_are_refused(name: str) -> None:
    want, got = both(lambda lib: lib.func.vmap(WRONG_RULES[name](lib, None).apply)(lib.ones(2, 3)))
    assert got[0] is want[0] is RuntimeError
    for text in ("two returns", "it has both", "it does not have vmap support", "returned an incompatible"):
        assert (text in got[1]) == (text in want[1])


def test_own_functions_without_setup_context_are_refused() -> None:
    def call(lib: Any) -> Any:
        class Old(lib.autograd.Function):  # type: ignore[name-defined, misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

        return lib.func.vmap(Old.apply)(lib.ones(2, 3))

    want, got = both(call)
    assert got[0] is want[0] is RuntimeError
    assert got[1] == want[1]


@pytest.mark.parametrize("inside", [True, False])
def test_tensors_by_name_only_are_refused_in_vmap(inside: bool) -> None:
    def call(lib: Any) -> Any:
        x, own = lib.ones(2, 3), _own(lib, forward=lambda x, *, y: x + y, vmap=lambda info, dims, x, *, y: (x, 0))
        return lib.func.vmap(own.apply)(x, y=x) if inside else own.apply(x, y=x)

    want, got = both(call)
    assert got[0] is want[0] is (NotImplementedError if inside else TypeError)


@pytest.mark.parametrize("save", ["save_for_backward", "save_for_forward"])
@pytest.mark.parametrize("way", ["call", "grad", "jvp"])
def test_an_argument_returned_as_it_is_cannot_be_saved(save: str, way: str) -> None:
    for lib in LIBS:
        own = _own(
            lib,
            forward=lambda x: x,
            setup_context=lambda ctx, inputs, output: getattr(ctx, save)(inputs[0]),
            backward=lambda ctx, g: g,
            jvp=lambda ctx, t: t,
        )
        x = lib.ones(())
        calls = {
            "call": lambda x=x, own=own: own.apply(x),
            "grad": lambda x=x, own=own, lib=lib: lib.func.grad(own.apply)(x),
            "jvp": lambda x=x, own=own, lib=lib: lib.func.jvp(own.apply, (x,), (x,)),
        }
        with pytest.raises(RuntimeError, match="input that has been returned as-is as output is being saved"):
            calls[way]()


@pytest.mark.parametrize(("lib", "ad"), [(torch, torch_ad), (facade, facade_ad)])
def test_a_dirty_dual_argument_is_the_result(lib: Any, ad: Any) -> None:
    own = _own(
        lib,
        forward=lambda x: x.mul_(2),
        setup_context=lambda ctx, inputs, output: ctx.mark_dirty(inputs[0]),
        backward=lambda ctx, g: g * 2,
        jvp=lambda ctx, t: t.mul_(2),
    )
    with ad.dual_level():
        x = ad.make_dual(lib.ones(2), lib.full((2,), 4.0))
        y = own.apply(x)
        assert y is x
        assert ad.unpack_dual(y).tangent.tolist() == [8.0, 8.0]


@pytest.mark.parametrize(("lib", "ad"), [(torch, torch_ad), (facade, facade_ad)])
def test_jvp_and_backward_of_one_call_read_their_own_saved_tensors(lib: Any, ad: Any) -> None:
    read: dict[str, int] = {}

    class Own(lib.autograd.Function):  # type: ignore[name-defined, misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 3

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            read["jvp"] = len(ctx.saved_tensors)
            return t * 3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            read["backward"] = len(ctx.saved_tensors)
            return g * 3

    x = lib.ones((), requires_grad=True)
    with ad.dual_level():
        Own.apply(ad.make_dual(x, lib.ones(()))).backward()
    assert read == {"jvp": 0, "backward": 1}
    assert x.grad.item() == 3


# The rest -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", ["grad", "grad_and_value", "jacrev", "jacfwd", "hessian", "vmap"])
def test_transforms_keep_the_name(transform: str) -> None:
    def energy(x: Any) -> Any:
        return x

    assert getattr(facade.func, transform)(energy).__name__ == getattr(torch.func, transform)(energy).__name__


@pytest.mark.parametrize("primals", [(), ((),), ([],)])
def test_jvp_wants_tensors(primals: Any) -> None:
    want, got = both(lambda lib: lib.func.jvp(lambda *a: lib.ones(2), primals, primals))
    assert got == want


def test_an_auxiliary_result_of_jacfwd_holds_anything() -> None:
    jacobian, aux = facade.func.jacfwd(lambda x: (x**2, {"x": x * 2, "n": 3}), has_aux=True)(facade.ones(2))
    assert jacobian.tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert aux["x"].tolist() == [2.0, 2.0]
    assert aux["n"] == 3


@pytest.mark.parametrize("lib", LIBS)
def test_stacked_parameters_agree_in_requires_grad(lib: Any) -> None:
    models = [lib.nn.Linear(2, 2) for _ in range(2)]
    models[1].weight.requires_grad_(False)
    with pytest.raises(RuntimeError, match=r"Expected weight from each model to have the same \.requires_grad"):
        lib.func.stack_module_state(models)


SHOWN = {
    "mapped": lambda lib, note, x: lib.func.vmap(note)(x),
    "twice": lambda lib, note, x: lib.func.vmap(lib.func.vmap(note))(x),
    "sum": lambda lib, note, x: lib.func.vmap(lambda a: note(a.sum()))(x),
    "outside": lambda lib, note, x: lib.func.vmap(lambda a: (note(x), a)[1])(x),
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_text_of_mapped_tensors(name: str) -> None:
    texts: list[list[str]] = []
    for lib in (torch, facade):
        texts.append([])

        def note(t: Any) -> Any:
            texts[-1].append(repr(t))
            return t

        SHOWN[name](lib, note, lib.arange(6.0).reshape(2, 3))
    assert texts[1] == texts[0]


@pytest.mark.parametrize("recurse", [True, False])
def test_debug_unwrap(recurse: bool) -> None:
    found = []
    for lib in (torch, facade):
        seen: list[Any] = []

        def note(t: Any, lib: Any = lib, seen: Any = seen) -> Any:
            seen.append(lib.func.debug_unwrap(t, recurse=recurse).shape)
            return t

        lib.func.vmap(lambda a, note=note, lib=lib: lib.func.vmap(note)(a))(lib.ones(2, 3, 4))
        found.append([tuple(s) for s in seen])
    assert found[1] == found[0]
    x = facade.ones(2)
    assert facade.func.debug_unwrap(x) is x


def test_batch_norms_without_running_statistics() -> None:
    found = []
    for lib in (torch, facade):
        net = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.BatchNorm1d(2))
        assert lib.func.replace_all_batch_norm_modules_(net) is net
        x = lib.arange(12.0).reshape(3, 2, 2)
        found.append((list(net.state_dict()), net[1].track_running_stats, lib.func.vmap(net[1])(x).detach()))
    assert found[1][:2] == found[0][:2]
    oracle.assert_equal(found[1][2], found[0][2])


def test_binomial_draws_under_vmap() -> None:
    """A count of trials is read for the whole batch; certain trials give the count."""
    count, sure = facade.tensor([3.0, 5.0]), facade.ones(4)
    drawn = facade.func.vmap(lambda n: facade.binomial(n.expand(4), sure), randomness="different")(count)
    assert drawn.tolist() == [[3.0] * 4, [5.0] * 4]
    facade.manual_seed(1)
    fair = facade.func.vmap(lambda n: facade.binomial(n.expand(64), sure / 2), randomness="same")
    with pytest.raises(RuntimeError):
        fair(count)  # 64 of 4
    fair = facade.func.vmap(lambda n: facade.binomial(n.expand(64), facade.full((64,), 0.5)), randomness="same")
    same = fair(facade.tensor([20.0, 20.0]))
    assert same[0].tolist() == same[1].tolist()
    assert len(set(same[0].tolist())) > 3


@pytest.mark.parametrize(("lib", "ad"), [(torch, torch_ad), (facade, facade_ad)])
def test_dual_tensors_show_their_tangents(lib: Any, ad: Any) -> None:
    with ad.dual_level():
        x = ad.make_dual(lib.ones(2), lib.full((2,), 2.0))
        assert repr(x) == "tensor([1., 1.], tangent=tensor([2., 2.]))"
        assert repr(x.sum()) == "tensor(2., tangent=4.0)"
        with pytest.raises(RuntimeError, match="a forward gradient at the same level"):
            ad.make_dual(lib.ones(2), x)


def test_names_of_operators() -> None:
    def names(lib: Any) -> list[Any]:
        op, packet = lib.ops.aten.add.Tensor, lib.ops.aten.sin
        same = op.overloadpacket == lib.ops.aten.add and packet == lib.ops.aten.sin and packet != lib.ops.aten.cos
        return [op.__name__, op.__module__, op.__qualname__, packet.__name__, packet.__module__, same]

    want, got = both(names)
    assert got == want


def test_a_result_in_chunks_takes_its_position_from_a_tuple_of_one() -> None:
    """PyTorch fails with an internal error."""
    x = facade.arange(6.0).reshape(2, 3)
    assert facade.func.vmap(lambda x: x * 2, out_dims=(1,), chunk_size=1)(x).tolist() == (x.T * 2).tolist()


ACCEPTED = {
    "save_on_cpu": lambda f, x: _by_cpu(facade, facade.func.grad(f), x),
    "hooks": lambda f, x: _by_hooks(facade, facade.func.vmap(facade.func.grad(f)), x),
    "requires_grad_": lambda f, x: facade.func.grad(lambda x: f(x.requires_grad_()))(x),
    "functional.jacobian": lambda f, x: facade.func.vmap(lambda x: facade.autograd.functional.jacobian(f, x))(x),
    "functional.vjp": lambda f, x: facade.func.vmap(lambda x: facade.autograd.functional.vjp(f, x)[1])(x),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_pytorch_refuses_inside_of_transforms_gives_the_gradient(name: str) -> None:
    x = facade.arange(6.0).reshape(2, 3) / 5
    got = ACCEPTED[name](lambda x: x.sin().sum(), x)
    assert got.flatten().tolist() == pytest.approx((torch.arange(6.0) / 5).cos().tolist())
