"""A tiny protein folder: MSA and pair representations, recycling, frames, and the frame-aligned point error."""

import torch
import torch.nn.functional as F
from torch import nn

RESIDUES, ROWS, LETTERS = 10, 4, 21
MSA, PAIR, HEADS = 16, 12, 2


class RowAttention(nn.Module):
    """Attention along the residues of every sequence, biased by the pair representation, gated."""

    def __init__(self):
        super().__init__()
        self.norm, self.pair_norm = nn.LayerNorm(MSA), nn.LayerNorm(PAIR)
        self.query, self.key = nn.Linear(MSA, MSA, bias=False), nn.Linear(MSA, MSA, bias=False)
        self.value, self.gate = nn.Linear(MSA, MSA, bias=False), nn.Linear(MSA, MSA)
        self.bias = nn.Linear(PAIR, HEADS, bias=False)
        self.out = nn.Linear(MSA, MSA)

    def forward(self, msa, pair):
        x = self.norm(msa)
        q, k, v = (layer(x).unflatten(-1, (HEADS, -1)) for layer in (self.query, self.key, self.value))
        logits = torch.einsum("sihd,sjhd->shij", q, k) / q.shape[-1] ** 0.5
        logits = logits + self.bias(self.pair_norm(pair)).permute(2, 0, 1)
        read = torch.einsum("shij,sjhd->sihd", logits.softmax(-1), v).flatten(-2)
        return msa + self.out(torch.sigmoid(self.gate(x)) * read)


class OuterProductMean(nn.Module):
    def __init__(self, hidden=6):
        super().__init__()
        self.norm = nn.LayerNorm(MSA)
        self.left, self.right = nn.Linear(MSA, hidden), nn.Linear(MSA, hidden)
        self.out = nn.Linear(hidden * hidden, PAIR)

    def forward(self, msa):
        x = self.norm(msa)
        outer = torch.einsum("sia,sjb->ijab", self.left(x), self.right(x)) / msa.shape[0]
        return self.out(outer.flatten(-2))


class TriangleMultiply(nn.Module):
    def __init__(self, outgoing, hidden=10):
        super().__init__()
        self.outgoing = outgoing
        self.norm_in, self.norm_out = nn.LayerNorm(PAIR), nn.LayerNorm(hidden)
        self.left, self.left_gate = nn.Linear(PAIR, hidden), nn.Linear(PAIR, hidden)
        self.right, self.right_gate = nn.Linear(PAIR, hidden), nn.Linear(PAIR, hidden)
        self.gate, self.out = nn.Linear(PAIR, PAIR), nn.Linear(hidden, PAIR)

    def forward(self, pair):
        z = self.norm_in(pair)
        a = torch.sigmoid(self.left_gate(z)) * self.left(z)
        b = torch.sigmoid(self.right_gate(z)) * self.right(z)
        if self.outgoing:
            product = torch.einsum("ikc,jkc->ijc", a, b)
        else:
            product = torch.einsum("kic,kjc->ijc", a, b)
        return torch.sigmoid(self.gate(z)) * self.out(self.norm_out(product))


class Transition(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        return x + self.net(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = RowAttention()
        self.msa_transition = Transition(MSA)
        self.outer = OuterProductMean()
        self.outgoing, self.incoming = TriangleMultiply(True), TriangleMultiply(False)
        self.pair_transition = Transition(PAIR)

    def forward(self, msa, pair):
        msa = self.msa_transition(self.rows(msa, pair))
        pair = pair + self.outer(msa)
        pair = pair + self.outgoing(pair)
        pair = pair + self.incoming(pair)
        return msa, self.pair_transition(pair)


class Structure(nn.Module):
    """Frames by repeated rigid updates; the rotations come from quaternions (1, b, c, d)."""

    def __init__(self, rounds=2):
        super().__init__()
        self.rounds = rounds
        self.mix = nn.Linear(MSA + PAIR + 3, MSA)
        self.update = nn.Linear(MSA, 6)

    def rotation(self, vector):
        quaternion = F.pad(vector, (1, 0), value=1.0)
        w, x, y, z = (quaternion / quaternion.norm(dim=-1, keepdim=True)).unbind(-1)
        rows = [
            torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1),
            torch.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1),
            torch.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1),
        ]
        return torch.stack(rows, -2)

    def forward(self, single, pair):
        rotations = torch.eye(3).expand(len(single), 3, 3)
        places = torch.zeros(len(single), 3)
        for _ in range(self.rounds):
            center = places - places.mean(0)
            local = torch.einsum("iba,ib->ia", rotations, center)
            single = single + torch.tanh(self.mix(torch.cat([single, pair.mean(1), local], dim=-1)))
            turn, move = self.update(single).chunk(2, dim=-1)
            places = places + torch.einsum("iab,ib->ia", rotations, move)
            rotations = rotations @ self.rotation(turn)
        return rotations, places


