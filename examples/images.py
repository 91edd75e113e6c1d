"""Fashion-MNIST for the examples: 70,000 grey pictures of 28 by 28, ten kinds of clothing (MIT licence).

Any folder with its four IDX files works, such as that of Debian's package ``dataset-fashion-mnist``.
"""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

PLACES = (os.environ.get("FASHION_MNIST", ""), "/usr/share/datasets/fashion-mnist", "fashion-mnist")


def find() -> Path:
    """Return the folder of the IDX files."""
    for place in PLACES:
        if place and next(Path(place).glob("train-images-idx3-ubyte*"), None):
            return Path(place)
    raise SystemExit(
        "Fashion-MNIST was not found: install Debian's dataset-fashion-mnist, or name its folder in FASHION_MNIST"
    )


def read(name: str, count: int) -> tuple[tuple[int, ...], bytes]:
    """Return the shape and the bytes of the first ``count`` entries of an IDX file."""
    path = next(find().glob(name + "*"))
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        rank = struct.unpack(">I", file.read(4))[0] & 0xFF
        shape = struct.unpack(f">{rank}I", file.read(4 * rank))
        count = min(count, shape[0])
        size = 1
        for n in shape[1:]:
            size *= n
        return (count, *shape[1:]), file.read(count * size)


def load(torch, split: str, count: int):
    """Return pictures, float32 [count, 1, 28, 28] in [0, 1], and their int64 kinds [count]."""
    shape, pixels = read(f"{split}-images-idx3-ubyte", count)
    _, kinds = read(f"{split}-labels-idx1-ubyte", count)
    x = torch.tensor(memoryview(pixels), dtype=torch.float32) / 255
    return x.reshape(shape[0], 1, *shape[1:]), torch.tensor(list(kinds))
