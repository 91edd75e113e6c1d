"""The page of operators that importers and the ONNX exporter know: docs/imported-operators.md."""

from __future__ import annotations

__all__ = ["page"]

#: ONNX's operators up to version 23 that are not imported, and why.
REFUSED = {
    "ImageDecoder": "decodes JPEG and PNG files",
    "MaxRoiPool": "use RoiAlign",
    "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer": "tensors hold no strings",
}
#: Operators that :func:`torchlette.onnx.export` does not write, and why.
UNWRITTEN = {
    "linalg_svd linalg_eigh linalg_eig linalg_qr linalg_lu": "ONNX has none; loops have other signs and orders",
    "linalg_lstsq linalg_pinv linalg_matrix_exp": "they take such factors",
    "nonzero masked_select unique bincount": "the size of the result depends on values, so a program does not hold it",
    "rand randn bernoulli multinomial": "draws, whose numbers would be others",
    "i0 special_i1 igamma special_zeta special_bessel_j0": "no formula of ONNX's operators",
    "func.grad autograd.grad": "a file has no gradients",
    "mode gcd lcm": "ONNX has no such reduction",
}
_WIDTH = 120


def _wrapped(names: list[str]) -> list[str]:
    lines, line = [], ""
    for name in names:
        item = f"`{name}`"
        if line and len(line) + 1 + len(item) > _WIDTH:
            lines.append(line)
            line = item
        else:
            line = f"{line} {item}".strip()
    return [*lines, line]


def page() -> str:
    """Return docs/imported-operators.md."""
    from torchlette._import import aten
    from torchlette.onnx import export_rules  # noqa: F401
    from torchlette.onnx import operators as _operators  # noqa: F401
    from torchlette.onnx.control import CONTROL
    from torchlette.onnx.export_complex import COMPLEX, PARTWISE
    from torchlette.onnx.exporter import OPSET, RULES
    from torchlette.onnx.registry import OPERATORS

    notes = {name: entry.note for name, entry in OPERATORS.items()}
    notes |= {name: "" for name in ("Constant",)}
    notes |= {
        "If": "on values: in a program both branches run, and must give results of one type",
        "Loop": "in a program: at most 256 iterations, a number that the file tells",
        "Scan": "in a program: at most 256 steps",
        "SequenceMap": "",
    }
    assert set(CONTROL) <= set(notes)
    lines = [
        "<!-- Made by torchlette._import.page.page(). DO NOT EDIT. -->",
        "# Operators of imported and exported models",
        "",
        "[Import a model](howto/import-a-model.md) says how files are read.",
        "",
        f"## ONNX: {len(notes)} operators are read",
        "",
        *_wrapped(sorted(notes)),
        "",
        "| operator | what differs |",
        "|---|---|",
        *(f"| `{name}` | {note} |" for name, note in sorted(notes.items()) if note),
        "",
        "| not read | why |",
        "|---|---|",
        *(f"| {' '.join(f'`{n}`' for n in names.split())} | {why} |" for names, why in REFUSED.items()),
        "",
        f"## ONNX: operators of a program that are written, as version {OPSET}",
        "",
        *_wrapped(sorted(name for name in {**RULES, **COMPLEX} if not name.startswith("_"))),
        "",
        "Writes in place are written too, except those to inputs.",
        "",
        "Matrices, special functions, and Fourier transforms of sizes that are no powers of two are in float64, which",
        "WebGPU lacks where such a file is read again. A singular matrix gives infinities or NaN, and no error.",
        "",
        "Complex numbers are pairs: inputs and results have a last dim of size 2, that of `view_as_real`. Written are:",
        "",
        *_wrapped(sorted(name for name in {*COMPLEX, *PARTWISE} if not name.startswith("_"))),
        "",
        "| not written | why |",
        "|---|---|",
        *(f"| {' '.join(f'`{n}`' for n in names.split())} | {why} |" for names, why in UNWRITTEN.items()),
        "",
        "## Graphs of torch.export: ATen's operators that are read",
        "",
        *_wrapped(aten.supported()),
    ]
    return "\n".join(lines) + "\n"
