"""Copy task for a neural Turing machine with one write head and two read heads."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(7)
SLOTS, WIDTH, BITS, HIDDEN, BATCH = 12, 8, 5, 24, 16


def address(memory, raw, w_prev):
    """Section 3.3 of the paper: content, interpolation, shift, sharpening."""
    key, beta, gate, shift, gamma = raw.split([WIDTH, 1, 1, 3, 1], dim=-1)
    sim = F.cosine_similarity(memory, key.tanh().unsqueeze(1), dim=-1, eps=1e-6)
    w_c = F.softmax(F.softplus(beta) * sim, dim=-1)
    g = torch.sigmoid(gate)
    w_g = g * w_c + (1.0 - g) * w_prev
    s = F.softmax(shift, dim=-1)
    w_s = sum(s[:, i : i + 1] * w_g.roll(i - 1, dims=-1) for i in range(3))
    w = w_s.clamp_min(1e-9) ** (1.0 + F.softplus(gamma))
    return w / w.sum(dim=-1, keepdim=True)


class ReadHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.params = nn.Linear(HIDDEN, WIDTH + 6)

    def forward(self, h, memory, w_prev):
        w = address(memory, self.params(h), w_prev)
        return torch.einsum("bn,bnw->bw", w, memory), w


class WriteHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.params = nn.Linear(HIDDEN, WIDTH + 6)
        self.erase = nn.Linear(HIDDEN, WIDTH)
        self.add = nn.Linear(HIDDEN, WIDTH)

    def forward(self, h, memory, w_prev):
        w = address(memory, self.params(h), w_prev).unsqueeze(-1)
        erase = torch.sigmoid(self.erase(h)).unsqueeze(1)
        add = torch.tanh(self.add(h)).unsqueeze(1)
        memory = memory * (1.0 - w * erase) + w * add
        return memory, w.squeeze(-1)


class NTM(nn.Module):
    def __init__(self, n_reads=2):
        super().__init__()
        self.controller = nn.LSTMCell(BITS + 2 + n_reads * WIDTH, HIDDEN)
        self.writer = WriteHead()
        self.readers = nn.ModuleList(ReadHead() for _ in range(n_reads))
        self.out = nn.Linear(HIDDEN + n_reads * WIDTH, BITS)
        self.read0 = nn.Parameter(torch.randn(n_reads, WIDTH) * 0.1)
        self.register_buffer("memory0", torch.randn(SLOTS, WIDTH) * 0.2)
        self.register_buffer("focus", F.one_hot(torch.tensor(0), SLOTS).float())

    def forward(self, seq):
        batch = seq.shape[0]
        memory = self.memory0.expand(batch, -1, -1)
        reads = [r.expand(batch, -1) for r in self.read0]
        w_write = self.focus.expand(batch, -1)
        w_read = [self.focus.expand(batch, -1) for _ in self.readers]
        h = c = seq.new_zeros(batch, HIDDEN)
        outputs = []
        for x in seq.unbind(1):
            h, c = self.controller(torch.cat([x, *reads], dim=-1), (h, c))
            memory, w_write = self.writer(h, memory, w_write)
            for i, reader in enumerate(self.readers):
                reads[i], w_read[i] = reader(h, memory, w_read[i])
            outputs.append(self.out(torch.cat([h, *reads], dim=-1)))
        return torch.stack(outputs, dim=1)


def copy_batch(gen, longest):
    lengths = torch.randint(2, longest + 1, (BATCH,), generator=gen)
    bits = torch.randint(0, 2, (BATCH, longest, BITS), generator=gen).float()
    seq = torch.zeros(BATCH, 2 * longest + 1, BITS + 2)
    target, mask = torch.zeros(BATCH, 2 * longest + 1, BITS), torch.zeros(BATCH, 2 * longest + 1)
    for b, n in enumerate(lengths.tolist()):
        seq[b, :n, :BITS] = bits[b, :n]
        seq[b, 0, BITS] = 1.0
        seq[b, n, BITS + 1] = 1.0
        target[b, n + 1 : 2 * n + 1] = bits[b, :n]
        mask[b, n + 1 : 2 * n + 1] = 1.0
    return seq, target, mask


model = NTM()
optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3, alpha=0.95, momentum=0.9)
gen = torch.Generator().manual_seed(3)
for step in range(3):
    seq, target, mask = copy_batch(gen, longest=4 + step)
    logits = model(seq)
    per_bit = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    loss = (per_bit.sum(-1) * mask).sum() / mask.sum()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
