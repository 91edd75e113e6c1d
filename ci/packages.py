"""Runs packages written for PyTorch on torchlette: makes an environment without PyTorch, installs them, and tries them.

``python ci/packages.py [WHEEL]`` tries a wheel, or the torchlette beside this script, which ``make develop`` has built.
Each program below runs in a process of its own under ``torchlette.as_torch``; what it records must be near PyTorch's
values in ci/packages.json. docs/packages.md keeps the table that this prints. pip fetches the packages of
ci/requirements-packages.txt; the programs fetch nothing. ``python ci/packages.py --record PYTHON`` writes the values,
by an interpreter with PyTorch and the packages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ENVIRONMENT = ROOT / "build" / "packages"
#: PyTorch's, by program.
VALUES = HERE / "packages.json"

#: Of a recorded value, to the largest of its program.
TOLERANCE = 1e-3

#: Begins each program. Weights and inputs depend on no generator, as those of PyTorch are other ones.
_PRELUDE = """
import json, os, tempfile, torch

def fixed(model):
    with torch.no_grad():
        for n, p in enumerate(model.parameters()):
            p.copy_((torch.arange(p.numel(), dtype=torch.float64) * 0.7 + n).sin().reshape(p.shape) * 0.1)
    return model

def waves(*shape):
    return (torch.arange(torch.Size(shape).numel(), dtype=torch.float64) * 0.3).sin().float().reshape(shape)

def record(*values):
    tensors = [torch.as_tensor(v).detach().flatten()[:64].tolist() for v in values]
    with open(os.environ["RECORDED"], "w") as file:
        json.dump([float(x) for t in tensors for x in t], file)
"""

_GPT2 = """
from transformers import GPT2Config, GPT2LMHeadModel
model = fixed(GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=100, n_positions=64, bos_token_id=1,
                                         eos_token_id=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)))
x = torch.arange(16).reshape(2, 8) * 7 % 97 + 3
"""

_STEPS = """
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
losses = []
for _ in range(5):
    loss = model(input_ids=x, labels=x).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
record(*losses, model(input_ids=x).logits)
"""

_BERT = """
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
model = fixed(BertForSequenceClassification(BertConfig(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=100,
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)))
data = [{"input_ids": torch.arange(8) * (i + 3) % 100, "labels": torch.tensor(i % 2)} for i in range(16)]
"""

#: What is tried: the package, what it does, and the program that does it.
PROGRAMS: list[tuple[str, str, str]] = [
    ("transformers", "GPT-2: forward, backward, AdamW", _GPT2 + _STEPS),
    ("transformers", "GPT-2: generate", _GPT2 + "record(model.generate(x, max_new_tokens=5, do_sample=False))"),
    (
        "transformers",
        "GPT-2: save_pretrained, from_pretrained",
        _GPT2
        + "d = tempfile.mkdtemp()\nmodel.save_pretrained(d)\n"
        + "record(GPT2LMHeadModel.from_pretrained(d)(x).logits)",
    ),
    (
        "transformers",
        "BERT: Trainer",
        _BERT
        + """
arguments = TrainingArguments(tempfile.mkdtemp(), num_train_epochs=3, per_device_train_batch_size=16, report_to=[],
                              use_cpu=True, save_strategy="no", learning_rate=1e-3)
record(Trainer(model=model, args=arguments, train_dataset=data).train().training_loss,
       model.eval()(input_ids=torch.stack([d["input_ids"] for d in data])).logits)
""",
    ),
    (
        "peft",
        "LoRA on GPT-2, saved and reloaded",
        _GPT2
        + """
from peft import LoraConfig, PeftModel, get_peft_model
base = model
model = fixed(get_peft_model(base, LoraConfig(r=4, target_modules=["c_attn"], task_type="CAUSAL_LM")))
"""
        + _STEPS
        + "d = tempfile.mkdtemp()\nmodel.save_pretrained(d)\n"
        + "PeftModel.from_pretrained(GPT2LMHeadModel(base.config), d)",
    ),
    (
        "safetensors",
        "save_file, load_file",
        """
from safetensors.torch import load_file, save_file
path, want = tempfile.mktemp(), {"a": torch.rand(2, 3), "b": torch.arange(4).to(torch.bfloat16)}
save_file(want, path)
assert all(torch.equal(t, want[name]) for name, t in load_file(path).items())
""",
    ),
    (
        "accelerate",
        "prepare, backward, step",
        """
