"""The inner loops that a compiler makes of the CPU's kernels for arm64, counted; nothing runs.

Needs GCC for aarch64 and its binutils (Debian: gcc-aarch64-linux-gnu), or their native names on arm64. An inner loop is
one without another loop inside it. The table shows, for each function, the inner loop with the largest share of vector
arithmetic; with --all, every inner loop that multiplies and adds.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "kernels" / "cpu" / "kern_base.c"
FLAGS = ["-O3", "-std=gnu11", "-fPIC", "-fno-strict-aliasing"]
FUNCTIONS = (
    "gemm32 gemm64 gemmrows32 dot32 axpy32 bias32 attention_softmax attention_weights exp_f32_0 log_f32 tanh_f32 "
    "erf_f32 "
    "sin_f32 pow_f32_0 max_f32_r_0 max_f64_r_0 sum_f32_0 squares_f32 load_f16 store_f16"
).split()
ARITHMETIC = re.compile(r"f[a-z]+|[us]cvtf")
VECTOR = re.compile(r"\bv\d+\.\d")


@dataclass(frozen=True)
class Loop:
    """A loop's instructions: their names and operands."""

    code: tuple[tuple[str, str], ...]

    @property
    def fused(self) -> int:
        """Multiply-adds on vectors."""
        return sum(name in ("fmla", "fmls") for name, _ in self.code)

    @property
    def vectors(self) -> int:
        """Arithmetic on vectors of floats."""
        return sum(
            ARITHMETIC.fullmatch(name) is not None and VECTOR.search(operands) is not None
            for name, operands in self.code
        )

    @property
    def spills(self) -> int:
        """Uses of the stack."""
        return sum("[sp" in operands for _, operands in self.code)


def functions(text: str) -> dict[str, list[tuple[int, str, str]]]:
    """Return the address, name and operands of each instruction, by function."""
    found: dict[str, list[tuple[int, str, str]]] = {}
    code: list[tuple[int, str, str]] = []
    for line in text.splitlines():
        if head := re.match(r"[0-9a-f]+ <(\w+)>:", line):
            code = found.setdefault(head[1], [])
        elif one := re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)", line):
            code.append((int(one[1], 16), one[2], one[3]))
    return found


def loops(code: list[tuple[int, str, str]]) -> list[Loop]:
    """Return the loops of a function that hold no other."""
    place = {address: i for i, (address, _, _) in enumerate(code)}
    spans = []
    for i, (_, name, operands) in enumerate(code):
        target = re.search(r"\b([0-9a-f]+) <", operands)
        if target and name != "bl" and re.match(r"b\b|c?bn?z|tb", name) and place.get(int(target[1], 16), i + 1) <= i:
            spans.append((place[int(target[1], 16)], i))
    inner = [(s, e) for s, e in spans if not any(s <= s2 and e2 <= e and (s, e) != (s2, e2) for s2, e2 in spans)]
    return [Loop(tuple((name, operands) for _, name, operands in code[s : e + 1])) for s, e in inner]


def main() -> None:
    """Compile, disassemble, count."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--prefix",
        default="aarch64-linux-gnu-" if shutil.which("aarch64-linux-gnu-gcc") else "",
        help="of gcc and objdump",
    )
    options.add_argument("--all", action="store_true", help="every loop with multiply-adds")
    options.add_argument("names", nargs="*", default=FUNCTIONS, help="functions of kernels/cpu/vector/kern_base.c")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory) / "kernels.o"
        subprocess.run([f"{chosen.prefix}gcc", *FLAGS, "-c", str(SOURCE), "-o", str(made)], check=True)
        text = subprocess.run(
            [f"{chosen.prefix}objdump", "-d", "--no-show-raw-insn", str(made)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    found = functions(text)
    print(f"{'function':20} {'instructions':>12} {'vector float':>12} {'multiply-adds':>13} {'share':>6} {'stack':>5}")
    for name in chosen.names:
        every = loops(found[name])
        shown = (
            [loop for loop in every if loop.fused]
            if chosen.all
            else [max(every, key=lambda loop: loop.vectors / len(loop.code))]
        )
        for loop in sorted(shown, key=lambda loop: -loop.fused / len(loop.code)):
            print(
                f"{name:20} {len(loop.code):12} {loop.vectors:12} {loop.fused:13} {loop.fused / len(loop.code):6.0%} "
                f"{loop.spills:5}"
            )


if __name__ == "__main__":
    main()
