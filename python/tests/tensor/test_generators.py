"""A generator's draws depend on its own state alone, also after an error."""

from __future__ import annotations

from pathlib import Path

import pytest

import torchlette


def test_generators() -> None:
    """A generator's draws depend on its seed and its own draws alone, and leave the default ones as they were."""
    g = torchlette.Generator().manual_seed(5)
    first, second = torchlette.rand(3, generator=g), torchlette.randn(3, generator=g)
    torchlette.manual_seed(1)
    plain = torchlette.rand(2)
    torchlette.manual_seed(1)
    g.manual_seed(5)
    assert torchlette.equal(torchlette.rand(3, generator=g), first)
    assert torchlette.equal(torchlette.rand(2), plain)
    state = g.get_state()
    assert torchlette.equal(torchlette.empty(3).normal_(generator=g), second)
    g.set_state(state)
    assert torchlette.equal(torchlette.randn(3, generator=g), second)
    torchlette.manual_seed(5)
    assert torchlette.equal(torchlette.rand(3), first)
    torchlette.default_generator.manual_seed(5)
    assert torchlette.equal(torchlette.rand(3, generator=torchlette.default_generator), first)


@pytest.mark.parametrize("which", ["default", "own"])
def test_states_are_tensors_of_uint8(which: str, tmp_path: Path) -> None:
    """Checkpoints keep them, moved and loaded like other tensors."""
    g = torchlette.default_generator if which == "default" else torchlette.Generator().manual_seed(2)
    state = g.get_state()
    assert state.dtype is torchlette.uint8 and state.dim() == 1
    drawn, picked = torchlette.rand(3, generator=g).tolist(), torchlette.randperm(5, generator=g).tolist()
    torchlette.save({"rng": state}, tmp_path / "file")
    g.set_state(torchlette.load(tmp_path / "file")["rng"].cpu())
    assert torchlette.rand(3, generator=g).tolist() == drawn
    assert torchlette.randperm(5, generator=g).tolist() == picked
    with pytest.raises(TypeError, match=r"expected a torch.ByteTensor, but got a tensor of torch.float32"):
        g.set_state(torchlette.ones(2))
    with pytest.raises(TypeError, match="expected a torch.ByteTensor, but got tuple"):
        g.set_state((1, 2))
    with pytest.raises(RuntimeError, match="get_state"):
        g.set_state(torchlette.zeros(4, dtype=torchlette.uint8))


def test_generator_after_an_error() -> None:
    """A call that raises gives the engine its own numbers back."""
    torchlette.manual_seed(3)
    want = torchlette.rand(4)
    torchlette.manual_seed(3)
    with pytest.raises(NotImplementedError):
        torchlette.rand(2, dtype=torchlette.int64, generator=torchlette.Generator())
    assert torchlette.equal(torchlette.rand(4), want)
    with pytest.raises(TypeError):
        torchlette.rand(2, generator=1)
