"""Image models as people write them; ``torch`` is the library, PyTorch or ours."""

from __future__ import annotations

import math

import numpy as np


def resnet(torch):
    """A ResNet of basic blocks with batch norm."""
    nn = torch.nn

    class BasicBlock(nn.Module):
        def __init__(self, inplanes, planes, stride=1, downsample=None):
            super().__init__()
            self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.downsample = downsample

        def forward(self, x):
            identity = x if self.downsample is None else self.downsample(x)
            out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            out += identity
            return self.relu(out)

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.inplanes = 4
            self.conv1, self.bn1, self.relu = (
                nn.Conv2d(3, 4, 7, 2, 3, bias=False),
                nn.BatchNorm2d(4),
                nn.ReLU(inplace=True),
            )
            self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
            self.layer1, self.layer2 = self.stage(4, 2, 1), self.stage(8, 2, 2)
            self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(8, 5)
            for m in self.modules():
                if isinstance(m, nn.Conv2d):
                    nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                    nn.init.constant_(m.weight, 1)
                    nn.init.constant_(m.bias, 0)

        def stage(self, planes, blocks, stride):
            downsample = None
            if stride != 1 or self.inplanes != planes:
                downsample = nn.Sequential(
                    nn.Conv2d(self.inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes)
                )
            layers = [BasicBlock(self.inplanes, planes, stride, downsample)]
            self.inplanes = planes
            layers += [BasicBlock(planes, planes) for _ in range(1, blocks)]
            return nn.Sequential(*layers)

        def forward(self, x):
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.avgpool(self.layer2(self.layer1(x)))
            return self.fc(torch.flatten(x, 1))

    def loss(model, images, labels):
        scores = model(images)
        return nn.functional.cross_entropy(scores, labels), scores

    return (
        ResNet(),
        loss,
        lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True),
    )


def labelled_images(random):
    """Return images of 16 x 16 in three channels, and labels."""
    return [random.standard_normal((4, 3, 16, 16)).astype(np.float32), random.integers(0, 5, 4)]


def timestep_embedding(torch, t, width):
    """Return sines and cosines of the steps t: [batch, width]."""
    half = width // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(start=0, end=half, dtype=torch.float32, device=t.device) / half)
    args = t[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


def unet_ddpm(torch):
    """One training step of a diffusion model whose net is a U-Net with group norms, attention and interpolation."""
    nn, f = torch.nn, torch.nn.functional

    class ResBlock(nn.Module):
        def __init__(self, cin, cout):
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(2, cin), nn.Conv2d(cin, cout, 3, padding=1)
            self.time = nn.Sequential(nn.SiLU(), nn.Linear(8, 2 * cout))
            self.norm2, self.conv2 = nn.GroupNorm(2, cout), nn.Conv2d(cout, cout, 3, padding="same")
            self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

        def forward(self, x, t):
            h = self.conv1(f.silu(self.norm1(x)))
            scale, shift = self.time(t)[:, :, None, None].chunk(2, dim=1)
            h = self.norm2(h) * (1 + scale) + shift
            return self.conv2(f.silu(h)) + self.skip(x)

    class Attention(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.norm, self.qkv, self.out = (
                nn.GroupNorm(2, channels),
                nn.Conv1d(channels, 3 * channels, 1),
                nn.Conv1d(channels, channels, 1),
            )

        def forward(self, x):
            b, c, *spatial = x.shape
            flat = x.reshape(b, c, -1)
            q, k, v = self.qkv(self.norm(flat)).chunk(3, dim=1)
            weight = torch.softmax(torch.einsum("bct,bcs->bts", q * c**-0.25, k * c**-0.25), dim=-1)
            return (flat + self.out(torch.einsum("bts,bcs->bct", weight, v))).reshape(b, c, *spatial)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 8))
            self.inp, self.down = nn.Conv2d(1, 4, 3, padding=1), ResBlock(4, 4)
            self.pool = nn.Conv2d(4, 8, 3, stride=2, padding=1)
            self.middle, self.attention = ResBlock(8, 8), Attention(8)
            self.up, self.last = (
                ResBlock(12, 4),
                nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv2d(4, 1, 3, padding=1)),
            )

        def forward(self, x, t):
            t = self.embed(timestep_embedding(torch, t, 8))
            h = self.down(self.inp(x), t)
            m = self.attention(self.middle(self.pool(h), t))
            m = f.interpolate(m, scale_factor=2, mode="nearest") + f.interpolate(
                m, size=h.shape[-2:], mode="bilinear", align_corners=False
            )
            return self.last(self.up(torch.cat([m, h], dim=1), t))

    class DDPM(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = UNet()
            betas = torch.linspace(1e-4, 0.02, 100, dtype=torch.float32)
            self.register_buffer("alphas_cumprod", torch.cumsum(torch.log(1.0 - betas), dim=0).exp())

        def forward(self, x, t, noise):
            a = self.alphas_cumprod.gather(-1, t).reshape(-1, *((1,) * (x.dim() - 1)))
            return self.net(torch.sqrt(a) * x + torch.sqrt(1.0 - a) * noise, t)

    def loss(model, x, t, noise):
        guess = model(x, t, noise)
        return f.mse_loss(guess, noise, reduction="none").mean(dim=list(range(1, 4))).mean(), guess

    return DDPM(), loss, lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3)


