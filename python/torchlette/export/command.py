"""The commands ``python -m torchlette run`` and ``python -m torchlette show``."""

from __future__ import annotations

import argparse
import collections
import math
import os
from typing import TYPE_CHECKING, Any

import torchlette
from torchlette import _C
from torchlette.export.files import open_model
from torchlette.export.fitting import value_of
from torchlette.export.program import ExportedProgram, run

if TYPE_CHECKING:
    import numpy as np

__all__ = ["add_commands"]

#: A dim without a bound below is shown at this size.
_SHOWN_SIZE = 1


def add_commands(commands: Any) -> None:
    """Add the commands to a parser's subcommands."""
    one = commands.add_parser("run", help="run a saved program on arrays of NumPy")
    one.add_argument("model", help="a file of torchlette.export.save, of torch.export.save, or of ONNX")
    one.add_argument("--input", action="append", default=[], metavar="NAME=FILE.npy", help="an input; once for each")
    one.add_argument(
        "--output",
        metavar="FILE",
        help="a .npy for the only output, a .npz for all by name, or a folder for a .npy of each",
    )
    one.add_argument("--device", default="cpu", choices=["cpu", "wgpu"], help="where to run (default: %(default)s)")
    one.set_defaults(command=_run)
    two = commands.add_parser("show", help="describe a saved program")
    two.add_argument("file", help="a file of torchlette.export.save, of torch.export.save, or of ONNX")
    two.add_argument("--html", metavar="PAGE.html", help="run the program on zeros and write the page of its plans")
    two.set_defaults(command=_show)


