"""Lists of sequences are padded, packed and unpacked as in PyTorch; lengths stay on the CPU."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from module_oracle import ours, theirs  # noqa: E402

import torchlette as tl  # noqa: E402
import torchlette.nn  # noqa: E402


def x(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def test_lists_of_sequences():
    parts = [x(n, 2, seed=n) for n in (4, 2, 3)]
    mine = [ours(p) for p in parts]
    theirs_rnn, mine_rnn = torch.nn.utils.rnn, tl.nn.utils.rnn
    for options in ({}, {"batch_first": True, "padding_value": 7.0}, {"padding_side": "left"}):
        torch.testing.assert_close(
            theirs(mine_rnn.pad_sequence(mine, **options)), theirs_rnn.pad_sequence(parts, **options).detach()
        )
    packed = mine_rnn.pack_sequence(mine, enforce_sorted=False)
    for a, b in zip(mine_rnn.unpack_sequence(packed), parts, strict=True):
        torch.testing.assert_close(theirs(a), b.detach())
    padded = mine_rnn.pad_sequence(mine)
    for a, b in zip(mine_rnn.unpad_sequence(padded, tl.tensor([4, 2, 3])), parts, strict=True):
        torch.testing.assert_close(theirs(a), b.detach())


@pytest.mark.parametrize(
    "bad",
    [
        lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(4, 2, 1), [1, 3]),
        lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(4, 2, 1), [3, 0]),
        lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(4, 2, 1), [3]),
        lambda t: t.nn.utils.rnn.pad_packed_sequence(
            t.nn.utils.rnn.pack_padded_sequence(t.ones(4, 1, 1), [3]), total_length=2
        ),
    ],
)
def test_errors(bad):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as want:
            bad(torch)
        with pytest.raises(want.type):
            bad(tl)


def test_packed_sequences_under_another_default_device() -> None:
    """Batch sizes and lengths are on the CPU whatever the default device is; gradcheck keeps to its inputs' device."""
    with tl.device("wgpu"):
        rows = torchlette.nn.utils.rnn.pack_sequence([tl.ones(3, 2), tl.ones(1, 2)])
        padded, lengths = torchlette.nn.utils.rnn.pad_packed_sequence(rows)
        assert (rows.batch_sizes.device.type, lengths.device.type, padded.device.type) == ("cpu", "cpu", "wgpu")
        assert lengths.tolist() == [3, 1]
        x = tl.ones(2, dtype=tl.float64, device="cpu", requires_grad=True)
        assert tl.autograd.gradcheck(tl.sin, (x,))
        assert tl.autograd.gradgradcheck(tl.sin, (x,))


@pytest.mark.parametrize("name", "double float half long int short char byte cpu".split())
def test_casts_of_a_packed_sequence(name):
    found = []
    for lib in (torch, torchlette.torch):
        rnn = lib.nn.utils.rnn
        packed = getattr(rnn.pack_padded_sequence(lib.ones(3, 2) * 2, [3, 2]), name)()
        assert isinstance(packed, rnn.PackedSequence)
        found.append((str(packed.data.dtype), packed.data.tolist(), packed.batch_sizes.tolist()))
    assert found[0] == found[1]


def test_padding_what_is_no_sequence_is_an_error():
    for lib in (torch, torchlette.torch):
        with pytest.raises(RuntimeError, match="Expected iterable"):
            lib.nn.utils.rnn.pad_sequence(5)


def test_a_lazy_parameter_becomes_a_vector():
    for lib in (torch, torchlette.torch):
        p = lib.nn.UninitializedParameter()
        p.materialize(10)
        assert list(p.shape) == [10]
