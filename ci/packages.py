"""Runs packages written for PyTorch on torchlette: makes an environment without PyTorch, installs them, and tries them.

``python ci/packages.py`` uses the torchlette beside it, which ``make develop`` has built. Each program below runs in a
process of its own under ``torchlette.as_torch``. docs/packages.md keeps the table that it prints. pip fetches the
packages; the programs fetch nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / "build" / "packages"

# All are installed without their dependencies, so that PyTorch stays out.
PACKAGES = """
accelerate diffusers einops gpytorch lightning peft safetensors timm torch_geometric torchmetrics torchvision
transformers
aiohappyeyeballs aiohttp aiosignal anyio attrs certifi charset-normalizer click filelock frozenlist fsspec h11 hf-xet
httpcore httpcore2 httpx httpx2 huggingface_hub idna importlib_metadata jaxtyping jinja2 joblib lightning-utilities
linear_operator MarkupSafe mpmath multidict networkx numpy packaging pillow propcache psutil pyparsing
pytorch-lightning pyyaml regex requests scikit-learn scipy shellingham sniffio sympy threadpoolctl tokenizers tqdm
truststore typer typing_extensions urllib3 wadler-lindig xxhash yarl zipp
""".split()

_GPT2 = """
import torch, tempfile
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=100, n_positions=64, bos_token_id=1,
                                   eos_token_id=2))
x = torch.randint(3, 100, (2, 8))
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
"""

_BERT = """
import torch, tempfile
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
model = BertForSequenceClassification(BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                                 intermediate_size=64, vocab_size=100))
data = [{"input_ids": torch.randint(0, 100, (8,)), "labels": torch.tensor(i % 2)} for i in range(16)]
"""

#: What is tried: the package, what it does, and the program that does it.
PROGRAMS: list[tuple[str, str, str]] = [
    ("transformers", "GPT-2: forward, backward, AdamW", _GPT2 + _STEPS),
    ("transformers", "GPT-2: generate", _GPT2 + "assert model.generate(x, max_new_tokens=5).shape[1] > 8"),
    (
        "transformers",
        "GPT-2: save_pretrained, from_pretrained",
        _GPT2 + "d = tempfile.mkdtemp()\nmodel.save_pretrained(d)\nGPT2LMHeadModel.from_pretrained(d)",
    ),
    (
        "transformers",
        "BERT: Trainer",
        _BERT
        + """
arguments = TrainingArguments(tempfile.mkdtemp(), num_train_epochs=1, per_device_train_batch_size=4, report_to=[],
                              use_cpu=True, save_strategy="no")
Trainer(model=model, args=arguments, train_dataset=data).train()
""",
    ),
    (
        "peft",
        "LoRA on GPT-2, saved and reloaded",
        _GPT2
        + """
from peft import LoraConfig, PeftModel, get_peft_model
base = model
model = get_peft_model(base, LoraConfig(r=4, target_modules=["c_attn"], task_type="CAUSAL_LM"))
"""
        + _STEPS
        + "d = tempfile.mkdtemp()\nmodel.save_pretrained(d)\n"
        + "PeftModel.from_pretrained(GPT2LMHeadModel(base.config), d)",
    ),
    (
        "safetensors",
        "save_file, load_file",
        """
import torch, tempfile
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
import torch
from accelerate import Accelerator
accelerator, model = Accelerator(cpu=True), torch.nn.Linear(2, 1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(8, 2)), batch_size=4)
model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), data)
for (x,) in data:
    optimizer.zero_grad()
    accelerator.backward(model(x).mean())
    optimizer.step()
""",
    ),
    (
        "diffusers",
        "UNet2DModel: forward, backward; DDPM's noise",
        """
import torch
from diffusers import DDPMScheduler, UNet2DModel
model = UNet2DModel(sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(32, 32),
                    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
x, t = torch.randn(2, 1, 8, 8), torch.tensor([3, 5])
noise = torch.randn_like(x)
torch.nn.functional.mse_loss(model(DDPMScheduler(10).add_noise(x, noise, t), t).sample, noise).backward()
assert all(p.grad is not None for p in model.parameters())
""",
    ),
    (
        "gpytorch",
        "exact regression",
        """
import torch, gpytorch
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
""",
    ),
    (
        "torchmetrics",
        "accuracy",
        "import torch, torchmetrics\ntorchmetrics.Accuracy('binary')(torch.rand(4), torch.ones(4))",
    ),
    (
        "einops",
        "rearrange",
        "import torch, einops\nassert einops.rearrange(torch.ones(2, 6), 'a (b c) -> b a c', b=2).ndim == 3",
    ),
    (
        "accelerate",
        "init_empty_weights, load_checkpoint_and_dispatch",
        """
import torch, accelerate, tempfile
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
import torch, lightning, tempfile
class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(16, 4), torch.rand(16, 1)), batch_size=4)
d = tempfile.mkdtemp()
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False,
                            default_root_dir=d)
trainer.fit(Net(), data)
trainer.save_checkpoint(d + "/x.ckpt")
Net.load_from_checkpoint(d + "/x.ckpt")
""",
    ),
    (
        "torch_geometric",
        "GCNConv: forward, backward",
        """
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
data = Data(x=torch.rand(4, 3), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
GCNConv(3, 2)(data.x, data.edge_index).sum().backward()
""",
    ),
    (
        "torchvision",
        "ResNet: forward, backward; features by torch.fx",
        """
import torch, torchvision
from torchvision.models.feature_extraction import create_feature_extractor
model, x = torchvision.models.resnet18(num_classes=3), torch.rand(2, 3, 64, 64)
model(x).sum().backward()
found = create_feature_extractor(model, ["layer1", "layer4"])(x)
assert found["layer4"].shape == (2, 512, 2, 2)
""",
    ),
    (
        "torchvision",
        "nms, roi_align with its gradient, transforms",
        """
import torch, torchvision
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
import torch, timm
timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=3)(torch.rand(1, 3, 32, 32)).sum().backward()
timm.create_model("resnet18", num_classes=3)(torch.rand(2, 3, 32, 32)).sum().backward()
""",
    ),
]


def environment() -> str:
    """Make the environment if it is not there; return its Python."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", *PACKAGES]
    if subprocess.run(pip, check=False).returncode:
        raise SystemExit("packages.py: skipped: the packages cannot be installed")
    return str(python)


def attempt(python: str, program: str) -> str:
    """Run a program; return "runs", or the last line of its error."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "HF_HUB_OFFLINE": "1", "TORCHLETTE_DEVICE": "cpu"}
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(program)
        file.flush()
        command = [python, "-m", "torchlette.as_torch", file.name]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode == 0:
        return "runs"
    lines = [line for line in done.stderr.splitlines() if line and not line[0].isspace()]
    return f"`{(lines or ['no output'])[-1][:120]}`"


def main() -> None:
    """Try everything and print the table."""
    python = environment()
    found = subprocess.run([python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
    versions = dict(line.lower().replace("_", "-").split("==") for line in found.splitlines() if "==" in line)
    print("| package | version | what | result |\n|---|---|---|---|")
    for package, what, program in PROGRAMS:
        version = versions.get(package.replace("_", "-"), "?")
        print(f"| {package} | {version} | {what} | {attempt(python, program)} |", flush=True)


if __name__ == "__main__":
    main()
