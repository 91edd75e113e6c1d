"""State of exported programs: buffers that a module writes with a gradient, or replaces by new tensors."""

import numpy as np
import pytest

import torchlette as tl
import torchlette.nn.functional as F
from torchlette import nn
from torchlette.export import TrainingSession, export, export_training, load, save


class Cache(nn.Module):
    """Attention with a cache of keys and values."""

    def __init__(self, how):
        super().__init__()
        self.how, self.qkv = how, nn.Linear(4, 12)
        self.register_buffer("k", tl.zeros(1, 8, 4))
        self.register_buffer("v", tl.zeros(1, 8, 4))

    def store(self, name, at, new):
        old = getattr(self, name)
        if self.how == "index_copy":
            old.index_copy_(1, at, new)
        elif self.how == "setitem":
            old[:, at] = new
        else:
            here = tl.arange(8, device=at.device) == at
            setattr(self, name, tl.where(here[None, :, None], new, old))

    def forward(self, x, at):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.store("k", at, k)
        self.store("v", at, v)
        return F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=tl.arange(8, device=at.device) <= at)


@pytest.mark.parametrize("how", ["index_copy", "setitem", "replaced"])
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_a_cache_is_state_also_where_gradients_are_recorded(how, device, tmp_path):
    with tl.device(device):
        m = Cache(how).eval()
        xs = [(tl.randn(1, 1, 4), tl.tensor([i])) for i in range(4)]
    program = export(m, xs[0])
    assert set(program.graph_signature.buffers_to_mutate) == {"k", "v"}
    assert not m.k.requires_grad and m.k.is_leaf and m.k.abs().sum().item() == 0, "the module is as it was"
    save(program, tmp_path / "p")
    module, session = load(tmp_path / "p").module().to(device), tl.InferenceSession(tmp_path / "p", device=device)
    for x, at in xs:
        want = m(x, at).detach().cpu().numpy()
        np.testing.assert_allclose(module(x, at).detach().cpu().numpy(), want, atol=1e-5)
        np.testing.assert_allclose(
            session.run(None, {"x": x.cpu().numpy(), "at": at.cpu().numpy()})[0], want, atol=1e-5
        )
    again = export(m, xs[0])  # now the buffers have a history
    assert not any(b.requires_grad for b in again.buffers())
    again.module()(*xs[0])


def test_a_write_with_a_gradient_differentiates():
    with tl.device("cpu"):
        m, x, at = Cache("setitem"), tl.randn(1, 1, 4), tl.tensor([0])
    module = export(m, (x, at)).module()
    for side in (module, m):
        side(x, at).square().sum().backward()
    assert tl.allclose(module.qkv.weight.grad, m.qkv.weight.grad)


class Average(nn.Module):
    """A layer that keeps an average of its outputs."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("mean", tl.zeros(3))
        self.register_buffer("count", tl.zeros((), dtype=tl.int64))

    def forward(self, x):
        y = self.linear(x)
        if self.training:
            self.count = self.count + 1
            self.mean = self.mean * 0.9 + y.detach().mean(0) * 0.1
        return y * (1 + self.mean)


def test_training_keeps_buffers_that_are_replaced():
    with tl.device("cpu"):
        m, x = Average(), tl.randn(5, 4)
    optimizer = tl.optim.SGD(m.parameters(), lr=0.1)
    mean, count = m.mean, m.count
    session = TrainingSession(export_training(m, lambda m, x: m(x).square().mean(), optimizer, (x,)))
    assert m.mean is mean and m.count is count and count.item() == 0
    for _ in range(3):
        optimizer.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        optimizer.step()
        assert session.step(x).item() == loss.item()
    state = session.state_dict()
    for name, value in m.state_dict().items():
        assert state[name].tolist() == value.tolist(), name


def test_spectral_norm_trains():
    with tl.device("cpu"):
        m, x = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)), tl.randn(5, 4)
    optimizer = tl.optim.SGD(m.parameters(), lr=0.1)
    session = TrainingSession(export_training(m, lambda m, x: m(x).square().mean(), optimizer, (x,)))
    for _ in range(3):
        optimizer.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        optimizer.step()
        assert session.step(x).item() == loss.item()


class Kept(nn.Module):
    """Stores what is no buffer, or a buffer of another shape."""

    def __init__(self, how):
        super().__init__()
        self.how, self.cache = how, None
        self.held = tl.zeros(2, device="cpu")
        self.register_buffer("b", tl.zeros(2, device="cpu"))

    def forward(self, x):
        if self.how == "attribute":
            self.cache = x * 2
        elif self.how == "tensor":
            self.held = self.held + x
        elif self.how == "unread":
            self.held = x + 1
        else:
            self.b = tl.cat([self.b, x])
        return x if self.how != "tensor" else self.held


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("attribute", "'cache': register it as a buffer"), ("tensor", "'held': register it"), ("shape", "buffer 'b'"),
    ],
)  # fmt: skip
def test_state_that_a_program_cannot_hold_is_refused(how, text):
    m = Kept(how)
    b, held = m.b, m.held
    with pytest.raises(RuntimeError, match=text):
        export(m, (tl.ones(2, device="cpu"),))
    assert m.cache is None and m.b is b and m.held is held


def test_an_attribute_that_each_call_makes_anew_is_no_state():
    m, x = Kept("unread"), tl.ones(2, device="cpu")
    held = m.held
    assert export(m, (x,)).module()(x).tolist() == [1, 1]
    assert m.held is held


def put(x, values):
    y = x.clone()
    y[x > 0] = values
    return y


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_values_under_a_mask_are_as_many_as_its_true_elements(device):
    x = tl.tensor([1.0, -1, 2, -2, 3], device=device)
    for n, good in ((3, True), (1, True), (2, False), (4, False), (0, False)):
        values = tl.arange(10.0, 10.0 + n, device=device)
        module = export(put, (x, values)).module()
        if good:
            assert module(x, values).tolist() == put(x, values).tolist()
        else:
            compiled = tl.compile(put)
            for call in (put, module, compiled, compiled):
                with pytest.raises(RuntimeError, match="shape mismatch") as found:
                    call(x, values).tolist()
                assert not isinstance(found.value, IndexError)
            session = tl.InferenceSession(export(put, (x, values)), device=device)
            with pytest.raises(RuntimeError, match="shape mismatch"):
                session(x, values)
    none = tl.zeros(0, device=device)
    assert export(put, (-x.abs(), none)).module()(-x.abs(), none).tolist() == (-x.abs()).tolist()
    with pytest.raises(RuntimeError, match="the mask has 5 elements"):
        export(put, (x, tl.zeros(6, device=device)))
