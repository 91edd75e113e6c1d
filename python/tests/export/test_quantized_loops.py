"""Programs with loops: quantization renumbers the values of their bodies, and keeps the constants that these read."""

from __future__ import annotations

import numpy as np
import pytest

import torchlette as tl
from torchlette import lax, nn


class Scanned(nn.Module):
    """Products before and after a loop, whose body reads a constant and the transpose of a weight."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(32, 32, device="cpu"), nn.Linear(32, 32, device="cpu")
        self.shift = nn.Parameter(tl.randn(32, device="cpu"))

    def forward(self, x):
        turned = self.first.weight.t()

        def body(carry, y):
            carry = tl.tanh(carry + y) * self.shift + turned[0]
            return carry, carry * 2

        x = self.first(x @ turned)
        carry, rest = lax.scan(body, x, tl.stack([x, x * 2, x * 3]))
        return self.last(carry) + rest.sum(0)


@pytest.mark.parametrize("calibrated", [False, True])
def test_a_quantized_program_keeps_its_loops(calibrated):
    tl.manual_seed(0)
    net = Scanned()
    x = tl.randn(4, 32, device="cpu")
    program, _ = tl.quantize(tl.export.export(net, (x,)), "int8", [x] if calibrated else None)
    want = net(x).detach().numpy()
    error = np.abs(program.module()(x).detach().numpy() - want).max()
    assert error < 0.05 * np.abs(want).max()
