"""Sizes of exported programs: names, affine functions, Dim.AUTO, and numbers among the results."""

import pytest

import torchlette as tl
import torchlette.nn.functional as F
from torchlette import nn
from torchlette.export import Dim, dims, export, load, save

N = Dim("n", min=2, max=10)


def both(x, y):
    return x + y[: x.shape[0]]


def halves(x):
    return F.avg_pool2d(x, 2).repeat_interleave(2, 2).repeat_interleave(2, 3) + x


@pytest.mark.parametrize(
    ("fn", "example", "dynamic", "good", "bad", "text"),
    [
        (both, [(5, 3), (6, 3)], ({0: N}, {0: N + 1}), [(10, 3), (11, 3)], [(4, 3), (6, 3)], r"want n \+ 1 = 5"),
        (both, [(5, 3), (13, 3)], ({0: N}, {0: 3 * N - 2}), [(2, 3), (4, 3)], [(2, 3), (5, 3)], r"want 3\*n - 2 = 4"),
        (halves, [(1, 1, 8, 6)], ({2: 2 * N, 3: 2 * Dim("w", min=1)},), [(1, 1, 20, 2)], [(1, 1, 9, 6)], r"2\*n = 8"),
        (halves, [(1, 1, 8, 8)], ({2: 2 * N},), [(1, 1, 4, 8)], [(1, 1, 22, 8)], r"want 2\*n where n is from 2 to 10"),
        (both, [(5, 3), (5, 3)], ({0: Dim.AUTO}, {0: Dim.AUTO}), [(7, 3), (7, 3)], [(7, 3), (8, 3)], "is 7 by input"),
        (tl.add, [(5, 3), (5, 3)], ({0: N}, [Dim.AUTO, Dim.AUTO]), [(7, 3), (7, 3)], [(7, 3), (8, 3)], "is 7 by input"),
        (lambda x: x.sum(), [(4, 3)], ({0: Dim.DYNAMIC(max=6), 1: Dim.STATIC},), [(6, 3)], [(7, 3)], "from 0 to 6"),
        (lambda x: x @ tl.ones(3), [(4, 3)], ([Dim.AUTO, Dim.AUTO],), [(9, 3)], [(9, 4)], "want 3"),
        (lambda x: x.relu() if x.shape[0] < 5 else x, [(4,)], ({0: Dim.AUTO},), [(4,)], [(9,)], "want 4"),
    ],
)  # fmt: skip
def test_sizes_are_bound_and_checked(fn, example, dynamic, good, bad, text, tmp_path):
    program = export(fn, tuple(tl.randn(s, device="cpu") for s in example), dynamic_shapes=dynamic)
    save(program, tmp_path / "p")
    session = tl.InferenceSession(tmp_path / "p")
    for module in (program.module(), load(tmp_path / "p").module()):
        for shapes in (example, good):
            given = [tl.randn(s, device="cpu") for s in shapes]
            assert tl.equal(module(*given), fn(*given))
            feeds = {a.name: x.numpy() for a, x in zip(session.get_inputs(), given, strict=True)}
            assert tl.allclose(tl.from_numpy(session.run(None, feeds)[0]), fn(*given))
        with pytest.raises(ValueError, match=text):
            module(*[tl.randn(s, device="cpu") for s in bad])


def test_wrong_sizes_are_refused_by_what_is_wrong():
    x = tl.ones(5, 5, device="cpu")
    for dynamic, error, text in (
        (({0: 2 * N},), ValueError, r"dim 0 is 5, which is no value of 2\*n"),
        (({0: 5 * N},), ValueError, "dim 0 is 5, so n is 1, out of the range"),
        (({0: N, 1: N + 1},), ValueError, "but n is 5 elsewhere"),
        (({0: N, 1: Dim("m")},), RuntimeError, "n and m are equal: give both one Dim"),
    ):
        with pytest.raises(error, match=text):
            export(lambda x: x + x.T, (x,), dynamic_shapes=dynamic)
    for wrong in (lambda: N * 0, lambda: N * -1, lambda: N * 1.5, lambda: N + 0.5):
        with pytest.raises(NotImplementedError):
            wrong()
    with pytest.raises(TypeError, match="no range"):
        Dim.STATIC(min=1)
    assert [repr(d) for d in dims("a", "b", max=3)] == ["Dim('a', min=0, max=3)", "Dim('b', min=0, max=3)"]


class Gathered(nn.Module):
    """Takes any number of tensors, by place and by name."""

    def forward(self, *xs, **kw):
        return sum(xs) + sum(kw.values())


def test_arguments_of_any_number_have_dims():
    x = tl.ones(2, 3, device="cpu")
    dynamic = {"xs": ({0: N}, {0: N}), "kw": {"k": {0: N}}}
    module = export(Gathered(), (x, x), {"k": x}, dynamic_shapes=dynamic).module()
    y = tl.ones(7, 3, device="cpu")
    assert module(y, y, k=y).sum().item() == 63
    with pytest.raises(ValueError, match="tuple of 2 items"):
        export(Gathered(), (x, x), {"k": x}, dynamic_shapes={"xs": ({0: N},)})


def test_numbers_among_results_follow_the_sizes(tmp_path):
    def measured(x):
        n, m = x.shape
        return {"x": x * 2, "sizes": (n, n * m, m // 2), "fixed": 3}

    m = Dim("m", min=2)
    program = export(measured, (tl.ones(2, 6, device="cpu"),), dynamic_shapes=({0: 2 * Dim("half"), 1: m},))
    save(program, tmp_path / "p")
    for module in (program.module(), load(tmp_path / "p").module()):
        for shape in ((2, 6), (10, 9)):
            x = tl.ones(shape, device="cpu")
            found = module(x)
            assert (found["sizes"], found["fixed"]) == (measured(x)["sizes"], 3)
    for wrong in (lambda x: (x, x.shape[0] / 2), lambda x: [x] * x.shape[0], lambda x: (x, x.shape[0] > 3)):
        with pytest.raises(RuntimeError, match="results depend on the sizes"):
            export(wrong, (tl.ones(3, device="cpu"),), dynamic_shapes=({0: Dim("n")},))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "bilinear, corners"])
@pytest.mark.parametrize("to", [2, 0.5, 1.5, "sizes"])
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_pictures_of_any_size_are_resampled(mode, to, device):
    mode, _, corners = mode.partition(", ")

    def resized(x, like):
        size = like.shape[2:] if to == "sizes" else None
        factor = None if to == "sizes" else to
        return F.interpolate(x, size, factor, mode, bool(corners) if "bi" in mode else None)

    h, w = dims("h", "w", min=4, max=40)
    of = {2: Dim("a", min=4), 3: Dim("b", min=4)}
    x, like = tl.randn(1, 2, 8, 12, device=device), tl.randn(1, 1, 9, 6, device=device)
    program = export(resized, (x, like), dynamic_shapes=({2: h, 3: w}, of if to == "sizes" else None))
    for shape, other in (((8, 12), (9, 6)), ((31, 6), (9, 33)), ((5, 40), (20, 17))):
        x, like = tl.randn(1, 2, *shape, device=device), tl.randn(1, 1, *other, device=device)
        if to != "sizes":
            like = tl.randn(1, 1, 9, 6, device=device)
        assert tl.allclose(program.module()(x, like), resized(x, like), atol=1e-5)