def ddpm_batch(random):
    """Return images, steps and noise."""
    return [
        random.standard_normal((2, 1, 8, 8)).astype(np.float32),
        np.array([3, 77]),
        random.standard_normal((2, 1, 8, 8)).astype(np.float32),
    ]


def vae(torch):
    """A variational autoencoder of convolutions; the noise is given."""
    nn = torch.nn

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = nn.Sequential(
                nn.Conv2d(1, 4, 3, 2, 1, bias=False),
                nn.BatchNorm2d(4),
                nn.LeakyReLU(),
                nn.Conv2d(4, 8, 3, 2, 1),
                nn.LeakyReLU(0.1),
                nn.Flatten(),
            )
            self.mean, self.log_variance = nn.Linear(32, 3), nn.Linear(32, 3)
            self.decode = nn.Sequential(
                nn.Linear(3, 32),
                nn.Unflatten(1, (8, 2, 2)),
                nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1, bias=False),
                nn.BatchNorm2d(4),
                nn.ELU(),
                nn.ConvTranspose2d(4, 1, 4, 2, 1),
            )

        def forward(self, x, noise):
            h = self.encode(x)
            mean, log_variance = self.mean(h), self.log_variance(h)
            return self.decode(mean + noise * torch.exp(0.5 * log_variance)), mean, log_variance

    def loss(model, x, noise):
        logits, mean, log_variance = model(x, noise)
        reconstruction = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        return reconstruction - 0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp()), logits

    return VAE(), loss, lambda model: torch.optim.Adam(model.parameters(), lr=1e-3, amsgrad=True)


def vae_batch(random):
    """Return images in [0, 1] and noise."""
    return [random.random((4, 1, 8, 8)).astype(np.float32), random.standard_normal((4, 3)).astype(np.float32)]


def vit(torch):
    """A vision transformer of the library's encoder layers."""
    nn = torch.nn

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, 12, kernel_size=4, stride=4)
            self.cls, self.position = nn.Parameter(torch.randn(1, 1, 12)), nn.Parameter(torch.randn(1, 17, 12))
            layer = nn.TransformerEncoderLayer(
                12, 3, 24, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(12), enable_nested_tensor=False)
            self.head = nn.Linear(12, 5)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1) + self.position
            return self.head(self.encoder(x)[:, 0])

    def loss(model, images, labels):
        scores = model(images)
        return nn.functional.cross_entropy(scores, labels), scores

    return ViT(), loss, lambda model: torch.optim.NAdam(model.parameters(), lr=1e-3)
