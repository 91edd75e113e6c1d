"""Language models as people write them; ``torch`` is the library, PyTorch or ours."""

from __future__ import annotations

import math

import numpy as np

VOCABULARY, WIDTH, HEADS, LENGTH = 29, 16, 2, 7


def gpt2(torch):
    """GPT-2 in the style of Hugging Face: transposed weights, a mask buffer, tied embeddings."""
    nn = torch.nn

    class Conv1D(nn.Module):
        def __init__(self, out, size):
            super().__init__()
            self.out = out
            self.weight = nn.Parameter(torch.empty(size, out))
            self.bias = nn.Parameter(torch.zeros(out))
            nn.init.normal_(self.weight, std=0.02)

        def forward(self, x):
            return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(x.size()[:-1] + (self.out,))

    class NewGELU(nn.Module):
        def forward(self, x):
            return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            mask = torch.tril(torch.ones((LENGTH, LENGTH), dtype=torch.bool)).view(1, 1, LENGTH, LENGTH)
            self.register_buffer("bias", mask, persistent=False)
            self.c_attn, self.c_proj = Conv1D(3 * WIDTH, WIDTH), Conv1D(WIDTH, WIDTH)

        def split(self, x):
            return x.view(x.size()[:-1] + (HEADS, WIDTH // HEADS)).permute(0, 2, 1, 3)

        def forward(self, x):
            q, k, v = map(self.split, self.c_attn(x).split(WIDTH, dim=2))
            scores = torch.matmul(q, k.transpose(-1, -2)) / torch.full(
                [], v.size(-1) ** 0.5, dtype=q.dtype, device=q.device
            )
            n, m = q.size(-2), k.size(-2)
            lowest = torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype, device=scores.device)
            scores = torch.where(self.bias[:, :, m - n : m, :m], scores, lowest)
            y = torch.matmul(nn.functional.softmax(scores, dim=-1).type(v.dtype), v)
            y = y.permute(0, 2, 1, 3).contiguous()
            return self.c_proj(y.view(y.size()[:-2] + (WIDTH,)))

    class MLP(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_fc, self.c_proj, self.act = Conv1D(4 * WIDTH, WIDTH), Conv1D(WIDTH, 4 * WIDTH), NewGELU()

        def forward(self, x):
            return self.c_proj(self.act(self.c_fc(x)))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.attn = nn.LayerNorm(WIDTH, eps=1e-5), Attention()
            self.ln_2, self.mlp = nn.LayerNorm(WIDTH, eps=1e-5), MLP()

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class GPT2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
            self.h = nn.ModuleList([Block() for _ in range(2)])
            self.ln_f = nn.LayerNorm(WIDTH)
            self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
            self.lm_head.weight = self.wte.weight

        def forward(self, ids):
            position = torch.arange(0, ids.size(-1), dtype=torch.long, device=ids.device).unsqueeze(0)
            x = self.wte(ids) + self.wpe(position)
            for block in self.h:
                x = block(x)
            return self.lm_head(self.ln_f(x))

    def loss(model, ids):
        logits = model(ids)
        return nn.functional.cross_entropy(
            logits[..., :-1, :].contiguous().view(-1, VOCABULARY), ids[..., 1:].contiguous().view(-1)
        ), logits

    def optimizer(model):
        decay = [p for p in model.parameters() if p.dim() >= 2]
        rest = [p for p in model.parameters() if p.dim() < 2]
        return torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.95)
        )

    return GPT2(), loss, optimizer


def gpt2_batch(random):
    """Return token ids."""
    return [random.integers(0, VOCABULARY, (2, LENGTH))]


