"""Times transformers on this library and on PyTorch, in turns: a Trainer's step, generate, and the import itself.

``python benchmarks/packages.py [--rounds 5]`` needs PyTorch, transformers and accelerate. Each figure is the least of
all rounds; a round is a process of its own, ours with ``import torch`` answered by ``torchlette.as_torch``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile

IMPORT = """
import json, sys, time
start = time.perf_counter()
if "torchlette" in sys.modules:
    import torchlette.nn
alone = time.perf_counter()
import torch
end = time.perf_counter()
print(json.dumps({"import": end - start, "import after torchlette": end - alone}))
"""
STEPS = """
import json, tempfile, time, warnings
warnings.simplefilter("ignore")
import torch, transformers
transformers.logging.set_verbosity_error()
torch.manual_seed(0)
torch.set_num_threads(1)

class Clock(transformers.TrainerCallback):
    def on_step_begin(self, *args, **kwargs): times.append(time.perf_counter())

times = []
small = dict(vocab_size=1000, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512)
model = transformers.BertForSequenceClassification(transformers.BertConfig(**small))
rows = [dict(input_ids=torch.randint(0, 1000, (64,)), labels=i % 2) for i in range(320)]
with tempfile.TemporaryDirectory() as folder:
    settings = transformers.TrainingArguments(folder, per_device_train_batch_size=8, max_steps=40, report_to=[],
        save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True)
    transformers.Trainer(model, settings, train_dataset=rows, callbacks=[Clock()]).train()
    step = (time.perf_counter() - times[10]) / 30  # train() reads the loss at its end

config = transformers.GPT2Config(vocab_size=1000, n_embd=256, n_layer=4, n_head=4, n_positions=256)
model = transformers.GPT2LMHeadModel(config).eval()
prompt = torch.randint(0, 1000, (1, 16))
times = []
for _ in range(4):
    start = time.perf_counter()
    model.generate(prompt, max_new_tokens=64, min_new_tokens=64, do_sample=False, pad_token_id=0).tolist()
    times.append(time.perf_counter() - start)
print(json.dumps({"Trainer step": step, "generate 64": min(times[1:])}))
"""


def run(program: str, ours: bool) -> dict[str, float]:
    """Run a program in a process of its own and return what its last line says."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(program)
        file.flush()
        start = ["-m", "torchlette.as_torch"] if ours else []
        done = subprocess.run([sys.executable, *start, file.name], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    """Run both sides in turns and print the least times with their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    least: dict[tuple[str, bool], float] = {}
    for _ in range(rounds):
        for ours in (True, False):
            for program in (IMPORT, STEPS):
                for what, seconds in run(program, ours).items():
                    least[what, ours] = min(seconds, least.get((what, ours), seconds))
    for what in ("import", "Trainer step", "generate 64"):
        mine, theirs = least[what, True], least[what, False]
        print(f"{what:14} ours {mine * 1e3:8.1f} ms  PyTorch {theirs * 1e3:8.1f} ms  ratio {mine / theirs:.2f}")
    print(f"import torch after import torchlette: {least['import after torchlette', True] * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
