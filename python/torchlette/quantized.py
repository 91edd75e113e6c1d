"""Programs and models with weights of 8 or 4 bits."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, cast

from torchlette import _C
from torchlette._runtime.errors import InvalidValueError
from torchlette.autograd import no_grad
from torchlette.export.rewriting import number_of, reads, renumbered
from torchlette.nn import functional as F
from torchlette.nn.modules.module import Module

if TYPE_CHECKING:
    from torchlette.export import ExportedProgram
    from torchlette.generation import Model

__all__ = ["SCHEMES", "LayerReport", "QuantizedLinear", "Scheme", "quantize"]

Tensor = _C.Tensor
#: Outputs in a panel of packed weights, and the terms to which int8 weights are padded.
_PANEL, _TERMS = 16, 64
#: More than the terms of any weight: one group.
_WHOLE = 1 << 40


@dataclasses.dataclass(frozen=True)
class Scheme:
    """How a weight [out, in] is quantized.

    Attributes:
        bits: 8 or 4.
        group: Terms of an output that share a scale; None for all of them.
        asymmetric: Whether groups have an offset beside the scale.
        dynamic: Whether inputs are quantized to int8 too, on each call, with a scale for each row or group of a row.
    """

    bits: int
    group: int | None = None
    asymmetric: bool = False
    dynamic: bool = False


#: The schemes by name.
SCHEMES = {
    "int8": Scheme(8),
    "int8_dynamic": Scheme(8, dynamic=True),
    "int4": Scheme(4, 32),
    "int4_128": Scheme(4, 128),
    "int4_asymmetric": Scheme(4, 32, asymmetric=True),
    "int4_128_asymmetric": Scheme(4, 128, asymmetric=True),
    "int4_dynamic": Scheme(4, 32, dynamic=True),
    "int4_128_dynamic": Scheme(4, 128, dynamic=True),
    "int4_asymmetric_dynamic": Scheme(4, 32, asymmetric=True, dynamic=True),
    "int4_128_asymmetric_dynamic": Scheme(4, 128, asymmetric=True, dynamic=True),
}


@dataclasses.dataclass(frozen=True)
class LayerReport:
    """What quantization changes in one layer.

    Attributes:
        name: The weight's name.
        shape: out and in.
        weight_error: Norm of the weight's change, relative to the weight's norm.
        output_error: The same of the layer's outputs on the calibration inputs; None without these.
        bytes: The size of the quantized weight, with scales and offsets.
    """

    name: str
    shape: tuple[int, int]
    weight_error: float
    output_error: float | None
    bytes: int


class QuantizedLinear(Module):
    """A product with a quantized weight: ``y = x @ weight.T + bias``.

    Casts of the module cast the bias alone; the packed weight and its scales stay as they are.

    Args:
        weight: [out, in], floating point.
        bias: [out], or None.
        scheme: A name of :data:`SCHEMES`.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, scheme: str) -> None:
        """Quantize the weight on its device."""
        super().__init__()
        self.scheme = _scheme(scheme)
        self.out_features, self.in_features = weight.shape
        with no_grad():
            numbers, scale, offset = _numbers(weight.detach().to(_C.float32), self.scheme)
            self.register_buffer("weight", _packed(numbers, self.scheme.bits))
            self.register_buffer("scale", _table(scale, _C.float32 if self.scheme.bits == 8 else _C.bfloat16))
            self.register_buffer("offset", None if offset is None else _table(offset, _C.bfloat16))
        self.register_buffer("bias", None if bias is None else bias.detach())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        packs = dict(self.named_packs())
        super()._apply(fn, recurse)
        for name, t in packs.items():  # a cast is for inputs and biases: the numbers that weights are made of stay
            if (moved := getattr(self, name)).dtype != t.dtype:
                setattr(self, name, t.to(moved.device))
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Return [..., out] for [..., in], of x's dtype."""
        s = self.scheme
        tensors = self.weight, self.scale, self.offset, self.bias
        return _C._quantized_linear(x, *tensors, self.out_features, s.bits, s.group or _WHOLE, s.dynamic)

    def dequantized(self) -> Tensor:
        """Return the weight that the product is with, float32 [out, in]."""
        s, n, k = self.scheme, self.out_features, self.in_features
        fields = _C.stack([(self.weight << (32 - s.bits * (j + 1))) >> (32 - s.bits) for j in range(32 // s.bits)], -1)
        w = fields.transpose(1, 2).reshape(-1, fields.shape[1] * fields.shape[3])[:n, :k].to(_C.float32)

        def spread(table: Tensor) -> Tensor:
            rows = table.to(_C.float32).transpose(1, 2).reshape(-1, table.shape[1])[:n]
            return rows if s.group is None else rows.repeat_interleave(s.group, 1)[:, :k]

        w = w * spread(self.scale)
        return w if self.offset is None else w + spread(self.offset)

    def named_packs(self) -> Iterator[tuple[str, Tensor]]:
        """Give the tensors of the quantized weight with their names."""
        for name in ("weight", "scale", "offset"):
            if (t := getattr(self, name)) is not None:
                yield name, t

    def report(self, name: str, weight: Tensor, output_error: float | None = None) -> LayerReport:
        """Return the report of this layer, made of a weight [out, in].

        Args:
            name: The weight's name.
            weight: The weight before quantization.
            output_error: The error of outputs, where it is known.
        """
        size = sum(t.numel() * t.element_size() for _, t in self.named_packs())
        error = _relative(self.dequantized(), weight.detach().to(_C.float32))
        return LayerReport(name, (self.out_features, self.in_features), error, output_error, size)


def _scheme(name: str) -> Scheme:
    if name not in SCHEMES:
        raise InvalidValueError(f"quantize: scheme: got {name!r}, want one of {', '.join(SCHEMES)}")
    return SCHEMES[name]


def _relative(x: Tensor, y: Tensor) -> float:
    """Return the norm of x - y, relative to that of y."""
    size: float = y.norm().item()
    change: float = (x - y).norm().item()
    return change / size if size else change


def _numbers(w: Tensor, scheme: Scheme) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return integers [out, in], scales [out, groups] and offsets [out, groups]: a weight is scale * integer + offset.

    Scales are rounded before the integers are chosen, so that their rounding costs no accuracy.
    """
    if not w.isfinite().all().item():
        raise InvalidValueError("quantize: a weight has numbers that are not finite")
    if scheme.group is None:
        scale = w.abs().amax(1, keepdim=True) / 127
        divisor = _C.where(scale == 0, 1.0, scale)
        return (w / divisor).round().clamp(-127, 127), divisor, None
    n, k = w.shape
    groups = -(-k // scheme.group)
    # The last group may be shorter: it is filled with copies of its last term, which are dropped at the end.
    filled = _C.cat([w, w[:, -1:].expand(n, groups * scheme.group - k)], 1).reshape(n, groups, scheme.group)
    if scheme.asymmetric:
        low, high = filled.amin(2), filled.amax(2)
        middle = (low + high) / 2
        # The integers also reach what the rounding of the offset leaves.
        scale = ((high - low + middle.abs() / 256) / 15).to(_C.bfloat16).to(_C.float32)
        scale = _C.where(scale == 0, 1.0, scale)
        offset = (middle + scale / 2).to(_C.bfloat16).to(_C.float32)
        numbers = (filled - offset.unsqueeze(2)) / scale.unsqueeze(2)
    else:
        scale = (filled.abs().amax(2) / 7.5).to(_C.bfloat16).to(_C.float32)
        scale, offset = _C.where(scale == 0, 1.0, scale), None
        numbers = filled / scale.unsqueeze(2)
    return numbers.round().clamp(-8, 7).reshape(n, -1)[:, :k], scale, offset


def _padded(x: Tensor, rows: int, columns: int) -> Tensor:
    """Return x with zeros up to multiples of rows and columns."""
    return F.pad(x, (0, -x.shape[1] % columns, 0, -x.shape[0] % rows))


def _packed(numbers: Tensor, bits: int) -> Tensor:
    """Return int32 [panels, words, 16]: outputs in panels of 16, the terms of a word from its lowest bits on."""
    each = 32 // bits
    x = _padded(numbers, _PANEL, _TERMS if bits == 8 else each).to(_C.int32)
    x = x.reshape(x.shape[0] // _PANEL, _PANEL, x.shape[1] // each, each).transpose(1, 2)
    words = _C.bitwise_left_shift(x[..., each - 1], 32 - bits)
    for j in range(each - 1):
        words = words | _C.bitwise_left_shift(x[..., j] & ((1 << bits) - 1), bits * j)
    return words.contiguous()


def _table(x: Tensor, dtype: _C.dtype) -> Tensor:
    """Return [panels, groups, 16] of scales or offsets [out, groups]."""
    x = _padded(x, _PANEL, 1)
    return x.reshape(x.shape[0] // _PANEL, _PANEL, x.shape[1]).transpose(1, 2).to(dtype).contiguous()


def quantize(
    program: ExportedProgram | Model | str | os.PathLike[str], scheme: str, calibration: Iterable[Any] | None = None
) -> tuple[Any, list[LayerReport]]:
    """Quantize the weights of a program's linear layers.

    Products ``linear``, ``matmul``, ``mm`` and ``addmm`` with a constant matrix are replaced by products with a
    quantized weight. It is dequantized inside the product, so that a call reads only the packed bytes. Other
    operators, and embeddings, stay as they are.

    Args:
        program: An exported program, or the path of a file that a session opens. Or a model of
            :mod:`torchlette.generation`, whose layers are then replaced in place.
        scheme: ``"int8"``: one scale for each output; ``"int8_dynamic"``: inputs in int8 too, with a scale for each
            row; ``"int4"``, ``"int4_128"``: 4 bits in groups of 32 or 128 terms; ``"int4_asymmetric"``,
            ``"int4_128_asymmetric"``: groups with an offset; those of 4 bits with ``"_dynamic"``: inputs in int8 too,
            with a scale for each group of a row. The last group of an output may be shorter.
        calibration: Inputs for the error report: each a tensor or array, a tuple of them, or a dict by input name.

    Returns:
        The quantized program (the model itself for a model), and a report for each layer.

    Raises:
        ValueError: The scheme does not exist; a weight is not finite; the program is a training program, or has no such
            layer; calibration is given for a model, or inputs do not fit.
    """
    _scheme(scheme)
    if isinstance(program, Module):
        if calibration is not None:
            raise InvalidValueError("quantize: calibration is for programs, got a model")
        return _quantized_model(program, scheme)
    if isinstance(program, (str, os.PathLike)):
        from torchlette.export.files import open_model

        program = open_model(program)
    with no_grad():
        return _Rewriting(cast("ExportedProgram", program), scheme).result(calibration)


def _quantized_model(model: Module, scheme: str) -> tuple[Module, list[LayerReport]]:
    from torchlette.generation.layers import Linear
    from torchlette.generation.models import Model

    if not isinstance(model, Model):
        raise InvalidValueError(
            f"quantize: got a {type(model).__name__}, want an exported program or a model of torchlette.generation: "
            f"export the module first"
        )
    layers = [(name, m) for name, m in model.named_modules() if isinstance(m, Linear)]
    reports = []
    for name, layer in layers:
        weight = layer.weight
        if weight is None:
            raise InvalidValueError(f"quantize: layer {name} is quantized already")
        reports.append(layer.quantize(scheme).report(name, weight.t() if layer.transposed else weight))
    if "head" not in model.stack.parts:
        weight = model.stack.parts["embed"].weight
        head = QuantizedLinear(weight, None, scheme)
        model.stack.parts["head"] = head
        model.add_module("quantized_head", head)
        reports.append(head.report("quantized_head", weight))
    return model, reports


@dataclasses.dataclass(frozen=True)
class _Matrix:
    """A value that is a constant matrix, a part of one, or the transpose of these."""

    constant: int
    first: tuple[int, int]  # in the constant's dims: the first row and column, and how many
    size: tuple[int, int]
    turned: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the value."""
        return self.size[::-1] if self.turned else self.size

    def transposed(self) -> _Matrix:
        return dataclasses.replace(self, turned=not self.turned)

    def part(self, dim: int, first: int, size: int) -> _Matrix:
        """Return what lies at some places of a dim of the value."""
        axis = dim % 2 ^ self.turned
        at, n = list(self.first), list(self.size)
        at[axis], n[axis] = at[axis] + first, size
        return dataclasses.replace(self, first=(at[0], at[1]), size=(n[0], n[1]))


@dataclasses.dataclass
class _Layer:
    """A step that is a product with a constant matrix: its place, operands, and the matrix as [out, in]."""

    step: int
    x: str
    bias: str | None
    matrix: _Matrix


class _Rewriting:
    """The replacement of a program's products."""

    def __init__(self, program: ExportedProgram, scheme: str) -> None:
        functions = program.spec["functions"]
        if list(functions) != ["forward"]:
            raise InvalidValueError("quantize: got a training program, want one that was exported for inference")
        self.program, self.scheme = program, scheme
        self.function = functions["forward"]
        self.inputs, self.named = len(self.function["inputs"]), program.spec["constants"]
        self.shapes: list[list[Any]] = [v["shape"] for v in (*self.function["inputs"], *self.named)]
        self.first: list[int] = []  # by step: the number of its first result
        self.matrices = {
            self.inputs + i: _Matrix(i, (0, 0), tuple(c["shape"]))
            for i, c in enumerate(self.named)
            if len(c["shape"]) == 2 and c["dtype"] in ("float32", "float16", "bfloat16") and 0 not in c["shape"]
            if c["name"] not in self.function["state"]
        }
        self.views: set[int] = set()  # steps that transpose or divide a constant
        self.layers: list[_Layer] = []
        for number, step in enumerate(self.function["steps"]):
            self.first.append(len(self.shapes))
            self._read(number, step)
            self.shapes += [out["shape"] for out in step["out"]]
        if not self.layers:
            raise InvalidValueError("quantize: the program has no product with a constant matrix")

    def _read(self, number: int, step: dict[str, Any]) -> None:
        args, op = step["args"], step["op"]
        if step.get("mode") or step.get("autocast"):
            return
        if (source := self.matrices.get(number_of(args.get("self", args.get("input"))))) is not None:
            parts = _parts(op, args, source, [out["shape"] for out in step["out"]])
            if parts:
                self.matrices |= dict(enumerate(parts, self.first[number]))
                self.views.add(number)
                return
        if op == "linear":
            x, w, bias, turns = args["input"], args["weight"], args["bias"], False
        elif op in ("matmul", "mm"):
            x, w, bias, turns = args["self"], args.get("other", args.get("mat2")), None, True
        elif op == "addmm" and args["beta"] == 1 and args["alpha"] == 1:
            x, w, bias, turns = args["mat1"], args["mat2"], args["self"], True
        else:
            return
        matrix = self.matrices.get(number_of(w))
        if matrix is None or number_of(x) in self.matrices or not self.shapes[number_of(x)]:
            return
        matrix = matrix.transposed() if turns else matrix
        if bias is not None and self.shapes[number_of(bias)] != [matrix.shape[0]]:
            return
        self.layers.append(_Layer(number, x, bias, matrix))

    def result(self, calibration: Iterable[Any] | None) -> tuple[ExportedProgram, list[LayerReport]]:
        """Return the program and the report."""
        made: dict[_Matrix, QuantizedLinear] = {}
        for layer in self.layers:
            if layer.matrix not in made:
                made[layer.matrix] = QuantizedLinear(self._weight(layer.matrix), None, self.scheme)
        program = self._rebuilt(made)
        errors = [None] * len(self.layers) if calibration is None else self._errors(made, calibration)
        return program, [
            made[m := layer.matrix].report(self._name(m, "[{}:{}, {}:{}]"), self._weight(m), error)
            for layer, error in zip(self.layers, errors, strict=True)
        ]

    def _weight(self, m: _Matrix) -> Tensor:
        (row, column), (rows, columns) = m.first, m.size
        w = self.program.constants[m.constant].detach()[row : row + rows, column : column + columns]
        return w.t() if m.turned else w

    def _name(self, m: _Matrix, part: str) -> str:
        """Return the name of a constant, and of a part of it its rows and columns."""
        named = self.named[m.constant]
        ends = (n for a, b in zip(m.first, m.size, strict=True) for n in (a, a + b))
        name: str = named["name"]
        return name if list(m.size) == named["shape"] else name + part.format(*ends)

    def _rebuilt(self, made: dict[_Matrix, QuantizedLinear]) -> ExportedProgram:
        """Return the program with its products replaced, and without constants and transposes that nothing reads."""
        steps: list[dict[str, Any]] = copy.deepcopy(self.function["steps"])
        extra: list[tuple[str, Tensor]] = []
        places: dict[_Matrix, dict[str, str]] = {}
        taken = {c["name"] for c in self.named}
        for matrix, packs in made.items():
            place = places[matrix] = {}
            for part, t in packs.named_packs():
                name = self._name(matrix, "_{}_{}_{}_{}") + "_quantized" + ("" if part == "weight" else f"_{part}")
                while name in taken:
                    name += "_"
                taken.add(name)
                place[part] = f"%+{len(extra)}"
                extra.append((name, t))
        for layer in self.layers:
            packs, place = made[layer.matrix], places[layer.matrix]
            s = packs.scheme
            args: dict[str, Any] = {
                "input": layer.x,
                "weight": place["weight"],
                "scale": place["scale"],
                "bias": layer.bias,
            }
            args |= {"offset": place.get("offset"), "out_features": packs.out_features, "bits": s.bits}
            args |= {"group": s.group or _WHOLE, "dynamic": s.dynamic}
            steps[layer.step] = {**steps[layer.step], "op": "_quantized_linear", "args": args}
        used = {r for i, s in enumerate(steps) if i not in self.views for r in reads(s, self.first[i])}
        used |= {number_of(v["value"]) for v in self.function["outputs"]}
        for i in sorted(self.views, reverse=True):
            if used & self._results(i):
                used |= reads(steps[i], self.first[i])
        kept = [i for i, c in enumerate(self.named) if self.inputs + i in used or c["name"] in self.function["state"]]
        return self._assembled(steps, kept, extra, [i for i in self.views if not used & self._results(i)])

    def _results(self, step: int) -> set[int]:
        return set(range(self.first[step], self.first[step] + len(self.function["steps"][step]["out"])))

    def _assembled(
        self, steps: list[dict[str, Any]], kept: list[int], extra: list[tuple[str, Tensor]], dropped: list[int]
    ) -> ExportedProgram:
        from torchlette.export.program import ExportedProgram, describe

        numbers = {f"%{i}": f"%{i}" for i in range(self.inputs)}
        numbers |= {f"%{self.inputs + c}": f"%{self.inputs + i}" for i, c in enumerate(kept)}
        numbers |= {f"%+{i}": f"%{self.inputs + len(kept) + i}" for i in range(len(extra))}
        old, new = self.inputs + len(self.named), self.inputs + len(kept) + len(extra)
        after = renumbered(steps, numbers, old, new, frozenset(dropped))
        outputs = [{**v, "value": numbers[v["value"]]} for v in self.function["outputs"]]
        spec = {**self.program.spec}
        spec["functions"] = {"forward": {**self.function, "steps": after, "outputs": outputs}}
        spec["constants"] = [self.named[i] for i in kept] + [describe(name, "buffer", t) for name, t in extra]
        return ExportedProgram(spec, [self.program.constants[i] for i in kept] + [t for _, t in extra])

    def _errors(self, made: dict[_Matrix, QuantizedLinear], calibration: Iterable[Any]) -> list[float | None]:
        """Return the relative error of each layer's output, given the inputs that it has in the whole program."""
        from torchlette.export.program import run

        probe, sums = self._probe(), [[0.0, 0.0] for _ in self.layers]
        for given in calibration:
            values = run(probe, "forward", self._feed(given), probe.constants)
            for layer, x, sum_ in zip(self.layers, values, sums, strict=True):
                w = self._weight(layer.matrix)
                want = F.linear(x.to(w.dtype), w).to(_C.float32)
                got = made[layer.matrix](x).to(_C.float32)
                sum_[0] += (got - want).square().sum().item()
                sum_[1] += want.square().sum().item()
        if sums[0] == [0.0, 0.0] and not any(b for _, b in sums):
            raise InvalidValueError("quantize: calibration has no inputs for which the layers give something")
        return [(a / b if b else a) ** 0.5 for a, b in sums]

    def _probe(self) -> ExportedProgram:
        """Return the program that gives the input of each layer, copied before later steps write to it."""
        from torchlette.export.program import ExportedProgram

        at = {layer.step: layer for layer in self.layers}
        numbers = {f"%{i}": f"%{i}" for i in range(self.inputs + len(self.named))}
        steps, outputs, count = list[dict[str, Any]](), list[dict[str, Any]](), len(numbers)
        for i, step in enumerate(self.function["steps"]):
            if i in at:
                x = at[i].x
                source = self._out(number_of(x))
                steps.append({"op": "clone", "args": {"self": numbers[x]}, "out": [source]})
                outputs.append({"name": f"input_{len(outputs)}", "value": f"%{count}"})
                count += 1
            steps += renumbered([step], numbers, self.first[i], count)
            count += len(step["out"])
        function = {**self.function, "steps": steps, "outputs": outputs, "state": []}
        spec = {**self.program.spec, "functions": {"forward": function}}
        return ExportedProgram(spec, [t.clone() for t in self.program.constants])

    def _out(self, value: int) -> dict[str, Any]:
        """Return dtype and shape of a value."""
        for i, first in enumerate(self.first):
            outs: list[dict[str, Any]] = self.function["steps"][i]["out"]
            if first <= value < first + len(outs):
                return outs[value - first]
        given = (*self.function["inputs"], *self.named)[value]
        return {"dtype": given["dtype"], "shape": given["shape"]}

    def _feed(self, given: Any) -> list[Tensor]:
        names = [v["name"] for v in self.function["inputs"]]
        if isinstance(given, Mapping):
            if set(given) != set(names):
                raise InvalidValueError(f"quantize: calibration: got inputs {sorted(given)}, want {sorted(names)}")
            given = [given[name] for name in names]
        values = list(given) if isinstance(given, (list, tuple)) else [given]
        if len(values) != len(names):
            raise InvalidValueError(f"quantize: calibration: got {len(values)} inputs, want {len(names)}: {names}")
        device = self.program.constants[0].device
        return [v.to(device) if isinstance(v, Tensor) else _C.tensor(v, device=device) for v in values]


def _parts(op: str, args: dict[str, Any], source: _Matrix, shapes: list[list[Any]]) -> list[_Matrix]:
    """Return the results of a step that transposes or divides a matrix, nothing for another step."""
    if op in ("t", "transpose.int", "permute", "numpy_T", "T"):
        dims = [args["dim1"], args["dim0"]] if op == "transpose.int" else args.get("dims", [1, 0])
        turns = {d % 2 for d in dims} == {0, 1} and (op != "permute" or dims[0] % 2 == 1)
        return [source.transposed()] if turns else []
    dim = args.get("dim")
    if op not in ("chunk", "split", "split.sizes", "tensor_split", "narrow") or not isinstance(dim, int):
        return []
    parts, first = [], args["start"] if op == "narrow" else 0
    if not isinstance(first, int):
        return []
    first %= source.shape[dim % 2]
    for shape in shapes:
        parts.append(source.part(dim, first, shape[dim % 2]))
        first += shape[dim % 2]
    return parts if all(0 not in m.size for m in parts) else []
