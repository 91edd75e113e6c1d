"""Models of Hugging Face folders: ``config.json``, safetensors files, ``tokenizer.json``."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torchlette import _C
from torchlette.generation import specs
from torchlette.generation.chat import read_chat
from torchlette.generation.layers import Source
from torchlette.generation.models import Decoder, Encoder, Model, Whisper
from torchlette.io.mapped import map_file
from torchlette.io.safetensors import SafetensorsReader

__all__ = ["build", "load", "read_tokenizer"]

Tensor = _C.Tensor
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
#: Tensors of checkpoints that do not count: masks, constants, and heads of tasks other than prediction.
_UNUSED = re.compile(
    r"(.*\.)?(attn\.bias|attn\.masked_bias|rotary_emb\.inv_freq|position_ids)|((bert|roberta)\.)?pooler\..*|"
    r"(cls|classifier)\..*"
)
#: The same of encoders alone.
_HEADS = re.compile(r"(lm_head|pre_classifier|qa_outputs|vocab_transform|vocab_layer_norm|vocab_projector)\..*")


def _json(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"load: {path.name} is damaged: {exc}") from exc
    if not isinstance(found, dict):
        raise ValueError(f"load: {path.name} is wrong: got {type(found).__name__}, want an object")
    return found


def _files(folder: Path) -> list[Path]:
    """Return the files with weights: one, or those that an index names."""
    if (folder / _WEIGHTS).exists():
        return [folder / _WEIGHTS]
    if not (folder / _INDEX).exists():
        others = sorted(path.name for path in folder.glob("*.bin"))
        found = f"; it has {', '.join(others[:3])}: save the model as safetensors" if others else ""
        raise FileNotFoundError(f"load: {folder} has neither {_WEIGHTS} nor {_INDEX}{found}")
    table = _json(folder / _INDEX).get("weight_map")
    if not isinstance(table, dict) or not all(isinstance(name, str) for name in table.values()):
        raise ValueError(f"load: {_INDEX} is damaged: weight_map is no table of file names")
    names = sorted(set(table.values()))
    for name in names:
        if name in ("", ".", "..") or Path(name).name != name or "\\" in name:
            raise ValueError(f"load: {_INDEX} names {name!r}, which is not a file of the folder")
    return [folder / name for name in names]


class _Checkpoint:
    """Tensors of one or more safetensors files by name."""

    def __init__(self, paths: Iterable[Path], open_files: contextlib.ExitStack) -> None:
        self._where: dict[str, SafetensorsReader] = {}
        for path in paths:
            file: Any = open_files.enter_context(open(path, "rb"))
            reader = SafetensorsReader(map_file(file) or file)
            for name in reader.names:
                if name in self._where:
                    raise ValueError(f"load: two files have a tensor {name!r}")
                self._where[name] = reader

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __contains__(self, name: object) -> bool:
        return name in self._where

    def __getitem__(self, name: str) -> Tensor:
        return self._where[name].tensor(name)

    def dtypes(self) -> set[_C.dtype]:
        """Return the dtypes of all tensors; none is read."""
        return {reader.dtype(name) for name, reader in self._where.items()}


def _names(name: str, prefix: str) -> Iterator[str]:
    """Give the names of a tensor in checkpoints. The first BERT called a norm's weight gamma and its bias beta."""
    for found in (name, name.removeprefix(prefix)):
        yield found
        yield found.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def _dtype(config: Mapping[str, Any], tensors: Any) -> Any:
    """Return the config's dtype where a checkpoint has several, for products want one; otherwise None."""
    found = tensors.dtypes() if isinstance(tensors, _Checkpoint) else {tensors[name].dtype for name in tensors}
    name = str(config.get("dtype") or config.get("torch_dtype"))
    several = sum(dtype.is_floating_point for dtype in found) > 1
    return getattr(_C, name) if several and name in ("float32", "float16", "bfloat16") else None


def _source(tensors: Any, prefix: str, used: set[str], device: Any, dtype: Any) -> Source:
    """Return a function that takes tensors by name: with the prefix, or without, as models without a head have them."""

    def take(name: str, shape: tuple[int, ...]) -> Tensor:
        found = next((n for n in _names(name, prefix) if n in tensors), name)
        if found not in tensors:
            raise ValueError(f"load: the checkpoint has no tensor {name!r}")
        used.add(found)
        t = tensors[found].detach()
        if tuple(t.shape) != shape:
            raise ValueError(f"load: {found!r} has shape {list(t.shape)}, config.json wants {list(shape)}")
        if not t.is_floating_point():
            raise NotImplementedError(f"load: {found!r} is {t.dtype}, want a floating-point dtype")
        placed: Tensor = t.to(device=device, dtype=dtype)
        return placed

    return take