from accelerate import Accelerator
accelerator, model = Accelerator(cpu=True), fixed(torch.nn.Linear(2, 1))
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(waves(8, 2)), batch_size=4)
model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), data)
for (x,) in data:
    optimizer.zero_grad()
    accelerator.backward(model(x).mean())
    optimizer.step()
record(*model.parameters())
""",
    ),
    (
        "diffusers",
        "UNet2DModel: forward, backward; DDPM's noise",
        """
from diffusers import DDPMScheduler, UNet2DModel
model = UNet2DModel(sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(32, 32),
                    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
x, t = waves(2, 1, 8, 8), torch.tensor([3, 5])
noise = x.cos()
found = fixed(model)(DDPMScheduler(10).add_noise(x, noise, t), t).sample
loss = torch.nn.functional.mse_loss(found, noise)
loss.backward()
record(loss, found, torch.stack([p.grad.norm() for p in model.parameters()]))
""",
    ),
    (
        "gpytorch",
        "exact regression",
        """
import gpytorch
class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.covar = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.covar(x))
x = torch.linspace(0, 1, 10)
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Model(x, x.sin(), likelihood)
loss = -gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)(model(x), x.sin())
loss.backward()
record(loss, *(p.grad for p in model.parameters()))
""",
    ),
    (
        "torchmetrics",
        "accuracy",
        "import torchmetrics\nrecord(torchmetrics.Accuracy('binary')(waves(4), torch.ones(4)))",
    ),
    (
        "einops",
        "rearrange",
        "import einops\nassert einops.rearrange(torch.ones(2, 6), 'a (b c) -> b a c', b=2).ndim == 3",
    ),
    (
        "accelerate",
        "init_empty_weights, load_checkpoint_and_dispatch",
        """
import accelerate
file, model = tempfile.mktemp(suffix=".bin"), torch.nn.Linear(2, 2)
torch.save(model.state_dict(), file)
with accelerate.init_empty_weights():
    large, empty = torch.nn.Linear(10**6, 10**6), torch.nn.Linear(2, 2)
assert large.weight.is_meta
loaded = accelerate.load_checkpoint_and_dispatch(empty, file, device_map={"": "cpu"})
assert torch.equal(loaded.weight, model.weight)
""",
    ),
    (
        "transformers",
        "BERT: Trainer with checkpoints, resumed",
        _BERT
        + """
arguments = TrainingArguments(tempfile.mkdtemp(), num_train_epochs=1, per_device_train_batch_size=4, report_to=[],
                              use_cpu=True, save_steps=2)
Trainer(model=model, args=arguments, train_dataset=data).train()
Trainer(model=model, args=arguments, train_dataset=data).train(resume_from_checkpoint=True)
""",
    ),
    (
        "lightning",
        "Trainer.fit, a checkpoint saved and loaded",
        """
import lightning
class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(waves(16, 4), waves(16, 1)), batch_size=4)
d = tempfile.mkdtemp()
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False,
                            default_root_dir=d)
trainer.fit(fixed(Net()), data)
trainer.save_checkpoint(d + "/x.ckpt")
record(*Net.load_from_checkpoint(d + "/x.ckpt").parameters())
""",
    ),
    (
        "torch_geometric",
        "GCNConv: forward, backward",
        """
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
data, layer = Data(x=waves(4, 3), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])), fixed(GCNConv(3, 2))
found = layer(data.x, data.edge_index)
found.square().sum().backward()
record(found, *(p.grad for p in layer.parameters()))
""",
    ),
    (
        "torchvision",
        "ResNet: forward, backward; features by torch.fx",
        """
import torchvision
from torchvision.models.feature_extraction import create_feature_extractor
model, x = fixed(torchvision.models.resnet18(num_classes=3)).eval(), waves(2, 3, 64, 64)
logits = model(x)
logits.sum().backward()
found = create_feature_extractor(model, ["layer1", "layer4"])(x)
assert found["layer4"].shape == (2, 512, 2, 2)
record(logits, found["layer4"])
""",
    ),
    (
        "torchvision",
        "nms, roi_align with its gradient, transforms",
        """