class Folder(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(LETTERS, MSA)
        self.relative = nn.Embedding(9, PAIR)
        self.recycle_norm = nn.LayerNorm(PAIR)
        self.recycle_distance = nn.Embedding(8, PAIR)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.structure = Structure()

    def once(self, tokens, previous):
        msa = self.letters(tokens)
        place = torch.arange(tokens.shape[1])
        pair = self.relative((place[:, None] - place[None, :]).clamp(-4, 4) + 4)
        if previous is not None:
            old_pair, old_places = previous
            bins = torch.bucketize(torch.cdist(old_places, old_places), torch.linspace(0.3, 3.0, 7))
            pair = pair + self.recycle_norm(old_pair) + self.recycle_distance(bins)
        for block in self.blocks:
            msa, pair = block(msa, pair)
        rotations, places = self.structure(msa[0], pair)
        return pair, rotations, places

    def forward(self, tokens, cycles):
        previous = None
        with torch.no_grad():
            for _ in range(cycles - 1):
                pair, _, places = self.once(tokens, previous)
                previous = pair, places
        return self.once(tokens, previous)


def fape(rotations, places, true_rotations, true_places, clamp=3.0, scale=2.0):
    """Every point in every frame, compared with the truth; far errors are clamped."""
    seen = torch.einsum("iba,ijb->ija", rotations, places[None] - places[:, None])
    truth = torch.einsum("iba,ijb->ija", true_rotations, true_places[None] - true_places[:, None])
    distance = torch.sqrt((seen - truth).square().sum(-1) + 1e-4)
    return distance.clamp(max=clamp).mean() / scale


def make_protein(step):
    g = torch.Generator().manual_seed(900 + step)
    places = torch.cumsum(0.8 * F.normalize(torch.randn(RESIDUES, 3, generator=g), dim=-1), dim=0)
    ahead = F.normalize(torch.roll(places, -1, 0) - places, dim=-1)
    side = torch.randn(RESIDUES, 3, generator=g)
    side = F.normalize(side - (side * ahead).sum(-1, keepdim=True) * ahead, dim=-1)
    rotations = torch.stack([ahead, side, torch.cross(ahead, side, dim=-1)], dim=-1)
    tokens = torch.randint(0, LETTERS, (1, RESIDUES), generator=g).repeat(ROWS, 1)
    changed = torch.rand(ROWS, RESIDUES, generator=g) < 0.3
    changed[0] = False
    return torch.where(changed, torch.randint(0, LETTERS, (ROWS, RESIDUES), generator=g), tokens), rotations, places


def main():
    torch.manual_seed(4)
    model = Folder()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, betas=(0.9, 0.99), eps=1e-3)
    for step in range(3):
        sums = [torch.zeros_like(p) for p in model.parameters()]
        shown = 0.0
        for part in range(2):
            tokens, rotations, places = make_protein(2 * step + part)
            _, made_rotations, made_places = model(tokens, cycles=1 + (step + part) % 3)
            loss = fape(made_rotations, made_places, rotations, places)
            grads = torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True)
            norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
            for total, g in zip(sums, grads):
                total += g * torch.clamp(0.5 / (norm + 1e-6), max=1.0) / 2
            shown += loss.item() / 2
        for p, total in zip(model.parameters(), sums):
            p.grad = total
        optimizer.step()
        print(f"step {step} loss {shown:.9f}")


if __name__ == "__main__":
    main()
