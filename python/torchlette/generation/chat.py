"""Chat templates of Hugging Face folders: a conversation as the text that a model continues."""

from __future__ import annotations

import datetime
import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchlette.generation.models import Model

__all__ = ["Chat", "apply_chat_template", "read_chat"]

#: Jinja before it has known ways out of its sandbox, and templates come from strangers.
_JINJA = (3, 1, 6)


@dataclass(frozen=True)
class Chat:
    """What a folder says of conversations.

    Args:
        templates: Templates by name; the usual one is "default".
        tokens: Texts of special tokens by name, such as ``bos_token``.
    """

    templates: Mapping[str, str] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict)


def _object(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file; an empty one where there is no file."""
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"load: {path.name} is damaged: {exc}") from exc
    if not isinstance(found, dict):
        raise ValueError(f"load: {path.name} is wrong: got {type(found).__name__}, want an object")
    return found


def read_chat(folder: Path) -> Chat:
    """Return the templates and special tokens of a folder.

    They are in ``tokenizer_config.json``, and ``special_tokens_map.json`` of older folders; ``chat_template.jinja`` and
    the files of ``additional_chat_templates`` come before.

    Args:
        folder: The folder.

    Raises:
        ValueError: A file is damaged.
    """
    config = _object(folder / "tokenizer_config.json")
    given, templates = config.get("chat_template"), dict[str, str]()
    if isinstance(given, str):
        templates["default"] = given
    elif isinstance(given, list):
        templates |= {entry["name"]: entry["template"] for entry in given if isinstance(entry, dict)}
    if (path := folder / "chat_template.jinja").exists():
        templates["default"] = path.read_text(encoding="utf-8")
    for path in sorted((folder / "additional_chat_templates").glob("*.jinja")):
        templates[path.stem] = path.read_text(encoding="utf-8")
    tokens = dict[str, str]()
    extra = config.get("extra_special_tokens")
    for source in (_object(folder / "special_tokens_map.json"), config, extra if isinstance(extra, dict) else {}):
        for name, value in source.items():
            text = value.get("content") if isinstance(value, dict) else value
            if name.endswith("_token") and isinstance(text, str):
                tokens[name] = text
    return Chat(templates, tokens)


@functools.lru_cache(maxsize=8)
def _compiled(template: str) -> Any:
    """Return a template that Jinja has compiled, in a sandbox where it can change nothing."""
    try:
        import jinja2
        from jinja2 import ext, nodes
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as exc:
        raise ImportError("chat templates need the library jinja2: pip install jinja2") from exc
    version = tuple(int(part) for part in jinja2.__version__.split(".")[:3] if part.isdigit())
    if version < _JINJA:
        raise ImportError(f"chat templates need jinja2 3.1.6 or later, found {jinja2.__version__}")

    class Generation(ext.Extension):
        """``{% generation %}`` marks what the model said, which matters in training alone."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def fail(message: str) -> None:
        raise jinja2.TemplateError(message)

    def to_json(
        x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        # Jinja's own escapes what would be markup.
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, ext.loopcontrols])
    env.filters["tojson"] = to_json
    env.globals["raise_exception"] = fail
    env.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    try:
        return env.from_string(template)
    except (jinja2.TemplateError, RecursionError) as exc:
        raise ValueError(f"apply_chat_template: the template is wrong: {exc}") from exc


def _chosen(chat: Chat, template: str | None, tools: Any) -> str:
    """Return the template of a name, or itself, or the folder's."""
    if template is not None:
        return chat.templates.get(template, template)
    for name in ("tool_use", "default") if tools is not None else ("default",):
        if name in chat.templates:
            return chat.templates[name]
    if chat.templates:
        raise ValueError(f"apply_chat_template: chat_template: want one of {', '.join(sorted(chat.templates))}")
    raise ValueError(
        "apply_chat_template: the folder has no chat template: neither chat_template.jinja nor chat_template in "
        "tokenizer_config.json"
    )


def apply_chat_template(
    source: Model | str | os.PathLike[str],
    conversation: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    documents: Sequence[Mapping[str, Any]] | None = None,
    chat_template: str | None = None,
    add_generation_prompt: bool = False,
    tokenize: bool = True,
    **kwargs: Any,
) -> Any:
    """Return a conversation as the text or the tokens that a model continues; arguments are those of transformers.

    The template runs in the sandbox of the library jinja2, which must be installed.

    Args:
        source: A model of :func:`load`, or a folder.
        conversation: Messages: dicts with ``role`` and ``content``.
        tools: JSON schemas of functions that the model may call.
        documents: Dicts with ``title`` and ``text``.
        chat_template: A name of the folder's templates, or a template; None for the usual one.
        add_generation_prompt: Whether the text ends where the model's answer begins.
        tokenize: Whether to return tokens.
        kwargs: What else the template reads.

    Returns:
        A list of tokens, or the text where ``tokenize`` is false.

    Raises:
        ImportError: jinja2 is not installed.
        ValueError: There is no template or tokenizer, or the template refuses the conversation.
    """
    from torchlette.generation.folders import read_tokenizer

    if isinstance(source, (str, os.PathLike)):
        folder = Path(source)
        chat, tokenizer = read_chat(folder), read_tokenizer(folder / "tokenizer.json") if tokenize else None
    else:
        chat, tokenizer = source.chat, source.tokenizer
    template = _compiled(_chosen(chat, chat_template, tools))
    if tokenize and tokenizer is None:
        raise ValueError("apply_chat_template: tokens need tokenizer.json, and the library tokenizers")
    messages = [{key: value for key, value in message.items() if value is not None} for message in conversation]
    # As plain data: a template must not reach methods of objects.
    plain = json.loads(json.dumps({"messages": messages, "tools": tools, "documents": documents, **kwargs}))
    plain["add_generation_prompt"] = add_generation_prompt
    try:
        text = template.render(**{**chat.tokens, **plain})
    except Exception as exc:  # a template raises whatever its expressions do
        raise ValueError(f"apply_chat_template: the template fails: {exc}") from exc
    return text if tokenizer is None or not tokenize else tokenizer.encode(text, add_special_tokens=False).ids