def bert(torch):
    """BERT with both pre-training losses."""
    nn = torch.nn

    class Embeddings(nn.Module):
        def __init__(self):
            super().__init__()
            self.word = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
            self.position, self.kind = nn.Embedding(LENGTH, WIDTH), nn.Embedding(2, WIDTH)
            self.norm, self.dropout = nn.LayerNorm(WIDTH, eps=1e-12), nn.Dropout(0.0)
            self.register_buffer("ids", torch.arange(LENGTH).expand((1, -1)))

        def forward(self, words, kinds):
            x = self.word(words) + self.kind(kinds) + self.position(self.ids[:, : words.size(1)])
            return self.dropout(self.norm(x))

    class SelfAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
            self.dense, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH, eps=1e-12)

        def heads(self, x):
            return x.view(*x.shape[:-1], HEADS, -1).transpose(1, 2)

        def forward(self, x, mask):
            q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
            probabilities = nn.Softmax(dim=-1)(q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS) + mask)
            y = (probabilities @ v).permute(0, 2, 1, 3).contiguous()
            return self.norm(self.dense(y.reshape(*y.shape[:2], WIDTH)) + x)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = SelfAttention()
            self.up, self.down, self.norm = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH), nn.LayerNorm(WIDTH, eps=1e-12)

        def forward(self, x, mask):
            x = self.attention(x, mask)
            return self.norm(self.down(nn.functional.gelu(self.up(x))) + x)

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.embeddings, self.layers = Embeddings(), nn.ModuleList(Layer() for _ in range(2))
            self.pooler, self.next = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()), nn.Linear(WIDTH, 2)
            self.transform = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH, eps=1e-12))
            self.bias = nn.Parameter(torch.zeros(VOCABULARY))

        def forward(self, words, kinds, present):
            mask = (1.0 - present[:, None, None, :].to(dtype=torch.float32)) * torch.finfo(torch.float32).min
            x = self.embeddings(words, kinds)
            for layer in self.layers:
                x = layer(x, mask)
            scores = nn.functional.linear(self.transform(x), self.embeddings.word.weight, self.bias)
            return scores, self.next(self.pooler(x[:, 0]))

    def loss(model, words, kinds, present, labels, following):
        scores, next_one = model(words, kinds, present)
        criterion = nn.CrossEntropyLoss()
        return criterion(scores.view(-1, VOCABULARY), labels.view(-1)) + criterion(
            next_one.view(-1, 2), following.view(-1)
        ), scores

    return Bert(), loss, lambda model: torch.optim.Adam(model.parameters(), lr=1e-3)


def bert_batch(random):
    """Return words, segments, mask, labels and whether the second sentence follows."""
    words = random.integers(1, VOCABULARY, (2, LENGTH))
    present = np.ones((2, LENGTH), np.int64)
    present[1, 5:], words[1, 5:] = 0, 0
    labels = np.where(random.random((2, LENGTH)) < 0.4, words, -100)
    labels[0, 0] = words[0, 0]
    return [words, (np.arange(LENGTH)[None] > 3).repeat(2, 0).astype(np.int64), present, labels, np.array([0, 1])]


def lstm_classifier(torch):
    """Classify padded sequences by a bidirectional LSTM over packed ones."""
    nn = torch.nn

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, 8, padding_idx=0)
            self.lstm = nn.LSTM(8, 6, num_layers=2, batch_first=True, bidirectional=True)
            self.classify = nn.Sequential(nn.Dropout(0.0), nn.Linear(12, 3))

        def forward(self, ids):
            lengths = (ids != 0).sum(1).cpu()
            packed = nn.utils.rnn.pack_padded_sequence(
                self.embedding(ids), lengths, batch_first=True, enforce_sorted=False
            )
            outputs, (hidden, _) = self.lstm(packed)
            padded, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
            return self.classify(torch.cat((hidden[-2], hidden[-1]), dim=1) + padded.mean(1))

    def loss(model, ids, labels):
        scores = model(ids)
        return nn.functional.cross_entropy(scores, labels, label_smoothing=0.1), scores

    return Classifier(), loss, lambda model: torch.optim.RMSprop(model.parameters(), lr=1e-2)


def lstm_batch(random):
    """Return padded ids and labels."""
    ids = random.integers(1, VOCABULARY, (3, LENGTH))
    ids[0, 4:], ids[2, 2:] = 0, 0
    return [ids, np.array([0, 2, 1])]


def experts(torch):
    """Tokens routed to the best two of four experts, trained by an optimizer that is written with lists of tensors
    (Lion).
    """
    nn, f = torch.nn, torch.nn.functional

    class Experts(nn.Module):
        def __init__(self, width=8, count=4):
            super().__init__()
            self.router = nn.Linear(width, count, bias=False)
            self.experts = nn.ModuleList(
                [
                    nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
                    for _ in range(count)
                ]
            )
            self.head = nn.Linear(width, 3)

        def forward(self, x):
            weights, chosen = torch.topk(f.softmax(self.router(x), dim=-1), 2)
            weights = weights / weights.sum(dim=-1, keepdim=True)
            out = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                token, slot = torch.where(chosen == i)
                out = out.index_add(0, token, expert(x[token]) * weights[token, slot, None])
            return self.head(x + out)

    class Lion(torch.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr, "betas": (0.9, 0.99), "weight_decay": 0.1})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                grads, (fast, slow) = [p.grad for p in params], group["betas"]
                for p in params:
                    self.state[p].setdefault("average", torch.zeros_like(p))
                averages = [self.state[p]["average"] for p in params]
                updates = torch._foreach_lerp(averages, grads, 1 - fast)
                torch._foreach_sign_(updates)
                torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(params, updates, alpha=-group["lr"])
                torch._foreach_lerp_(averages, grads, 1 - slow)

    def loss(model, x, labels):
        out = model(x)
        return f.cross_entropy(out, labels), out

    return Experts(), loss, lambda model: Lion(model.parameters(), lr=5e-5)


def experts_batch(random):
    """Return tokens and labels."""
    return [random.standard_normal((12, 8)).astype(np.float32), random.integers(0, 3, 12)]
