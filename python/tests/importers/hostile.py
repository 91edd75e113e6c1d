"""Mutated files: what loading them may raise, and a loop that mutates."""

from __future__ import annotations

import io
import json
import pickle
import random
import zipfile
from collections.abc import Callable, Iterator

from torchlette.errors import TorchletteError

#: The classes that may be raised themselves; of TorchletteError also derived ones.
PLAIN = (ValueError, RuntimeError, OSError, NotImplementedError, pickle.UnpicklingError)
NUMBERS = (0, -1, 1, 1 << 31, (1 << 63) - 1, -(1 << 63), 1 << 70, 0.5, 1e308)


def refused_well(load: Callable[[], object]) -> str | None:
    """Load a file; return what is wrong with the error that it raises, None if nothing is."""
    try:
        load()
    except TorchletteError as exc:
        return None if str(exc) else "an error without a text"
    except BaseException as exc:
        if type(exc) in PLAIN and str(exc):
            return None
        return f"{type(exc).__module__}.{type(exc).__name__}: {exc}"
    return None


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return other bytes: some changed, a part cut, doubled or moved, or the end missing."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(out) + 1)
        n = rng.choice((1, 1, 2, 8, 64))
        kind = rng.randrange(6)
        if kind == 0:
            out[at : at + n] = rng.randbytes(n)
        elif kind == 1:
            del out[at : at + n]
        elif kind == 2:
            out[at:at] = out[at : at + n]
        elif kind == 3:
            del out[at:]
        elif kind == 4:
            out[at : at + n] = b"\xff" * n
        elif at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        if not out:
            out = bytearray(b"\0")
    return bytes(out)


def _sites(value: object, path: tuple = ()) -> Iterator[tuple]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from _sites(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield (*path, i)
            yield from _sites(item, (*path, i))


def mutated_json(value: object, rng: random.Random) -> object:
    """Return a nest with entries of other types, numbers or names, or without them."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 2, 3))):
        sites = list(_sites(value))
        if not sites:
            return value
        path, other = rng.choice(sites), rng.choice(sites)
        owner = value
        for part in path[:-1]:
            owner = owner[part]
        source = value
        for part in other:
            source = source[part]
        kind = rng.randrange(6)
        if kind == 0:
            owner.pop(path[-1])
        elif kind == 1:
            owner[path[-1]] = rng.choice(NUMBERS)
        elif kind == 2:
            owner[path[-1]] = rng.choice(
                (None, [], {}, "", "x", True, "../../etc/passwd", "torch.ops.aten.load.default")
            )
        elif kind == 3 and path != other[: len(path)]:
            owner[path[-1]] = json.loads(json.dumps(source))
        elif kind == 4 and isinstance(owner[path[-1]], int):
            owner[path[-1]] = rng.randrange(-3, 12)
        elif isinstance(owner[path[-1]], list):
            owner[path[-1]] = owner[path[-1]] * 2
    return value


def mutated_archive(data: bytes, rng: random.Random) -> bytes:
    """Return an archive with an entry changed, missing, renamed or doubled."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        names = source.namelist()
        victims = [name for name in names if name.endswith(".json")]
        victim = rng.choice(victims if rng.random() < 0.8 else names)
        for name in names:
            text = source.read(name)
            if name == victim:
                if name.endswith(".json") and rng.random() < 0.9:
                    text = json.dumps(mutated_json(json.loads(text), rng)).encode()
                elif rng.random() < 0.2:
                    continue
                else:
                    text = mutated_bytes(text or b"\0", rng)
            target.writestr(name, text, rng.choice((0, 0, 0, 0, 8)) if name == victim else 0)
    return out.getvalue()
