"""Print a text's tokens, and the kernels of its last token with what they also do, once a GPU has compiled its plans.

``python appended_rows.py NAME DEVICE`` runs a tiny model; test_step_kernels.py starts it.
"""

from __future__ import annotations

import json
import sys
import time

import tiny

import torchlette as tl
from torchlette import generation
from torchlette.profiler import profile

TOKENS = 10


def main(name: str, device: str) -> None:
    """Print them as JSON."""
    model = tiny.ours(tiny.reference(name), device=device)
    tokens, kernels = [], []
    text = generation.stream(model, [[5, 9, 4, 7, 3]], max_new_tokens=TOKENS)
    for _ in range(TOKENS):
        with profile() as p:
            tokens.append(next(text).tolist())
        last = [[e.kernel, [x.name for x in e.prologue], [x.name for x in e.members]] for e in p.events()]
        kernels = last or kernels
        while len(tokens) > 4 and tl.stats()["plans_compiling"]:
            time.sleep(0.005)
    print(json.dumps([tokens, kernels]))


if __name__ == "__main__":
    main(*sys.argv[1:])
