"""The parts of a transformer, built from the tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import Parameter
from torchlette.quantized import QuantizedLinear

if TYPE_CHECKING:
    from torchlette.generation.cache import Cache, Step
    from torchlette.generation.specs import Spec

__all__ = ["ACTIVATIONS", "Block", "Embedding", "Linear", "Norm", "Source", "place", "rotate"]

Tensor = _C.Tensor
#: Gives the tensor of a name and shape; raises where there is none.
Source = Callable[[str, tuple[int, ...]], Tensor]


def _tanh_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def _quick_gelu(x: Tensor) -> Tensor:
    return x * _C.sigmoid(1.702 * x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_fast": _tanh_gelu,
    "gelu_new": _tanh_gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "quick_gelu": _quick_gelu,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
}


def place(root: Module, path: str, part: Module) -> None:
    """Register a module below another, so that its parameters have the checkpoint's names.

    Args:
        root: The module above.
        path: Names with dots between them; modules on the way are made.
        part: What is registered.
    """
    *folders, name = path.split(".")
    for folder in folders:
        if folder not in root._modules:
            root.add_module(folder, Module())
        root = root._modules[folder]  # type: ignore[assignment]
    root.add_module(name, part)


def _parameter(t: Tensor) -> Parameter:
    return t if isinstance(t, Parameter) else Parameter(t, requires_grad=False)


class Linear(Module):
    """A product with a weight [out, in], or [in, out] where ``transposed``.

    Args:
        source: Where the tensors are from.
        path: The path of the weight in the checkpoint, without ".weight".
        sizes: in and out.
        bias: Whether there is a bias [out].
        transposed: Whether the weight is stored [in, out].
    """

    def __init__(self, source: Source, path: str, sizes: tuple[int, int], bias: bool, transposed: bool = False) -> None:
        """Take the tensors."""
        super().__init__()
        shape = sizes if transposed else sizes[::-1]
        self.weight: Parameter | None = _parameter(source(f"{path}.weight", shape))
        self.bias = _parameter(source(f"{path}.bias", (sizes[1],))) if bias else None
        self.transposed = transposed
        self.quantized: QuantizedLinear | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return the product of [..., in], as [..., out]."""
        if self.quantized is not None:
            return self.quantized.forward(x)
        weight = cast("Tensor", self.weight)
        return F.linear(x, weight.t() if self.transposed else weight, self.bias)

    def quantize(self, scheme: str) -> QuantizedLinear:
        """Replace the weight by a quantized one, and return its layer.

        Args:
            scheme: A name of :data:`torchlette.quantized.SCHEMES`.
        """
        assert self.weight is not None
        self.quantized = QuantizedLinear(self.weight.t() if self.transposed else self.weight, self.bias, scheme)
        self.weight = self.bias = None
        return self.quantized


class Embedding(Module):
    """Rows of a table by index.

    Args:
        source: Where the table is from.
        path: Its path in the checkpoint, without ".weight".
        rows: Its length.
        width: Elements of a row.
    """

    def __init__(self, source: Source, path: str, rows: int, width: int) -> None:
        """Take the table [rows, width]."""
        super().__init__()
        self.weight = _parameter(source(f"{path}.weight", (rows, width)))

    def forward(self, ids: Tensor) -> Tensor:
        """Return [..., width] for int64 indices [...]."""
        return F.embedding(ids, self.weight)


