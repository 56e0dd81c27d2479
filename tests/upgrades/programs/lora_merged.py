"""LoRA with weights merged in every forward (W + s * B @ A); one fused qkv matrix, merged before evaluation."""

import torch
from torch import nn
from torch.nn import functional as F

N_VOCAB, WIDTH, N_HEAD, N_BLOCK, RANK, ALPHA, INNER = 31, 24, 3, 2, 4, 8, 40


class Delta(nn.Module):
    """low-rank update of rows [start, start + rows) of a frozen matrix"""

    def __init__(self, start, rows, cols):
        super().__init__()
        self.start, self.rows = start, rows
        self.a = nn.Parameter(torch.zeros(RANK, cols))
        self.b = nn.Parameter(torch.zeros(rows, RANK))

    def forward(self, total):
        update = (ALPHA / RANK) * (self.b @ self.a)
        return F.pad(update, (0, 0, self.start, total - self.start - self.rows))


class MergedLinear(nn.Module):
    def __init__(self, cin, cout, places):
        super().__init__()
        self.register_buffer("weight", torch.zeros(cout, cin))
        self.register_buffer("bias", torch.zeros(cout))
        self.deltas = nn.ModuleList(Delta(start, rows, cin) for start, rows in places)
        self.merged = False

    def effective(self):
        w = self.weight
        for d in self.deltas:
            w = w + d(w.shape[0])
        return w

    @torch.no_grad()
    def merge(self):
        self.weight.copy_(self.effective())
        self.merged = True

    def forward(self, x):
        w = self.weight if self.merged else self.effective()
        return torch.addmm(self.bias, x.flatten(0, -2), w.t()).view(*x.shape[:-1], -1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.pre, self.post = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = MergedLinear(WIDTH, 3 * WIDTH, [(0, WIDTH), (2 * WIDTH, WIDTH)])
        self.o = MergedLinear(WIDTH, WIDTH, [])
        self.up = MergedLinear(WIDTH, INNER, [(0, INNER)])
        self.down = MergedLinear(INNER, WIDTH, [])
        self.register_buffer("tri", torch.tril(torch.ones(32, 32, dtype=torch.bool)), persistent=False)

    def attend(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, N_HEAD, WIDTH // N_HEAD).unbind(2)
        s = torch.einsum("bihd,bjhd->bhij", q, k) / (WIDTH // N_HEAD) ** 0.5
        p = s.masked_fill(~self.tri[:t, :t], float("-inf")).softmax(-1)
        return self.o(torch.einsum("bhij,bjhd->bihd", p, v).reshape(b, t, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.pre(x))
        return x + self.down(F.relu(self.up(self.post(x))) ** 2)


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(N_VOCAB, WIDTH)
        self.stack = nn.Sequential(*[Layer() for _ in range(N_BLOCK)])
        self.final = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, N_VOCAB)

    def forward(self, ids):
        return self.out(self.final(self.stack(self.table(ids))))

    def merge(self):
        for m in self.modules():
            if isinstance(m, MergedLinear):
                m.merge()


def pretrained():
    """state by the reference's names, one seed per name in sorted order"""
    shapes = {
        "emb.weight": (N_VOCAB, WIDTH),
        "ln.weight": (WIDTH,),
        "ln.bias": (WIDTH,),
        "lm_head.weight": (N_VOCAB, WIDTH),
        "lm_head.bias": (N_VOCAB,),
    }
    for i in range(N_BLOCK):
        p = f"blocks.{i}."
        for n in ("ln1", "ln2"):
            shapes[p + n + ".weight"] = shapes[p + n + ".bias"] = (WIDTH,)
        for n, cin, cout, lora in (
            ("attn.q_proj", WIDTH, WIDTH, 1),
            ("attn.k_proj", WIDTH, WIDTH, 0),
            ("attn.v_proj", WIDTH, WIDTH, 1),
            ("attn.o_proj", WIDTH, WIDTH, 0),
            ("fc", WIDTH, INNER, 1),
            ("out", INNER, WIDTH, 0),
        ):
            base = p + n + (".base" if lora else "")
            shapes[base + ".weight"], shapes[base + ".bias"] = (cout, cin), (cout,)
            if lora:
                shapes[p + n + ".lora_a"], shapes[p + n + ".lora_b"] = (RANK, cin), (cout, RANK)
    out = {}
    for i, name in enumerate(sorted(shapes)):
        noise = torch.randn(shapes[name], generator=torch.Generator().manual_seed(4000 + i))
        out[name] = noise * (0.25 if noise.dim() > 1 else 0.1) + (1.0 if "ln" in name and "weight" in name else 0.0)
    return out


def load(model, sd):
    sets = [("table", "emb"), ("final", "ln"), ("out", "lm_head")]
    sets += [
        (f"stack.{i}.{a}", f"blocks.{i}.{b}")
        for i in range(N_BLOCK)
        for a, b in (("pre", "ln1"), ("post", "ln2"), ("o", "attn.o_proj"), ("up", "fc.base"), ("down", "out"))
    ]
    own = model.state_dict()
    for dst, src in sets:
        for kind in ("weight", "bias"):
            if f"{src}.{kind}" in sd:
                own[f"{dst}.{kind}"].copy_(sd[f"{src}.{kind}"])
    for i in range(N_BLOCK):
        p, q = f"blocks.{i}.attn.", f"stack.{i}.qkv."
        for kind in ("weight", "bias"):
            own[q + kind].copy_(torch.cat([sd[p + n + kind] for n in ("q_proj.base.", "k_proj.", "v_proj.base.")]))
        for name, src in (
            (f"stack.{i}.qkv.deltas.0.", p + "q_proj."),
            (f"stack.{i}.qkv.deltas.1.", p + "v_proj."),
            (f"stack.{i}.up.deltas.0.", f"blocks.{i}.fc."),
        ):
            own[name + "a"].copy_(sd[src + "lora_a"])
            own[name + "b"].copy_(sd[src + "lora_b"])


def text(seed):
    ids = torch.randint(0, N_VOCAB, (4, 10), generator=torch.Generator().manual_seed(seed))
    return ids[:, :-1], ids[:, 1:]


def lm_loss(model, seed):
    x, y = text(seed)
    return F.cross_entropy(model(x).transpose(1, 2), y)


def main():
    model = LM()
    load(model, pretrained())
    adapters = [p for n, p in model.named_parameters() if ".deltas." in n]
    opt = torch.optim.AdamW(adapters, lr=1e-2, weight_decay=0.1)
    for step in range(3):
        opt.zero_grad()
        loss = lm_loss(model, step)
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")
    model.merge()
    with torch.no_grad():
        print(f"eval loss {lm_loss(model, 50).item():.9f}")


if __name__ == "__main__":
    main()
