"""Tokens of a GPT-2 of 124M parameters on a GPU, random weights, one text, beside PyTorch's eager calls on CUDA.

``python benchmarks/generation_gpu.py [--record]`` prints a row for each dtype. The process reads each token, as a
program that prints it does. Both sides keep the keys and values of the text; PyTorch's side are the operators that a
GPT-2 without a library of models calls. Without CUDA there is no rival.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from generation import CONFIG, PROMPT, RUN, ours, runs, weights
from measure import Row, main, race, seconds, settle

HEADS, WIDTH = CONFIG["n_head"], CONFIG["n_embd"]


class Eager:
    """PyTorch's side: a text and the keys and values of its layers."""

    def __init__(self, tensors: dict[str, torch.Tensor], dtype: torch.dtype) -> None:
        """Move the weights to the device."""
        self.w = {name: t.to("cuda", dtype) for name, t in tensors.items()}
        self.token = torch.zeros(1, 1, dtype=torch.int64, device="cuda")
        self.cache: list[tuple[torch.Tensor, torch.Tensor]] = []

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """Return a layer norm."""
        return F.layer_norm(x, (WIDTH,), self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def affine(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """Return a product with a weight of GPT-2's checkpoints, which is [in, out], and a bias."""
        rows = torch.addmm(self.w[f"{name}.bias"], x.view(-1, x.shape[-1]), self.w[f"{name}.weight"])
        return rows.view(*x.shape[:-1], -1)

    def layer(self, x: torch.Tensor, i: int) -> torch.Tensor:
        """Return the result of layer ``i``, which adds to its keys and values."""
        parts = torch.split(self.affine(self.norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn"), WIDTH, 2)
        q, k, v = (t.view(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2) for t in parts)
        if i < len(self.cache):
            k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            self.cache[i] = k, v
        else:
            self.cache.append((k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1).transpose(1, 2).reshape(x.shape)
        x = x + self.affine(y, f"h.{i}.attn.c_proj")
        up = F.gelu(self.affine(self.norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc"), approximate="tanh")
        return x + self.affine(up, f"h.{i}.mlp.c_proj")

    @torch.no_grad()
    def feed(self, ids: torch.Tensor) -> None:
        """Add tokens to the text, and choose the next one."""
        past = self.cache[0][0].shape[2] if self.cache else 0
        x = self.w["wte.weight"][ids] + self.w["wpe.weight"][past : past + ids.shape[1]]
        for i in range(CONFIG["n_layer"]):
            x = self.layer(x, i)
        self.token = F.linear(self.norm(x[:, -1:], "ln_f"), self.w["wte.weight"]).argmax(-1)

    def begin(self) -> None:
        """Compute a prompt, and four tokens."""
        self.cache = []
        self.feed(torch.full((1, PROMPT), 7, device="cuda"))
        for _ in range(4):
            self.feed(self.token)
        self.token.item()

    def one(self) -> None:
        """Make one token and read it."""
        self.feed(self.token)
        self.token.item()


def compare(name: str, tensors: dict[str, torch.Tensor], dtype: str) -> Row:
    """Measure one token of a run. Our stream reads each."""
    side = ours(tensors, dtype, device="wgpu")

    def again() -> None:
        side.begin()
        side.run()

    settle(again)
    detail = {"weights MB": side.size >> 20}
    if not torch.cuda.is_available():
        took = min(seconds(side.run, side.begin) for _ in range(5))
        return Row(name, took / RUN, None, detail=detail)
    eager = Eager(tensors, getattr(torch, dtype))

    def before() -> None:
        eager.begin()
        side.begin()

    took, rival = race(side.run, runs(eager.one), 11, before=before)
    return Row(name, took / RUN, rival / RUN, detail=detail | {"tokens/s": RUN / took})


def rows() -> Iterable[Row]:
    """Measure one token in each dtype."""
    torch.backends.cuda.matmul.allow_tf32 = False  # WGSL cannot reach TF32: float32 against float32
    tensors = weights()
    for dtype in ("float32", "float16"):
        yield compare(f"token, {dtype}", tensors, dtype)


if __name__ == "__main__":
    main("generation_gpu", rows, "wgpu")
