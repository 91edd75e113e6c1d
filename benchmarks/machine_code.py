"""The machine code of a GPU's kernels, counted: the loop of each listing that has the most multiply-adds.

NVIDIA's driver keeps what it compiles in a cache. ``__GL_SHADER_DISK_CACHE=1 __GL_SHADER_DISK_CACHE_PATH=DIR`` before a
program, here ``cmd/gemmtiles``, names its place; the public tools nvcachetools (``nvcachedec``, ``nvucdump``) take the
programs out of it, in the order in which they were compiled, and CUDA's ``nvdisasm --binary SM90`` lists the largest
section of each. Then ``python benchmarks/machine_code.py LISTING ...``; listings of CUDA's own libraries, by
``cuobjdump -sass``, can stand beside them.

A line has the registers of a thread; the instructions of the loop; the multiply-adds among them and their share; the
multiply-adds whose three operands are in one of the two banks of registers, which cost a cycle more each (an operand
that the instruction before keeps for reuse is not read); and the other instructions by name.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path

INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,5})\*/\s+(.*?);")
REGISTER = re.compile(r"\bR(\d+)")
BRANCH = re.compile(r"\bBRA\b.*?(0x[0-9a-f]+)")
BANKS = 2


def loops(text: str) -> list[list[str]]:
    """Return the instructions of each loop: of what lies between a branch back and its target."""
    code = [(int(m[1], 16), m[2].strip()) for m in INSTRUCTION.finditer(text)]
    spans = [(int(m[1], 16), at) for at, line in code if (m := BRANCH.search(line)) and int(m[1], 16) < at]
    return [[re.sub(r"^@!?U?P\w+ ", "", line) for at, line in code if begin <= at <= end] for begin, end in spans]


def multiplies(line: str) -> bool:
    """Whether an instruction multiplies and adds floats."""
    return line.startswith("FFMA")


def conflicts(loop: list[str]) -> int:
    """Count the multiply-adds that read three registers of one bank."""
    kept: dict[int, int] = {}  # by place in the instruction before
    found = 0
    for line in loop:
        operands = line.partition(" ")[2].split(",")[1:]
        registers = {i: int(m[1]) for i, x in enumerate(operands) if (m := REGISTER.search(x))}
        read = [r for i, r in registers.items() if kept.get(i) != r]
        kept = {i: r for i, r in registers.items() if "reuse" in operands[i]}
        found += multiplies(line) and len(read) == 3 and len({r % BANKS for r in read}) == 1
    return found


def main() -> None:
    """Print a line for each listing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("listing", type=Path, nargs="+")
    for path in parser.parse_args().listing:
        text = path.read_text()
        found = loops(text)
        if not found:
            print(f"{path}: no loop")
            continue
        loop = max(found, key=lambda lines: sum(map(multiplies, lines)))
        fused = sum(map(multiplies, loop))
        rest = Counter(line.split()[0].split(".")[0] for line in loop if not multiplies(line))
        registers = 1 + max((int(r) for r in REGISTER.findall(text)), default=-1)
        print(
            f"{path}: {registers} registers, {len(loop)} instructions, {fused} multiply-adds "
            f"({fused / len(loop):.1%}), {conflicts(loop)} conflicts; "
            + ", ".join(f"{name} {n}" for name, n in rest.most_common())
        )


if __name__ == "__main__":
    main()
