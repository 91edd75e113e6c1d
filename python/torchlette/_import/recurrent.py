"""Layers of recurrent networks from a flat list of weights, as graphs in files have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn.modules.rnn import _steps

__all__ = ["recurrent_layers"]

Tensor = _C.Tensor


def recurrent_layers(
    mode: str,
    x: Tensor,
    start: Sequence[Tensor],
    weights: Sequence[Sequence[Tensor | None]],
    directions: int,
    dropout: float = 0.0,
) -> tuple[Tensor, list[Tensor]]:
    """Run layers of one or two directions, each on the results of the one below.

    Args:
        mode: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
        x: [steps, batch, features].
        start: The first state, and an LSTM's first cell state, each [layers * directions, batch, size].
        weights: For each layer and direction: the input's weights, the state's weights, their biases, and the weights
            of an LSTM's projection; the last three may be None.
        directions: 1 or 2.
        dropout: The probability of a result between layers to become zero.

    Returns:
        The results of the last layer [steps, batch, directions * size], and the last states as ``start``.
    """
    last: list[Sequence[Tensor]] = []
    for layer in range(len(weights) // directions):
        if layer and dropout > 0:
            x = F.dropout(x, dropout, True)
        results = []
        for k in range(layer * directions, (layer + 1) * directions):
            w_ih, w_hh, b_ih, b_hh, w_hr = weights[k]
            gates = F.linear(x, w_ih, b_ih)
            out, final = _steps(mode, gates, tuple(s[k] for s in start), (w_hh, b_hh, w_hr), k % directions == 1)
            results.append(out)
            last.append(final)
        x = results[0] if directions == 1 else _C.cat(results, -1)
    return x, [_C.stack(list(parts)) for parts in zip(*last, strict=True)]


def aten_layers(mode: str, states: int) -> Any:
    """Return ATen's function of a recurrence: ``aten::lstm.input``, ``aten::gru.input`` and the like.

    Args:
        mode: As in :func:`recurrent_layers`.
        states: 2 for an LSTM, else 1.
    """

    def call(
        x: Tensor,
        hx: Any,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, ...]:
        directions = 2 if bidirectional else 1
        each = len(params) // (num_layers * directions)
        rows = [list(params[i : i + each]) for i in range(0, len(params), each)]
        weights: list[list[Tensor | None]] = []
        for row in rows:
            biases: list[Tensor | None] = [row[2], row[3]] if has_biases else [None, None]
            rest = row[4:] if has_biases else row[2:]
            weights.append([row[0], row[1], *biases, rest[0] if rest else None])
        start = list(hx) if states == 2 else [hx]
        out, last = recurrent_layers(
            mode, x.transpose(0, 1) if batch_first else x, start, weights, directions, dropout if train else 0.0
        )
        return (out.transpose(0, 1) if batch_first else out, *last)

    return call
