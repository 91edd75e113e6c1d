"""Training steps of ResNet-18, a U-Net and a diffusion transformer, and convolutions of such layers, against PyTorch:
``python benchmarks/vision.py cpu|gpu``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import devices

#: Batch, channels in, height, channels out, kernel, stride, groups of a convolution.
LAYERS = (
    (32, 64, 56, 64, 3, 1, 1),
    (32, 128, 56, 128, 3, 2, 1),
    (32, 256, 14, 256, 3, 1, 1),
    (32, 512, 7, 512, 3, 1, 1),
    (32, 256, 56, 64, 1, 1, 1),
    (32, 64, 56, 64, 3, 1, 64),
)
#: Calls of a convolution, and steps of a net, before the result is read.
CALLS, STEPS = 5, 3
#: Pictures a step, by device and net.
BATCH = {"cpu": {"resnet18": 4, "unet": 4, "dit": 2}, "gpu": {"resnet18": 32, "unet": 16, "dit": 16}}


def resnet18(lib: Any) -> Any:
    """Return ResNet-18 (He et al., 2015) for pictures of 224x224."""
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self, c: int, o: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(c, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
            self.conv2, self.norm2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
            self.relu = nn.ReLU(inplace=True)
            self.around = (
                nn.Sequential(nn.Conv2d(c, o, 1, stride, bias=False), nn.BatchNorm2d(o))
                if stride != 1 or c != o
                else nn.Identity()
            )

        def forward(self, x: Any) -> Any:
            y = self.relu(self.norm1(self.conv1(x)))
            return self.relu(self.norm2(self.conv2(y)) + self.around(x))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    c = 64
    for o, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(Block(c, o, stride))
        c = o
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def unet(lib: Any) -> Any:
    """Return a U-Net (Ronneberger et al., 2015) with residual blocks and group norms, as denoisers have."""
    nn, f = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self, c: int, o: int) -> None:
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(8, c), nn.Conv2d(c, o, 3, padding=1)
            self.norm2, self.conv2 = nn.GroupNorm(8, o), nn.Conv2d(o, o, 3, padding=1)
            self.around = nn.Conv2d(c, o, 1) if c != o else nn.Identity()

        def forward(self, x: Any) -> Any:
            return self.around(x) + self.conv2(f.silu(self.norm2(self.conv1(f.silu(self.norm1(x))))))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 64, 3, padding=1), nn.Conv2d(64, 3, 3, padding=1)
            self.down1, self.down2 = nn.Conv2d(64, 64, 3, 2, 1), nn.Conv2d(128, 128, 3, 2, 1)
            self.up2, self.up1 = nn.ConvTranspose2d(256, 128, 4, 2, 1), nn.ConvTranspose2d(128, 64, 4, 2, 1)
            self.block1, self.block2, self.middle = Block(64, 64), Block(64, 128), Block(128, 256)
            self.back2, self.back1 = Block(256, 128), Block(128, 64)

        def forward(self, x: Any) -> Any:
            a = self.block1(self.first(x))
            b = self.block2(self.down1(a))
            c = self.back2(lib.cat((self.up2(self.middle(self.down2(b))), b), 1))
            return self.last(self.back1(lib.cat((self.up1(c), a), 1)))

    return Net()


def dit(lib: Any) -> Any:
    """Return a diffusion transformer, DiT-S/2 (Peebles and Xie, 2023), for latents of 4x32x32: 12 blocks of width 384,
    whose norms are shifted, scaled and gated by the time of the noise.
    """
    nn, f = lib.nn, lib.nn.functional
    width, heads, side = 384, 6, 16

    def modulated(x: Any, shift: Any, scale: Any) -> Any:
        return f.layer_norm(x, (width,)) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.modulation = nn.Linear(width, 6 * width)

        def forward(self, x: Any, c: Any) -> Any:
            n, t, _ = x.shape
            shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(f.silu(c)).chunk(6, 1)
            qkv = self.qkv(modulated(x, shift1, scale1)).view(n, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            y = f.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]).transpose(1, 2).reshape(n, t, width)
            x = x + gate1.unsqueeze(1) * self.out(y)
            y = self.down(f.gelu(self.up(modulated(x, shift2, scale2)), approximate="tanh"))
            return x + gate2.unsqueeze(1) * y

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(4, width, 2, 2)
            self.places = nn.Parameter(lib.randn(1, side * side, width) * 0.02)
            self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
            self.blocks = nn.ModuleList(Block() for _ in range(12))
            self.modulation, self.last = nn.Linear(width, 2 * width), nn.Linear(width, 16)

        def forward(self, x: Any) -> Any:
            n = x.shape[0]
            angles = lib.arange(n, device=x.device).float().unsqueeze(1) * lib.exp(
                lib.arange(128, device=x.device).float() * -0.072
            )
            c = self.time(lib.cat((angles.cos(), angles.sin()), 1))
            h = self.patches(x).flatten(2).transpose(1, 2) + self.places
            for block in self.blocks:
                h = block(h, c)
            shift, scale = self.modulation(f.silu(c)).chunk(2, 1)
            h = self.last(modulated(h, shift, scale)).view(n, side, side, 2, 2, 4)
            return h.permute(0, 5, 1, 3, 2, 4).reshape(n, 4, 2 * side, 2 * side)

    return Net()


#: Models and their pictures, by name.
NETS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "resnet18": (resnet18, (3, 224, 224)),
    "unet": (unet, (3, 64, 64)),
    "dit": (dit, (4, 32, 32)),
}


def steps(name: str, device: str, net: str, batch: int) -> Callable[[], float]:
    """Return a function that makes training steps and reads the last loss: SGD with momentum on labels, or AdamW on the
    pictures.
    """
    from steps import library

    lib = library(name)
    lib.manual_seed(0)
    make, picture = NETS[net]
    model = make(lib).to(device)
    x = lib.randn(batch, *picture).to(device)
    labels = lib.randint(0, 1000, (batch,)).to(device)
    optimizer = (
        lib.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        if net == "resnet18"
        else lib.optim.AdamW(model.parameters(), lr=1e-4)
    )

    def run() -> float:
        for _ in range(STEPS):
            optimizer.zero_grad()
            y = model(x)
            loss = lib.nn.functional.cross_entropy(y, labels) if net == "resnet18" else lib.nn.functional.mse_loss(y, x)
            loss.backward()
            optimizer.step()
        return loss.item()

    return run


def layer(name: str, device: str, shape: tuple[int, ...]) -> Callable[[], float]:
    """Return a function that convolves, goes back to input and weight, and reads a sum of the results of all calls."""
    from steps import library

    lib = library(name)
    n, c, h, o, k, stride, groups = shape
    x, w = (lib.randn(*s).to(device).requires_grad_(True) for s in ((n, c, h, h), (o, c // groups, k, k)))
    ones = lib.ones(n, o, -(-h // stride), -(-h // stride)).to(device)

    def run() -> float:
        total = 0.0
        for _ in range(CALLS):
            y = lib.nn.functional.conv2d(x, w, padding=k // 2, stride=stride, groups=groups)
            for result in (y, *lib.autograd.grad(y, (x, w), ones)):
                total = total + result.sum()
        return total.item()

    return run


def rows(device: str = "cpu") -> Iterator[Any]:
    """Measure every case on ``cpu`` or ``gpu``."""
    import torch
    from measure import Row, race, settle

    if device == "gpu":
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        for shape in LAYERS:
            n, c, h, o, k, stride, groups = shape
            a, b = race(layer("torchlette", "wgpu", shape), layer("torch", "cuda", shape))
            yield Row(f"conv2d {o}x{c // groups}x{k}x{k}/{stride} on {n}x{c}x{h}x{h} fwd+bwd", a / CALLS, b / CALLS)
    ours, theirs = ("wgpu", "cuda") if device == "gpu" else ("cpu", "cpu")
    for net, batch in BATCH[device].items():
        run = steps("torchlette", ours, net, batch)
        settle(run)
        a, b = race(run, steps("torch", theirs, net, batch))
        yield Row(f"step of {net}, batch {batch}", a / STEPS, b / STEPS)


if __name__ == "__main__":
    devices.main("vision", __doc__, rows)