def _arrays(entries: list[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Read the files of NAME=FILE.npy."""
    import numpy as np

    found = {}
    for entry in entries:
        name, _, path = entry.partition("=")
        if not path or name in found:
            raise ValueError(f"--input is wrong: got {entry!r}, want NAME=FILE.npy, once for each input")
        found[name] = np.load(path, allow_pickle=False)
    return found


def _run(options: argparse.Namespace) -> None:
    import numpy as np

    program = open_model(options.model)
    name, f = _inference(program)
    arrays, wanted = _arrays(options.input), [v["name"] for v in f["inputs"]]
    if set(arrays) != set(wanted):
        missing, unknown = [n for n in wanted if n not in arrays], [n for n in arrays if n not in wanted]
        raise ValueError(f"--input: missing: {missing}, unknown: {unknown}; the program's inputs are {wanted}")
    names = [v["name"] for v in f["outputs"]]
    _check_output(options.output, names)
    inputs = [torchlette.from_numpy(np.ascontiguousarray(arrays[n])).to(options.device) for n in wanted]
    with torchlette.no_grad():
        results = run(program, name, inputs, [t.to(options.device) for t in program.constants])
    outputs = {n: t.detach().cpu().numpy() for n, t in zip(names, results, strict=True)}
    if options.output is None:
        for n, array in outputs.items():
            print(f"{n}: {array.dtype} {list(array.shape)}\n{array}")
    elif options.output.endswith(".npz"):
        np.savez(options.output, **outputs)
    elif options.output.endswith(".npy"):
        np.save(options.output, outputs[names[0]])
    else:
        os.makedirs(options.output, exist_ok=True)
        for n, array in outputs.items():
            np.save(os.path.join(options.output, f"{n}.npy"), array)


def _check_output(output: str | None, names: list[str]) -> None:
    """Check that the outputs can be written to a path: a .npy, a .npz, or a folder."""
    if output is None or output.endswith(".npz"):
        return
    if output.endswith(".npy"):
        if len(names) != 1:
            raise ValueError(f"--output: a .npy takes one output, the program has {names}: name a .npz or a folder")
    elif os.path.splitext(output.rstrip("/"))[1] and not os.path.isdir(output):
        raise ValueError(f"--output is wrong: got {output!r}, want a .npy or .npz file, or a folder")
    elif odd := [n for n in names if not n or os.path.basename(n) != n or n.startswith(".") or "\\" in n]:
        raise ValueError(f"--output: no files can have the names of the outputs {odd}: name a .npz")


def _inference(program: ExportedProgram) -> tuple[str, dict[str, Any]]:
    """Return the function that infers: of a training program, the loss in evaluation mode."""
    functions = program.spec["functions"]
    name = "forward" if "forward" in functions else "evaluate"
    return name, functions[name]


def _bytes(n: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            break
        n /= 1024
    return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"


def _value(v: dict[str, Any]) -> str:
    return f"{v['dtype']}[{', '.join(str(n).removeprefix('=') for n in v['shape'])}]"


def _size(v: dict[str, Any], sizes: dict[str, int]) -> int:
    shape = [value_of(n.removeprefix("="), sizes) if isinstance(n, str) else n for n in v["shape"]]
    width: int = getattr(_C, v["dtype"]).itemsize
    return int(math.prod(shape)) * width


def _peak(f: dict[str, Any], constants: int, sizes: dict[str, int]) -> int:
    """Return the largest sum of the results that are needed at one time."""
    first = len(f["inputs"]) + constants
    last: dict[int, int] = {}
    made: list[tuple[int, dict[str, Any]]] = []
    for i, step in enumerate(f["steps"]):
        for arg in step["args"].values():
            for ref in arg if isinstance(arg, list) else [arg]:
                if isinstance(ref, str) and ref[:1] == "%":
                    last[int(ref[1:])] = i
        made.extend((i, out) for out in step["out"])
    for out in f["outputs"]:
        last[int(out["value"][1:])] = len(f["steps"])
    change: collections.Counter[int] = collections.Counter()
    for k, (i, out) in enumerate(made):
        size = _size(out, sizes)
        change[i] += size
        change[last.get(first + k, i) + 1] -= size
    live = peak = 0
    for i in sorted(change):
        live += change[i]
        peak = max(peak, live)
    return peak


def _show(options: argparse.Namespace) -> None:
    program = open_model(options.file)
    spec = program.spec
    sizes = {d["name"]: max(d["min"] or 0, _SHOWN_SIZE) for d in spec["dims"]}
    held = collections.Counter[str]()
    for c in spec["constants"]:
        held[c["kind"]] += _size(c, {})
    print(f"{options.file}: {'training' if 'evaluate' in spec['functions'] else 'inference'} program, version 1")
    for d in spec["dims"]:
        print(f"dim {d['name']}: from {d['min']}{'' if d['max'] is None else ' to ' + str(d['max'])}")
    for kind, size in held.items():
        print(f"{kind}s: {sum(c['kind'] == kind for c in spec['constants'])}, {_bytes(size)}")
    for name, f in spec["functions"].items():
        print(f"{name}:")
        made = _described(f, spec["constants"])
        for what in ("inputs", "outputs"):
            print(f"  {what}:")
            for v in f[what]:
                print(f"    {v['name']}: {_value(v if 'dtype' in v else made[v['value']])}")
        counts = collections.Counter(step["op"] for step in f["steps"])
        print(f"  steps: {len(f['steps'])}")
        for op, n in counts.most_common():
            print(f"    {n:6} {op}")
        at = "".join(f", {n}={s}" for n, s in sizes.items())
        print(f"  memory: results of steps {_bytes(_peak(f, len(spec['constants']), sizes))} at most{at}")
    if "forward" in spec["functions"]:
        print(f"plan: {_plan(program)}")
    if options.html:
        print(f"plans: {_page(program, sizes, options.html)}")


def _described(f: dict[str, Any], constants: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the dtype and shape of each value of a function."""
    values = [*f["inputs"], *constants, *(out for step in f["steps"] for out in step["out"])]
    return {f"%{i}": v for i, v in enumerate(values)}


def _plan(program: ExportedProgram) -> str:
    """Describe the memory of a session of the program, for the smallest inputs."""
    try:
        session = torchlette.InferenceSession(program)
        plan = session.memory_plan()
    except (ValueError, RuntimeError) as exc:  # the program does not run at its smallest sizes
        return f"none for the smallest inputs: {exc}"
    shapes = dict(zip((a.name for a in session.get_inputs()), plan["input_shapes"], strict=True))
    kinds = (("constant_bytes", "weights"), ("packed_bytes", "packed copies"), ("output_bytes", "outputs"))
    rest = "".join(f", {word} {_bytes(plan[key])}" for key, word in kinds)
    parts = f"{len(plan['parts'])} values in {_bytes(plan['arena_bytes'])} (sum {_bytes(plan['sum_bytes'])})"
    return f"{plan['kernels']} kernels, {parts}{rest}, at {shapes}"


def _page(program: ExportedProgram, sizes: dict[str, int], path: str) -> str:
    """Write the page of the plans of a run on zeros."""
    from torchlette import viz

    name, f = _inference(program)
    inputs = []
    for v in f["inputs"]:
        shape = [value_of(n.removeprefix("="), sizes) if isinstance(n, str) else n for n in v["shape"]]
        inputs.append(_C.zeros([int(n) for n in shape], dtype=getattr(_C, v["dtype"])))

    def once() -> list[_C.Tensor]:
        with torchlette.no_grad():
            return run(program, name, inputs, program.constants)

    return str(viz.plan(once, path))