class Norm(Module):
    """Layer norm, or division by the root mean square; computed in float32.

    Args:
        source: Where weight and bias are from.
        path: Their path in the checkpoint.
        width: Elements of the last dimension.
        kind: "layer", "rms" or "rms_plus_one", as in :attr:`Spec.norm`.
        eps: Added to the mean square.
    """

    def __init__(self, source: Source, path: str, width: int, kind: str, eps: float) -> None:
        """Take weight and, for layer norm, bias."""
        super().__init__()
        self.kind, self.eps, self.width = kind, eps, width
        self.weight = _parameter(source(f"{path}.weight", (width,)))
        self.bias = _parameter(source(f"{path}.bias", (width,))) if kind == "layer" else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the norm over the last dimension."""
        if self.kind == "layer":
            return F.layer_norm(x, (self.width,), self.weight, self.bias, self.eps)
        if self.kind == "rms":
            return F.rms_norm(x, (self.width,), self.weight, self.eps)
        return F.rms_norm(x.float(), (self.width,), self.weight.float() + 1.0, self.eps).to(x.dtype)


def rotate(x: Tensor, angles: tuple[Tensor, Tensor] | None) -> Tensor:
    """Return [batch, heads, steps, head] with its first elements rotated by angles.

    Args:
        x: Queries or keys.
        angles: Cosines and sines [batch, 1, steps, n]: elements i and n + i turn together, those from 2 n on stay.
    """
    if angles is None:
        return x
    cos, sin = angles
    n = cos.shape[-1]
    a, b = x[..., :n], x[..., n : 2 * n]
    parts = [a * cos - b * sin, b * cos + a * sin]
    return _C.cat(parts if 2 * n == x.shape[-1] else [*parts, x[..., 2 * n :]], -1)


class Block(Module):
    """One layer: attention, attention to an encoder where there is one, and the feed-forward part.

    Its parameters are named as in the checkpoint; ``parts`` has its modules by role. A role that
    :attr:`Spec.names` does not have is left out of the computation.

    Args:
        source: Where the tensors are from.
        spec: The stack that the layer is in.
        index: The layer's number.
    """

    def __init__(self, source: Source, spec: Spec, index: int) -> None:
        """Take the tensors of layer ``index``."""
        super().__init__()
        self.spec, self.index = spec, index
        self.parts: dict[str, Module] = {}
        self._activation = ACTIVATIONS[spec.activation]
        hidden, inner, head = spec.hidden_size, spec.intermediate_size, spec.head_dim
        queries, keys = spec.heads * head, spec.kv_heads * head
        products = {
            **{"q": (hidden, queries), "k": (hidden, keys), "v": (hidden, keys), "qkv": (hidden, queries + 2 * keys)},
            "gate_up": (hidden, 2 * inner),
            **{"out": (queries, hidden), "gate": (hidden, inner), "up": (hidden, inner), "down": (inner, hidden)},
            **{"cross_q": (hidden, queries), "cross_k": (hidden, keys), "cross_v": (hidden, keys)},
            "cross_out": (queries, hidden),
        }
        base = spec.names.layer.format(index)
        for role, path in spec.names.block.items():
            full = f"{base}.{path}"
            if role in products:
                part: Module = Linear(source, full, products[role], role in spec.biases, spec.transposed)
            else:
                width = hidden
                if role in ("q_norm", "k_norm"):
                    width = head if not spec.wide_qk_norm else queries if role == "q_norm" else keys
                part = Norm(source, full, width, spec.norm, spec.eps)
            self.parts[role] = part
            place(self, path, part)

    def _apply_part(self, role: str, x: Tensor) -> Tensor:
        part = self.parts.get(role)
        result: Tensor = x if part is None else part(x)
        return result

    def _split(self, x: Tensor, heads: int) -> Tensor:
        """Return [batch, heads, steps, head] of [batch, steps, heads * head]."""
        return x.reshape(*x.shape[:2], heads, self.spec.head_dim).transpose(1, 2)

    def _queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        spec = self.spec
        if "qkv" in self.parts:
            keys = spec.kv_heads * spec.head_dim
            q, k, v = self.parts["qkv"](x).split([spec.heads * spec.head_dim, keys, keys], -1)
        else:
            q, k, v = (self.parts[role](x) for role in "qkv")
        if spec.wide_qk_norm:
            q, k = self._apply_part("q_norm", q), self._apply_part("k_norm", k)
        q, k, v = self._split(q, spec.heads), self._split(k, spec.kv_heads), self._split(v, spec.kv_heads)
        if spec.wide_qk_norm:
            return q, k, v
        return self._apply_part("q_norm", q), self._apply_part("k_norm", k), v

    def _attention(self, x: Tensor, step: Step, cache: Cache | None) -> Tensor:
        q, k, v = self._queries_keys_values(x)
        angles = step.angles(self.index)
        q, k = rotate(q, angles), rotate(k, angles)
        if cache is not None:
            k, v = cache.update(self.index, k, v, step)
        out = attend(q, k, v, step.mask(self.index), self.spec, self.index)
        result: Tensor = self.parts["out"](out)
        return result

    def cross(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of an encoder's output [batch, sources, hidden]."""
        heads = self.spec.kv_heads
        return self._split(self.parts["cross_k"](states), heads), self._split(self.parts["cross_v"](states), heads)

    def _cross_attention(self, x: Tensor, keys_values: tuple[Tensor, Tensor]) -> Tensor:
        q = self._split(self.parts["cross_q"](self.parts["cross_norm"](x)), self.spec.heads)
        result: Tensor = self.parts["cross_out"](attend(q, *keys_values, None, self.spec, self.index))
        return result

    def _feed_forward(self, x: Tensor) -> Tensor:
        gate: Tensor | None = None
        if "gate_up" in self.parts:
            gate, up = self.parts["gate_up"](x).chunk(2, -1)
        else:
            up = self.parts["up"](x)
            gate = self.parts["gate"](x) if "gate" in self.parts else None
        inner = self._activation(up) if gate is None else self._activation(gate) * up
        result: Tensor = self.parts["down"](inner)
        return result

    def forward(self, x: Tensor, step: Step, cache: Cache | None = None) -> Tensor:
        """Return the layer's output [batch, steps, hidden].

        Args:
            x: [batch, steps, hidden].
            step: Positions, masks, and what an encoder gave.
            cache: Keys and values of the tokens before; those of ``x`` are added.
        """
        normed = self._apply_part("norm1", x)
        attention = self._apply_part("after_attention", self._attention(normed, step, cache))
        if self.spec.parallel:
            return x + attention + self._feed_forward(normed)
        x = self._apply_part("post1", x + attention)
        if step.cross is not None:
            x = x + self._cross_attention(x, step.cross[self.index])
        inner = self._feed_forward(self._apply_part("norm2", x))
        return self._apply_part("post2", x + self._apply_part("after_mlp", inner))


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Any, spec: Spec, layer: int) -> Tensor:
    """Return attention as [batch, steps, heads * head].

    Args:
        q: [batch, heads, steps, head].
        k: [batch, kv heads, keys, head].
        v: Like ``k``.
        mask: Bool [batch or 1, 1, steps, keys], True where a key is seen; "causal" for the first steps of a sequence;
            None for all keys.
        spec: Scale and softcap.
        layer: The layer's index.
    """
    batch, heads, steps, _ = q.shape
    groups = spec.heads // spec.kv_heads
    if groups > 1 and steps == 1 and not isinstance(mask, str):
        # The queries of one token that share a key are rows of one product.
        q = q.reshape(batch, spec.kv_heads, groups, spec.head_dim)
        groups = 1
    if spec.softcap is None:
        causal = isinstance(mask, str)
        out = F.scaled_dot_product_attention(
            *(q, k, v, None if causal else mask), is_causal=causal, scale=spec.scales[layer], enable_gqa=groups > 1
        )
    else:
        if groups > 1:
            k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        scores = spec.softcap * _C.tanh(q @ k.transpose(-2, -1) * (spec.scales[layer] / spec.softcap))
        if isinstance(mask, str):
            mask = _C.ones(steps, k.shape[2], dtype=_C.bool, device=q.device).tril()
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        out = _C.softmax(scores, -1, dtype=_C.float32).to(q.dtype) @ v
    if out.shape[1] != heads:
        out = out.reshape(batch, heads, steps, spec.head_dim)
    return out.transpose(1, 2).reshape(batch, steps, heads * spec.head_dim)
