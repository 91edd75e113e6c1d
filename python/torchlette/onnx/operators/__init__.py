"""ONNX's operators, by subject. Importing this package fills the table."""

from torchlette.onnx.operators import (  # noqa: F401
    attentions,
    choices,
    elementwise,
    images,
    layers,
    quantized,
    recurrences,
    reductions,
    sequences,
    shapes,
    signals,
)
