"""Recurrent networks: Elman's, the long short-term memory, the gated recurrent unit, and one step of each.

One matrix product covers the inputs of all steps; the engine's ``_recurrence`` runs the loop over the steps.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn import init
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import Parameter
from torchlette.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

Tensor = _C.Tensor
State = tuple[Tensor, ...]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _step(
    mode: str, gates: Tensor, state: State, weight: Tensor, bias: Tensor | None, projection: Tensor | None = None
) -> State:
    """Return the state after one step.

    Args:
        mode: One of the keys of ``_GATES``.
        gates: The input's part of the gates, [batch, gates * hidden].
        state: The hidden state [batch, hidden], and the cell state of an LSTM.
        weight: Factor of the hidden state.
        bias: Added to that product.
        projection: Factor of an LSTM's new hidden state.
    """
    recurrent = F.linear(state[0], weight, bias)
    h, *cell = _C._cell(gates, recurrent, None if mode.startswith("RNN") else state[-1], mode.lower())
    return (h if projection is None else F.linear(h, projection), *cell)


def _cell(mode: str, name: str) -> Any:
    def cell(
        input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
    ) -> Any:
        """Return the state after one step from ``hx``: the hidden state [batch, hidden], for an LSTM also the cell
        state.

        Args:
            input: [batch, features].
            hx: The state before, [batch, hidden]; for an LSTM, a pair of them.
            w_ih: Weights of the input, [gates * hidden, features].
            w_hh: Weights of the state, [gates * hidden, hidden].
            b_ih: [gates * hidden]; None for none.
            b_hh: [gates * hidden]; None for none.
        """
        state = _step(mode, F.linear(input, w_ih, b_ih), tuple(hx) if mode == "LSTM" else (hx,), w_hh, b_hh)
        return state if mode == "LSTM" else state[0]

    cell.__name__ = cell.__qualname__ = name
    return cell


lstm_cell, gru_cell = _cell("LSTM", "lstm_cell"), _cell("GRU", "gru_cell")
rnn_tanh_cell, rnn_relu_cell = _cell("RNN_TANH", "rnn_tanh_cell"), _cell("RNN_RELU", "rnn_relu_cell")


def _steps(mode: str, gates: Tensor, state: State, weights: Sequence[Any], reverse: bool) -> tuple[Tensor, State]:
    """Run one direction over steps of equally many sequences.

    Args:
        mode: One of the keys of ``_GATES``.
        gates: The input's part of the gates, [steps, batch, gates * hidden].
        state: The first state.
        weights: Factor of the hidden state, its bias, factor of an LSTM's new hidden state; the last two may be None.
        reverse: Whether the last step comes first.

    Returns:
        The hidden states of all steps [steps, batch, size], and the last state.
    """
    weight, bias, projection = weights
    if projection is None and len({t.dtype for t in (gates, *state, weight)}) == 1:
        out, *cell = _C._recurrence(
            gates, weight, state[0], state[1] if mode == "LSTM" else None, bias, mode.lower(), reverse
        )
        return out, (out[0 if reverse else -1], *cell)
    outputs = []
    for step in reversed(gates.unbind(0)) if reverse else gates.unbind(0):
        state = _step(mode, step, state, *weights)
        outputs.append(state[0])
    return _C.stack(outputs[::-1] if reverse else outputs), state


def _run(
    mode: str, gates: Tensor, sizes: Sequence[int], state: State, weights: Sequence[Any], reverse: bool
) -> tuple[Tensor, State]:
    """Run one direction of a layer; return the hidden states of all packed elements [sum of sizes, size] and the last
    state.

    A step has a row for each sequence that is long enough, longest first. A sequence keeps its state after its last
    step; in the backward direction, before its first step.
    """
    runs = [(rows, len(list(steps))) for rows, steps in itertools.groupby(sizes)]
    parts = list(zip(runs, gates.split([rows * steps for rows, steps in runs]), strict=True))
    start, outputs = state, []
    ended: list[State] = []
    rows = sizes[-1] if reverse else sizes[0]
    state = tuple(s[:rows] for s in state)
    for (size, steps), part in reversed(parts) if reverse else parts:
        if size > rows:
            state = tuple(_C.cat([s, s0[rows:size]]) for s, s0 in zip(state, start, strict=True))
        elif size < rows:
            ended.append(tuple(s[size:] for s in state))
            state = tuple(s[:size] for s in state)
        rows = size
        out, state = _steps(mode, part.unflatten(0, (steps, size)), state, weights, reverse)
        outputs.append(out.flatten(0, 1))
    if ended:
        state = tuple(_C.cat([s, *(e[k] for e in reversed(ended))]) for k, s in enumerate(state))
    return (_C.cat(outputs[::-1] if reverse else outputs) if len(outputs) > 1 else outputs[0]), state


class RNNBase(Module):
    """Layers of one kind of recurrence; see :class:`RNN`, :class:`LSTM` and :class:`GRU`.

    Args:
        mode: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
        input_size: Features of the input.
        hidden_size: Features of the hidden state.
        num_layers: Layers, each on the results of the one below.
        bias: Whether there are biases.
        batch_first: Whether input and output are [batch, steps, features].
        dropout: The probability of a result between layers to become zero.
        bidirectional: Whether a second network reads the steps backwards.
        proj_size: Features of the projected hidden state of an LSTM; 0 for no projection.
        device: Where the parameters are; None: the default device.
        dtype: Of the parameters; None: the default dtype.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make and initialise the weights."""
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_options(dropout)
        factory = {"device": device, "dtype": dtype}
        size, out, directions = _GATES[mode] * hidden_size, proj_size or hidden_size, 2 if bidirectional else 1
        self._names: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(directions):
                suffix = f"l{layer}{'_reverse' if direction else ''}"
                shapes = {"weight_ih": (size, input_size if layer == 0 else out * directions), "weight_hh": (size, out)}
                if bias:
                    shapes |= {"bias_ih": (size,), "bias_hh": (size,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    self.register_parameter(f"{name}_{suffix}", Parameter(_C.empty(shape, **factory)))
                self._names.append([f"{name}_{suffix}" for name in shapes])
        self.reset_parameters()

    def _check_options(self, dropout: Any) -> None:
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={self.num_layers}",
                stacklevel=4,
            )
        for name in ("hidden_size", "num_layers"):
            value = getattr(self, name)
            if name == "hidden_size" and not isinstance(value, int):
                raise TypeError(f"hidden_size should be of type int, got: {type(value).__name__}")
            if value <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")

    def reset_parameters(self) -> None:
        """Draw all parameters from U(-1/sqrt(hidden_size), 1/sqrt(hidden_size))."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def flatten_parameters(self) -> None:
        """Do nothing: weights have no common memory block."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._names]

    def extra_repr(self) -> str:
        """Show the sizes and the options that differ from their defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        return text + "".join(
            f", {name}={getattr(self, name)}" for name, usual in defaults.items() if getattr(self, name) != usual
        )

    def _start(self, batch: int, like: Tensor, given: Any, batched: bool, order: Tensor | None) -> State:
        """Return the first state, each part [layers * directions, batch, size]."""
        layers = self.num_layers * (2 if self.bidirectional else 1)
        sizes = [self.proj_size or self.hidden_size] + ([self.hidden_size] if self.mode == "LSTM" else [])
        if given is None:
            return tuple(_C.zeros(layers, batch, size, dtype=like.dtype, device=like.device) for size in sizes)
        parts = given if isinstance(given, tuple) else (given,)
        if len(parts) != len(sizes):
            raise RuntimeError(
                f"{type(self).__name__}: expected {len(sizes)} parts of the hidden state, got {len(parts)}"
            )
        wanted_dim = 3 if batched else 2
        for part in parts:
            if part.dim() != wanted_dim:
                kind = "batched 3-D" if batched else "unbatched 2-D"
                raise RuntimeError(f"For {kind} input, hx should also be {wanted_dim}-D but got {part.dim()}-D tensor")
        parts = parts if batched else tuple(part.unsqueeze(1) for part in parts)
        for i, (part, size) in enumerate(zip(parts, sizes, strict=True)):
            want = (layers, batch, size)
            if tuple(part.shape) != want:
                raise RuntimeError(
                    f"Expected hidden{f'[{i}]' if len(sizes) > 1 else ''} size {want}, got {list(part.shape)}"
                )
        return parts if order is None else tuple(part.index_select(1, order) for part in parts)

    def _layers(self, data: Tensor, sizes: list[int], state: State) -> tuple[Tensor, State]:
        """Run all layers over packed elements [sum of sizes, features]."""
        directions = 2 if self.bidirectional else 1
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout > 0:
                data = F.dropout(data, self.dropout, self.training)
            results = []
            for direction in range(directions):
                k = layer * directions + direction
                named = {name.split("_l")[0]: getattr(self, name) for name in self._names[k]}
                gates = F.linear(data, named["weight_ih"], named.get("bias_ih"))
                weights = (named["weight_hh"], named.get("bias_hh"), named.get("weight_hr"))
                outputs, final = _run(self.mode, gates, sizes, tuple(s[k] for s in state), weights, direction == 1)
                results.append(outputs)
                last.append(final)
            data = results[0] if directions == 1 else _C.cat(results, -1)
        return data, tuple(_C.stack(list(parts)) for parts in zip(*last, strict=True))

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Return the hidden states of the last layer and the last state of all layers.

        Args:
            input: [steps, batch, features], [batch, steps, features] with ``batch_first``, [steps, features], or a
                packed sequence.
            hx: The first state [layers * directions, batch, size], for an LSTM a pair; zeros by default.
        """
        if isinstance(input, PackedSequence):
            data, sizes = input.data, input.batch_sizes.tolist()
            state = self._start(sizes[0], data, hx, True, input.sorted_indices)
            out, last = self._layers(data, sizes, state)
            if input.unsorted_indices is not None:
                last = tuple(part.index_select(1, input.unsorted_indices) for part in last)
            return PackedSequence(out, *input[1:]), last if self.mode == "LSTM" else last[0]
        if input.dim() not in (2, 3):
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D tensor instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )
        batched = input.dim() == 3
        x = input.unsqueeze(1) if not batched else input.transpose(0, 1) if self.batch_first else input
        steps, batch = x.shape[:2]
        if steps == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        state = self._start(batch, x, hx, batched, None)
        out, last = self._layers(x.flatten(0, 1), [batch] * steps, state)
        out = out.unflatten(0, (steps, batch))
        if not batched:
            out, last = out.squeeze(1), tuple(part.squeeze(1) for part in last)
        elif self.batch_first:
            out = out.transpose(0, 1)
        return out, last if self.mode == "LSTM" else last[0]


class RNN(RNNBase):
    """Layers ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)`` (J. Elman, 1990).

    Args:
        input_size: Size of an element of the input.
        hidden_size: Size of the state.
        num_layers: Number of layers; the results of each are the inputs of the next.
        nonlinearity: "tanh" or "relu".
        bias: Whether there are biases.
        batch_first: Whether inputs are [batch, steps, features].
        dropout: Probability of dropping an element between layers.
        bidirectional: Whether a second recurrence runs backwards.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Choose the activation."""
        if kwargs.get("proj_size"):
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        mode = "RNN_TANH" if nonlinearity == "tanh" else "RNN_RELU"
        super().__init__(mode, input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Layers of long short-term memory (S. Hochreiter and J. Schmidhuber, 1997); arguments as for :class:`RNN`.

    ``proj_size``, unless 0, is the size of the hidden state after one more product (H. Sak et al., 2014).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make the weights."""
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Layers of gated recurrent units (K. Cho et al., 2014); arguments as for :class:`RNN`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make the weights."""
        if kwargs.get("proj_size"):
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """One step of a recurrence.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the hidden state.
        bias: Whether there are biases.
        num_chunks: Gates of a cell.
        device: Where the parameters are; None: the default device.
        dtype: Of the parameters; None: the default dtype.
    """

    mode: str

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        """Make and initialise the weights."""
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        for name, shape in (
            ("weight_ih", (rows, input_size)),
            ("weight_hh", (rows, hidden_size)),
            ("bias_ih", (rows,)),
            ("bias_hh", (rows,)),
        ):
            present = bias or name.startswith("weight")
            self.register_parameter(name, Parameter(_C.empty(shape, device=device, dtype=dtype)) if present else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters from U(-1/sqrt(hidden_size), 1/sqrt(hidden_size))."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def extra_repr(self) -> str:
        """Show the sizes and the options that differ from their defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def _next(self, input: Tensor, given: Any) -> State:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.shape[-1]} expected {self.input_size}")
        parts = 2 if self.mode == "LSTM" else 1
        if given is None:
            zeros = _C.zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype, device=input.device)
            given = (zeros,) * parts
        state = given if isinstance(given, tuple) else (given,)
        for i, part in enumerate(state):
            if part.dim() not in (1, 2):
                raise ValueError(
                    f"{name}: Expected hx{f'[{i}]' if parts > 1 else ''} to be 1D or 2D, got {part.dim()}D instead"
                )
            if part.dim() == input.dim() == 2 and part.shape[0] != input.shape[0]:
                raise RuntimeError(
                    f"Input batch size {input.shape[0]} doesn't match hidden{i} batch size {part.shape[0]}"
                )
            if part.shape[-1] != self.hidden_size:
                raise RuntimeError(
                    f"hidden{i} has inconsistent hidden_size: got {part.shape[-1]}, expected {self.hidden_size}"
                )
        return _step(self.mode, F.linear(input, self.weight_ih, self.bias_ih), state, self.weight_hh, self.bias_hh)