def build(config: Mapping[str, Any], tensors: Mapping[str, Tensor], *, device: Any = None, dtype: Any = None) -> Model:
    """Return the model that a config describes, with tensors named as in its checkpoints.

    Args:
        config: The contents of a ``config.json``.
        tensors: Weights by name, such as a ``state_dict``. A weight of the right device and dtype is not copied.
        device: Where the weights go; the default device if None.
        dtype: Of the weights; their own if None, and the config's where they have several.

    Raises:
        NotImplementedError: The architecture, or a value that changes results, is not supported.
        ValueError: A tensor is missing, left over, or of a wrong shape.
    """
    from torchlette._runtime.api import get_default_device

    spec = specs.read(config)
    used: set[str] = set()
    dtype = _dtype(config, tensors) if dtype is None else dtype
    source = _source(tensors, spec.names.prefix, used, get_default_device() if device is None else device, dtype)
    cls = Whisper if spec.others else Decoder if spec.causal else Encoder
    model = cls(source, spec, config)
    head = spec.names.parts.get("head")
    left = [name for name in tensors if name not in used and not _UNUSED.fullmatch(name)]
    left = [name for name in left if not (spec.tied and name == f"{head}.weight")]
    left = [name for name in left if spec.causal or not _HEADS.fullmatch(name)]
    if left:
        raise ValueError(f"load: nothing uses {len(left)} tensors of the checkpoint: {', '.join(sorted(left)[:8])}")
    for name in ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"):
        if config.get(name) is not None:
            model.generation_config[name] = config[name]
    model.eval()
    return model


def _read_pooling(model: Encoder, folder: Path) -> None:
    """Read how sentence-transformers makes one vector of a text, from its files in the folder, where it has them."""
    path = folder / "1_Pooling" / "config.json"
    if path.exists():
        modes = [name for name, on in _json(path).items() if name.startswith("pooling_mode_") and on]
        names = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
        if len(modes) != 1 or modes[0] not in names:
            raise NotImplementedError(
                f"load: 1_Pooling/config.json has {' and '.join(modes) or 'no mode'}, want {' or '.join(names)}"
            )
        model.pooling = names[modes[0]]
    path = folder / "sentence_bert_config.json"
    longest = _json(path).get("max_seq_length") if path.exists() else None
    model.max_tokens = longest if isinstance(longest, int) and longest > 0 else None


def load(folder: str | os.PathLike[str], *, device: Any = None, dtype: Any = None) -> Model:
    """Return the model of a Hugging Face folder.

    Args:
        folder: Has ``config.json`` and ``model.safetensors``, or ``model.safetensors.index.json`` with the files that
            it names; if there are ``generation_config.json`` and ``tokenizer.json``, the model has their contents. An
            encoder pools as the files of sentence-transformers say.
        device: Where the weights go; the default device if None.
        dtype: Of the weights; that of the file if None, and the config's where the file has several.

    Returns:
        A :class:`Decoder`, :class:`Encoder` or :class:`Whisper`.

    Raises:
        FileNotFoundError: The folder or a file is missing.
        NotImplementedError: The architecture, or a value that changes results, is not supported; the text names it.
        ValueError: A file is damaged, or config and weights do not fit.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"load: {folder} is no folder: models are read from disk, and none is fetched")
    config = _json(folder / "config.json")
    with contextlib.ExitStack() as stack:
        checkpoint: Any = _Checkpoint(_files(folder), stack)
        model = build(config, checkpoint, device=device, dtype=dtype)
    if (folder / "generation_config.json").exists():
        model.generation_config |= _json(folder / "generation_config.json")
    model.tokenizer = read_tokenizer(folder / "tokenizer.json")
    model.chat = read_chat(folder)
    if isinstance(model, Encoder):
        _read_pooling(model, folder)
    return model


def read_tokenizer(path: Path) -> Any:
    """Return the tokenizer of a file, or None where the file or the library ``tokenizers`` is missing.

    Args:
        path: Of ``tokenizer.json``.

    Raises:
        ValueError: The file is damaged.
    """
    if not path.exists():
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as exc:  # tokenizers raises Exception itself
        raise ValueError(f"load: {path.name} is damaged: {exc}") from exc