import torchvision
from torchvision.transforms import v2
boxes = torch.tensor([[0.0, 0, 1, 1], [0, 0, 1, 1.1], [3, 3, 4, 4]])
assert torchvision.ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5).tolist() == [0, 2]
x = torch.rand(1, 2, 8, 8, requires_grad=True)
torchvision.ops.roi_align(x, [boxes], 2).sum().backward()
assert x.grad.abs().sum() > 0
transform = v2.Compose([v2.RandomHorizontalFlip(), v2.Resize(8), v2.Normalize([0.5] * 3, [0.5] * 3)])
assert transform(torch.rand(3, 16, 16)).shape == (3, 8, 8)
""",
    ),
    (
        "timm",
        "ViT and ResNet: forward, backward",
        """
import timm
found = []
for model in (timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=3),
              timm.create_model("resnet18", num_classes=3)):
    found.append(fixed(model).eval()(waves(2, 3, 32, 32)))
    found[-1].sum().backward()
record(*(f / f.abs().max() for f in found))
""",
    ),
]


def environment(wheel: str | None) -> str:
    """Make the environment if it is not there, with the wheel if one is given; return its Python."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    if subprocess.run([*pip, "-r", str(HERE / "requirements-packages.txt")], check=False).returncode:
        print("packages.py: skipped: the packages cannot be installed")
        raise SystemExit
    if wheel:
        subprocess.run([*pip, "--force-reinstall", wheel], check=True)
    return str(python)


def attempt(command: list[str], env: dict[str, str], program: str) -> tuple[str, list[float] | None]:
    """Run a program; return "runs", or the last line of its error, and what it recorded."""
    with tempfile.TemporaryDirectory() as folder:
        file, recorded = Path(folder, "program.py"), Path(folder, "recorded.json")
        file.write_text(_PRELUDE + program)
        env = {**os.environ, **env, "HF_HUB_OFFLINE": "1", "RECORDED": str(recorded)}
        done = subprocess.run(
            [*command, str(file)], env=env, capture_output=True, text=True, check=False, timeout=600, cwd=folder
        )
        if done.returncode == 0:
            return "runs", json.loads(recorded.read_text()) if recorded.exists() else None
    lines = [line for line in done.stderr.splitlines() if line and not line[0].isspace()]
    return f"`{(lines or ['no output'])[-1][:120]}`", None


def compared(found: list[float] | None, want: list[float] | None) -> str:
    """Return "runs" where the values are PyTorch's, or else what differs."""
    if len(found or []) != len(want or []):
        return f"{len(found or [])} values, PyTorch has {len(want or [])}"
    most = max(map(abs, want or []), default=0.0)
    for i, (x, y) in enumerate(zip(found or [], want or [], strict=True)):
        if not abs(x - y) <= TOLERANCE * most:
            return f"value {i} is {x}, PyTorch's {y}"
    return "runs"


def write_values(python: str) -> None:
    """Write the values that PyTorch has."""
    values = {}
    for package, what, program in PROGRAMS:
        if "record(" in program:
            result, found = attempt([python], {}, program)
            if found is None:
                raise SystemExit(f"{package}, {what}: {result}")
            values[f"{package}: {what}"] = [float(f"{x:.7g}") for x in found]
    VALUES.write_text(json.dumps(values, indent=1).replace("\n  ", " ") + "\n")


def main() -> int:
    """Try everything and print the table."""
    if sys.argv[1:2] == ["--record"]:
        write_values(sys.argv[2])
        return 0
    wheel = sys.argv[1] if len(sys.argv) > 1 else None
    python = environment(wheel)
    env = {"TORCHLETTE_DEVICE": "cpu", **({} if wheel else {"PYTHONPATH": str(ROOT / "python")})}
    found = subprocess.run([python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
    versions = dict(line.lower().replace("_", "-").split("==") for line in found.splitlines() if "==" in line)
    values, wrong = json.loads(VALUES.read_text()), 0
    print("| package | version | what | result |\n|---|---|---|---|")
    for package, what, program in PROGRAMS:
        result, numbers = attempt([python, "-m", "torchlette.as_torch"], env, program)
        if result == "runs":
            result = compared(numbers, values.get(f"{package}: {what}"))
        wrong += result != "runs"
        version = versions.get(package.replace("_", "-"), "?")
        print(f"| {package} | {version} | {what} | {result} |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