class RNNCell(RNNCellBase):
    """One step of :class:`RNN`: input [batch, input_size], state [batch, hidden_size].

    Args:
        input_size: Features of the input.
        hidden_size: Features of the hidden state.
        bias: Whether there are biases.
        nonlinearity: "tanh" or "relu".
        device: Where the parameters are; None: the default device.
        dtype: Of the parameters; None: the default dtype.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Choose the activation."""
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    @property
    def mode(self) -> str:  # type: ignore[override]
        """The kind of step."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return "RNN_TANH" if self.nonlinearity == "tanh" else "RNN_RELU"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state."""
        return self._next(input, hx)[0]


class LSTMCell(RNNCellBase):
    """One step of :class:`LSTM`: input [batch, input_size], states [batch, hidden_size].

    Args:
        input_size: Features of the input.
        hidden_size: Features of the hidden state.
        bias: Whether there are biases.
        device: Where the parameters are; None: the default device.
        dtype: Of the parameters; None: the default dtype.
    """

    mode = "LSTM"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        """Make the weights."""
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return the next hidden and cell state."""
        h, c = self._next(input, hx)
        return h, c


class GRUCell(RNNCellBase):
    """One step of :class:`GRU`: input [batch, input_size], state [batch, hidden_size].

    Args:
        input_size: Features of the input.
        hidden_size: Features of the hidden state.
        bias: Whether there are biases.
        device: Where the parameters are; None: the default device.
        dtype: Of the parameters; None: the default dtype.
    """

    mode = "GRU"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        """Make the weights."""
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state."""
        return self._next(input, hx)[0]
