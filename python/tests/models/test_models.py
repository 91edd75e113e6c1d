"""Models of many kinds, one source for both libraries: outputs, every gradient, and the state after three steps are
PyTorch's.
"""

from __future__ import annotations

import language
import numpy as np
import oracle
import pytest
import science
import torch
import vision

import torchlette.torch as facade

MODELS = {
    "gpt2": (language.gpt2, language.gpt2_batch),
    "bert": (language.bert, language.bert_batch),
    "experts": (language.experts, language.experts_batch),
    "lstm": (language.lstm_classifier, language.lstm_batch),
    "resnet": (vision.resnet, vision.labelled_images),
    "unet_ddpm": (vision.unet_ddpm, vision.ddpm_batch),
    "vae": (vision.vae, vision.vae_batch),
    "vit": (vision.vit, vision.labelled_images),
    "gcn": (science.gcn, science.gcn_batch),
    "dqn": (science.dqn, science.dqn_batch),
    "pinn": (science.pinn, science.pinn_batch),
}
STEPS = 3
#: float32 over some twenty layers, whose sums the libraries take in different orders; gradients of norms cancel.
RTOL, ATOL = 2e-4, 2e-5


def close(ours, theirs, what):
    oracle.assert_equal(ours, theirs, what, rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("name", MODELS)
def test_trains_as_in_pytorch(name, device):
    make, draw = MODELS[name]
    torch.manual_seed(0)
    theirs, their_loss, their_optimizer = make(torch)
    ours, our_loss, our_optimizer = make(facade)
    ours.load_state_dict({k: oracle.ours(v.numpy()) for k, v in theirs.state_dict().items()})
    ours.to(device)
    assert repr(ours) == repr(theirs)
    optimizers = their_optimizer(theirs), our_optimizer(ours)
    for step in range(STEPS):
        batch = draw(np.random.default_rng(step))
        want, want_output = their_loss(theirs, *[torch.tensor(x) for x in batch])
        got, got_output = our_loss(ours, *[oracle.ours(x, device) for x in batch])
        close(got, want, f"loss {step}")
        close(got_output, want_output, f"output {step}")
        for optimizer, loss in zip(optimizers, (want, got), strict=True):
            optimizer.zero_grad()
            loss.backward()
        ours_by_name = dict(ours.named_parameters())
        for path, p in theirs.named_parameters():
            mine = ours_by_name[path].grad
            assert (mine is None) == (p.grad is None), f"gradient {step} of {path}"
            if p.grad is not None:
                close(mine, p.grad, f"gradient {step} of {path}")
        for lib, model, optimizer in zip((torch, facade), (theirs, ours), optimizers, strict=True):
            lib.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    state = ours.state_dict()
    assert list(state) == list(theirs.state_dict())
    for path, value in theirs.state_dict().items():
        # An optimizer divides by the size of gradients: where they are almost zero, their rounding errors move the
        # parameter.
        oracle.assert_equal(state[path], value, f"{path} at the end", rtol=1e-3, atol=5e-4)
    for model in (theirs, ours):
        model.eval()
    batch = draw(np.random.default_rng(STEPS))
    want, _ = their_loss(theirs, *[torch.tensor(x) for x in batch])
    got, _ = our_loss(ours, *[oracle.ours(x, device) for x in batch])
    oracle.assert_equal(got, want, "loss in evaluation", rtol=1e-3, atol=1e-3)
