"""Language models of Hugging Face folders, and generation of text with them.

``load(folder)`` gives a model; :func:`torchlette.generate` continues a text. ``docs/howto/generate-text.md`` says more.
"""

from torchlette.generation.chat import apply_chat_template
from torchlette.generation.folders import build, load
from torchlette.generation.models import Decoder, Encoder, Model, Whisper
from torchlette.generation.search import generate, stream
from torchlette.generation.strings import Pieces

__all__ = [
    "Decoder",
    "Encoder",
    "Model",
    "Pieces",
    "Whisper",
    "apply_chat_template",
    "build",
    "generate",
    "load",
    "stream",
]
