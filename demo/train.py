"""The main demo: a character GPT trained on Shakespeare, by torchlette and, where it is installed, by PyTorch.

``gpt.py`` is plain PyTorch code. It runs here twice: as it stands, and with ``torchlette.torch`` in its imports
replaced by ``torch``.

    python demo/train.py [--device cpu|wgpu] [--steps N] [--check] [--no-torch]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import text  # demo/text.py: the script's directory is the first on the path

import torchlette

HERE = Path(__file__).parent

SEED = 1337
CHECK_STEPS = 20
# The defaults of torch.testing.assert_close for float32.
RTOL, ATOL = 1.3e-6, 1e-5


def load_gpt(library: str) -> ModuleType:
    """Return ``gpt.py`` with its imports bound to a library."""
    source = (HERE / "gpt.py").read_text()
    if library == "torch":
        source = source.replace("torchlette.torch", "torch")
    module = ModuleType(f"gpt_{library}")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(source, f"gpt.py ({library})", "exec"), module.__dict__)
    return module


class Progress:
    """A progress bar with the loss and the speed; lines of text where tqdm is not installed."""

    def __init__(self, name: str, config: Any, device: object) -> None:
        self.losses: list[tuple[int, float]] = []
        self.tokens = config.batch * config.context
        self.start = time.perf_counter()
        self.label = f"{name} on {device}"
        try:
            from tqdm import tqdm
        except ImportError:
            self.bar = None
        else:
            self.bar = tqdm(total=config.steps, desc=self.label, unit="step", dynamic_ncols=True)

    def report(self, step: int, loss: float) -> None:
        """Show a loss that was read."""
        self.losses.append((step, loss))
        speed = (step + 1) * self.tokens / (time.perf_counter() - self.start)
        if self.bar is not None:
            self.bar.set_postfix_str(f"loss {loss:.3f}, {speed:,.0f} tokens/s")
        elif step % 50 == 0:
            print(f"{self.label}: step {step}, loss {loss:.3f}, {speed:,.0f} tokens/s", flush=True)

    def advance(self) -> None:
        """Count a step."""
        if self.bar is not None:
            self.bar.update(1)

    def close(self) -> None:
        """Finish the bar."""
        if self.bar is not None:
            self.bar.close()


def batches(length: int, config: Any, steps: int) -> list[list[int]]:
    """Return the first characters of the windows of each step, the same for both libraries."""
    rng = random.Random(SEED)
    return [[rng.randrange(length - config.context - 1) for _ in range(config.batch)] for _ in range(steps)]


def run(
    gpt: ModuleType, model: Any, tokens: list[int], device: Any, name: str
) -> tuple[list[tuple[int, float]], float]:
    """Train; return the losses read and the milliseconds of a step, the first ten left out."""
    progress = Progress(name, model.config, device)
    order = batches(len(tokens), model.config, model.config.steps)
    warm = min(10, model.config.steps - 1)
    begin = time.perf_counter()
    for step in gpt.train(model, tokens, order, device, progress.report):
        progress.advance()
        if step == warm:
            begin = time.perf_counter()
    took = time.perf_counter() - begin  # reading the last step's loss has completed all work
    progress.close()
    return progress.losses, 1000 * took / max(1, model.config.steps - 1 - warm)


def copy_weights(source: Any, target: Any, tensor: Any) -> None:
    """Copy the parameters of ``source`` to ``target``, a model of the other library."""
    target.load_state_dict({name: tensor(value.detach().cpu().numpy()) for name, value in source.state_dict().items()})


def check(vocabulary: int, tokens: list[int], device: Any) -> bool:
    """Train 20 steps under both libraries from the same weights, without dropout; compare every parameter.

    Adam divides by the root of the second moment: where a gradient is almost zero, the rounding of its last
    bits moves a parameter by a part of the rate, in either library. So a parameter outside assert_close's default
    tolerance passes if it is as near to PyTorch's float64 result as PyTorch's own float32 result is.
    """
    import torch

    ours, theirs = load_gpt("torchlette"), load_gpt("torch")
    config = {"vocabulary": vocabulary, "dropout": 0.0, "steps": CHECK_STEPS, "warmup": 5}
    torch.manual_seed(SEED)
    reference, exact = (theirs.GPT(theirs.Config(**config)) for _ in range(2))
    exact.load_state_dict(reference.state_dict())
    model = ours.GPT(ours.Config(**config)).to(device)
    copy_weights(reference, model, torchlette.tensor)
    cpu = torch.device("cpu")
    losses = {
        "torchlette": run(ours, model, tokens, device, "torchlette (check)")[0],
        "PyTorch": run(theirs, reference, tokens, cpu, "PyTorch (check)")[0],
    }
    run(theirs, exact.double(), tokens, cpu, "PyTorch, float64 (check)")
    print("\nlosses", *(f"{name} {[round(v, 5) for _, v in read]}" for name, read in losses.items()), sep="\n  ")
    wanted, truth = dict(reference.named_parameters()), dict(exact.named_parameters())
    close = bad = 0
    for name, p in model.named_parameters():
        got, want = torch.from_numpy(p.detach().cpu().numpy().copy()), wanted[name].detach()
        apart, error, rival = (
            (x - y.detach()).abs().max().item() for x, y in ((got, want), (got, truth[name]), (want, truth[name]))
        )
        within = torch.allclose(got, want, rtol=RTOL, atol=ATOL)
        equal = within or error <= 2 * rival
        close, bad = close + within, bad + (not equal)
        print(
            f"  {'ok ' if equal else 'BAD'} {name:<32} {str(tuple(want.shape)):<12} apart {apart:.1e}, from float64 "
            f"{error:.1e} (PyTorch {rival:.1e})"
        )
    nearer = len(wanted) - bad - close
    print(
        f"{len(wanted) - bad} of {len(wanted)} parameters equal after {CHECK_STEPS} steps: "
        f"{close} within rtol {RTOL} and atol {ATOL}, {nearer} as near to float64 as PyTorch's"
    )
    return bad == 0


def draw(curves: dict[str, list[tuple[int, float]]], corpus: str) -> str:
    """Write the loss curves to ``loss.png``; return a message."""
    try:
        import matplotlib
    except ImportError:
        return "no picture: matplotlib is not installed"
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5))
    for name, losses in curves.items():
        axes.plot(*zip(*losses, strict=True), label=name, linewidth=2 if name == "torchlette" else 1)
    axes.set(xlabel="step", ylabel="cross entropy of the next character", title=f"Character GPT on {corpus}")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(HERE / "loss.png", dpi=120)
    return "loss curves: demo/loss.png"


def picture(gpt: ModuleType, model: Any, tokens: list[int], device: Any) -> str:
    """Train a few more steps, and write the page of what one of them computes; return a message."""
    optimizer = gpt.make_optimizer(model, model.config)
    order = batches(len(tokens), model.config, 1)
    x, y = next(iter(gpt.DataLoader(gpt.Windows(tokens, model.config.context), batch_sampler=order)))
    x, y = x.to(device), y.to(device)

    def training_step() -> Any:
        optimizer.zero_grad()
        loss = gpt.loss_of(model, x, y)
        loss.backward()
        gpt.nn.utils.clip_grad_norm_(model.parameters(), model.config.clip)
        optimizer.step()
        return loss

    page = torchlette.viz.plan(training_step, HERE / "plan.html", title="One training step of the demo")
    return f"programs, passes, kernels and memory of a training step: {page}"


def summary(device: Any, millis: dict[str, float], before: dict[str, int]) -> str:
    """Return what the run cost."""
    now = torchlette.stats()
    built, replayed = (now[key] - before[key] for key in ("plans_built", "plans_replayed"))
    lines = [
        f"device           {device}",
        *(f"{name:<16} {value:.1f} ms/step" for name, value in millis.items()),
        f"plans            {built} built, {replayed} replayed",
        f"peak memory      {now['peak_bytes'] / 2**20:.1f} MiB",
    ]
    if "PyTorch" in millis:
        lines.append(f"ratio            {millis['torchlette'] / millis['PyTorch']:.2f} x PyTorch's time on the CPU")
        # PyTorch's threads spin while they wait: on a busy machine its time is unreliable.
        load, cores = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0, os.cpu_count() or 1
        if load > 1.5 * cores:
            lines.append(
                f"                 (measured on a busy machine, load {load:.1f} on {cores} cores: not a fair ratio)"
            )
    return "\n".join(lines)


def main() -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=None, help="cpu, wgpu, wgpu:1; the default is a GPU if there is one")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument(
        "--check", action="store_true", help=f"only compare {CHECK_STEPS} steps with PyTorch, parameter by parameter"
    )
    parser.add_argument("--no-torch", action="store_true", help="do not run PyTorch beside it")
    options = parser.parse_args()

    corpus, name = text.load()
    alphabet = sorted(set(corpus))
    number = {c: i for i, c in enumerate(alphabet)}
    tokens = [number[c] for c in corpus]
    print(f"text: {name}; {len(tokens):,} characters, {len(alphabet)} distinct")
    device = torchlette.device(options.device) if options.device else torchlette.get_default_device()
    has_torch = not options.no_torch and importlib.util.find_spec("torch") is not None
    if options.check:
        if not has_torch:
            print("--check needs PyTorch, which is not installed")
            return 1
        return 0 if check(len(alphabet), tokens, device) else 1

    torchlette.manual_seed(SEED)
    before = torchlette.stats()
    gpt = load_gpt("torchlette")
    model = gpt.GPT(gpt.Config(vocabulary=len(alphabet), steps=options.steps)).to(device)
    print(f"model: {sum(p.numel() for p in model.parameters()):,} parameters")
    weights = (
        {key: value.detach().cpu().numpy().copy() for key, value in model.state_dict().items()} if has_torch else {}
    )
    curves, millis = {}, {}
    curves["torchlette"], millis["torchlette"] = run(gpt, model, tokens, device, "torchlette")
    report = summary(device, millis, before)
    if has_torch:
        import torch

        torch.manual_seed(SEED)
        other = load_gpt("torch")
        reference = other.GPT(other.Config(vocabulary=len(alphabet), steps=options.steps))
        reference.load_state_dict({key: torch.from_numpy(value) for key, value in weights.items()})
        curves["PyTorch"], millis["PyTorch"] = run(other, reference, tokens, torch.device("cpu"), "PyTorch")
        report = summary(device, millis, before)

    # Continue from the middle of the text: the model has never seen a window of one repeated character.
    middle = len(tokens) // 2
    length = min(300, options.steps)  # one pass per character; a software adapter needs a second for it
    sample = "".join(alphabet[i] for i in model.generate(tokens[middle : middle + model.config.context], length))
    (HERE / "sample.txt").write_text(sample + "\n")
    print(f"\n{report}\n{draw(curves, name.partition(' (')[0])}\nsample: demo/sample.txt\n\n{sample}")
    print(f"\n{picture(gpt, model, tokens, device)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
