"""``python -m torchlette generate FOLDER PROMPT``: the text that follows a prompt, printed while it is made."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import torchlette
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
    parser.add_argument("--max-new-tokens", type=int, default=100, metavar="N", help="default 100")
    parser.add_argument("--do-sample", action="store_true", help="draw tokens; otherwise the likeliest are taken")
    parser.add_argument("--temperature", type=float, metavar="T", help="divides the logits of draws")
    parser.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest tokens")
    parser.add_argument("--top-p", type=float, metavar="P", help="draw from the likeliest tokens of this probability")
    parser.add_argument("--min-p", type=float, metavar="P", help="least part of the largest probability")
    parser.add_argument("--repetition-penalty", type=float, metavar="R", help="above 1 for fewer repetitions")
    parser.add_argument("--stop", action="append", metavar="TEXT", help="ends the text; may be given several times")
    parser.add_argument("--seed", type=int, help="of the draws")
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


def main(arguments: Sequence[str]) -> None:
    """Run the command.

    Args:
        arguments: Those after ``generate``.
    """
    parser = _parser()
    args = parser.parse_args(arguments)
    dtype = None if args.dtype is None else getattr(torchlette, args.dtype)
    model = load(args.folder, device=args.device, dtype=dtype)
    if not isinstance(model, Decoder) or isinstance(model, Whisper):
        parser.error(f"{args.folder} has a {type(model).__name__}, want a model that continues texts")
    if model.tokenizer is None:
        parser.error("the text needs tokenizer.json in the folder, and the library: pip install tokenizers")
    assistant = None if args.assistant is None else load(args.assistant, device=args.device, dtype=dtype)
    if args.quantize is not None:
        quantize(model, args.quantize)
    if args.seed is not None:
        torchlette.manual_seed(args.seed)
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    ids = model.tokenizer.encode(prompt).ids
    if not ids:
        parser.error("the prompt has no tokens")
    pieces, ends, count = Pieces(model.tokenizer), model.generation_config.get("eos_token_id"), 0
    options = {
        name: getattr(args, name)
        for name in ("max_new_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty")
    }
    options |= {"do_sample": args.do_sample or None, "stop_strings": args.stop}
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
