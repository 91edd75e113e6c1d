"""``python -m torchlette generate FOLDER PROMPT``: the text that follows a prompt, printed while it is made."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

import torchlette
from torchlette.generation.chat import apply_chat_template
from torchlette.generation.folders import load
from torchlette.generation.models import Decoder, Whisper
from torchlette.generation.search import stream
from torchlette.generation.strings import Pieces
from torchlette.quantized import SCHEMES, quantize

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torchlette generate",
        description="Continue a text with the language model of a Hugging Face folder: config.json, safetensors, "
        "tokenizer.json (read by the library tokenizers).",
    )
    parser.add_argument("folder", help="the model's folder")
    parser.add_argument("prompt", help="the text to continue; - reads it from standard input")
    parser.add_argument(
        "--chat", action="store_true", help="the prompt is a message: apply the folder's chat template (needs jinja2)"
    )
    parser.add_argument("--system", metavar="TEXT", help="with --chat, what the conversation begins with")
    parser.add_argument(
        "--max-new-tokens", type=int, metavar="N", help="default 100, or as many as the model has positions for"
    )
    parser.add_argument(
        "--do-sample",
        action=argparse.BooleanOptionalAction,
        help="draw tokens, or take the likeliest; default as in the folder's generation_config.json, or --no-do-sample",
    )
    parser.add_argument("--temperature", type=float, metavar="T", help="divides the logits of draws")
    parser.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest tokens")
    parser.add_argument("--top-p", type=float, metavar="P", help="draw from the likeliest tokens of this probability")
    parser.add_argument("--min-p", type=float, metavar="P", help="least part of the largest probability")
    parser.add_argument("--repetition-penalty", type=float, metavar="R", help="above 1 for fewer repetitions")
    parser.add_argument("--stop", action="append", metavar="TEXT", help="ends the text; may be given several times")
    parser.add_argument("--seed", type=int, help="of the draws; without it each run draws anew")
    parser.add_argument("--device", help="cpu or wgpu")
    parser.add_argument(
        "--dtype", choices=("float32", "float16", "bfloat16"), help="of the weights; the file's if absent"
    )
    parser.add_argument(
        "--quantize", choices=sorted(SCHEMES), help="weights of 8 or 4 bits: a scheme of torchlette.quantize"
    )
    parser.add_argument("--assistant", metavar="FOLDER", help="a smaller model that drafts tokens")
    parser.add_argument("--verbose", action="store_true", help="print tokens per second at the end, to standard error")
    return parser


def _conversation(model: Decoder, text: str, system: str | None) -> list[int]:
    """Return the tokens of a conversation of one message, up to where the answer begins."""
    messages = [] if system is None else [{"role": "system", "content": system}]
    messages.append({"role": "user", "content": text})
    ids: list[int] = apply_chat_template(model, messages, add_generation_prompt=True)
    return ids


def _prompt(model: Decoder, text: str) -> list[int]:
    """Return the tokens of a prompt; of an empty one, the token that begins texts."""
    ids: list[int] = model.tokenizer.encode(text).ids
    if ids:
        return ids
    begin = model.generation_config.get("bos_token_id")
    if not isinstance(begin, int):
        raise ValueError("the prompt has no tokens, and the model no bos_token_id to begin with")
    return [begin]


def _length(model: Decoder, prompt: int, wanted: int | None) -> int:
    """Return how many tokens to make: 100 unless something says else or the model has no positions for them."""
    room = model.spec.max_positions - prompt
    if wanted is not None or room < 1:
        return 100 if wanted is None else wanted
    return min(100, room)


def _generate(args: argparse.Namespace) -> None:
    """Load what the arguments name, and print the text."""
    if args.system is not None and not args.chat:
        raise ValueError("--system is for --chat")
    dtype = None if args.dtype is None else getattr(torchlette, args.dtype)
    model = load(args.folder, device=args.device, dtype=dtype)
    if not isinstance(model, Decoder) or isinstance(model, Whisper):
        raise ValueError(f"{args.folder} has a {type(model).__name__}, want a model that continues texts")
    if model.tokenizer is None:
        raise ValueError("the text needs tokenizer.json in the folder, and the library: pip install tokenizers")
    assistant = None if args.assistant is None else load(args.assistant, device=args.device, dtype=dtype)
    if args.quantize is not None:
        quantize(model, args.quantize)
    torchlette.seed() if args.seed is None else torchlette.manual_seed(args.seed)
    text = sys.stdin.read() if args.prompt == "-" else args.prompt
    ids = _conversation(model, text, args.system) if args.chat else _prompt(model, text)
    pieces, ends, count = Pieces(model.tokenizer), model.generation_config.get("eos_token_id"), 0
    options = {
        name: getattr(args, name)
        for name in ("do_sample", "temperature", "top_k", "top_p", "min_p", "repetition_penalty")
    }
    options |= {"max_new_tokens": _length(model, len(ids), args.max_new_tokens), "stop_strings": args.stop}
    begin = time.perf_counter()
    for tokens in stream(model, [ids], assistant_model=assistant, **options):
        for token in tokens[0].tolist():
            count += 1
            if token not in (ends if isinstance(ends, list) else [ends]):
                print(pieces.put(token), end="", flush=True)
    print(pieces.rest())
    if args.verbose:
        seconds = time.perf_counter() - begin
        print(f"{count} tokens in {seconds:.2f} s, {count / seconds:.1f} per second", file=sys.stderr)


def main(arguments: Sequence[str]) -> None:
    """Run the command.

    Args:
        arguments: Those after ``generate``.
    """
    parser = _parser()
    args = parser.parse_args(arguments)
    try:
        _generate(args)
    except BrokenPipeError:
        # Who reads the text has enough of it. Python would complain again when it closes the output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ImportError, OSError, ValueError, TypeError, RuntimeError) as exc:
        sys.exit(f"{parser.prog}: {exc}")
    except KeyboardInterrupt:
        print()
        sys.exit(130)
