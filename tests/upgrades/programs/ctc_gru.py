import torch
import torch.nn as nn
import torch.nn.functional as F

MELS = 20
HIDDEN = 32
VOCAB = 9
NEG = -1e30


class Frontend(nn.Module):
    """Strided convolution written as unfold + matmul, then a layer norm."""

    def __init__(self, kernel=5, stride=2):
        super().__init__()
        self.kernel = kernel
        self.stride = stride
        self.weight = nn.Parameter(torch.empty(HIDDEN, MELS, kernel))
        self.bias = nn.Parameter(torch.empty(HIDDEN))
        self.gain = nn.Parameter(torch.ones(HIDDEN))
        self.shift = nn.Parameter(torch.zeros(HIDDEN))

    def forward(self, mels):
        pad = self.kernel // 2
        padded = F.pad(mels, (0, 0, pad, pad))
        frames = padded.unfold(1, self.kernel, self.stride)
        x = torch.einsum("btmk,hmk->bth", frames, self.weight) + self.bias
        mean = x.mean(dim=-1, keepdim=True)
        var = (x - mean).pow(2).mean(dim=-1, keepdim=True)
        x = (x - mean) * torch.rsqrt(var + 1e-5)
        return F.gelu(x * self.gain + self.shift)


class GRUDirection(nn.Module):
    def __init__(self, size_in, size):
        super().__init__()
        self.size = size
        self.weight_ih = nn.Parameter(torch.empty(3 * size, size_in))
        self.weight_hh = nn.Parameter(torch.empty(3 * size, size))
        self.bias_ih = nn.Parameter(torch.empty(3 * size))
        self.bias_hh = nn.Parameter(torch.empty(3 * size))

    def cell(self, gates_x, h):
        gates_h = F.linear(h, self.weight_hh, self.bias_hh)
        x_r, x_z, x_n = gates_x.chunk(3, dim=-1)
        h_r, h_z, h_n = gates_h.chunk(3, dim=-1)
        reset = torch.sigmoid(x_r + h_r)
        update = torch.sigmoid(x_z + h_z)
        new = torch.tanh(x_n + reset * h_n)
        return (1 - update) * new + update * h

    def forward(self, x):
        gates = F.linear(x, self.weight_ih, self.bias_ih)
        h = x.new_zeros(x.shape[0], self.size)
        outputs = []
        for t in range(x.shape[1]):
            h = self.cell(gates[:, t], h)
            outputs.append(h)
        return torch.stack(outputs, dim=1)


def reverse_by_length(x, lengths):
    """Reverses the first lengths[i] frames of row i and leaves the padding in place."""
    steps = torch.arange(x.shape[1])[None, :]
    index = lengths[:, None] - 1 - steps
    index = torch.where(index >= 0, index, steps)
    return x.gather(1, index[..., None].expand_as(x))


class BiGRULayer(nn.Module):
    def __init__(self, size_in, size):
        super().__init__()
        self.fwd = GRUDirection(size_in, size)
        self.bwd = GRUDirection(size_in, size)

    def forward(self, x, lengths):
        ahead = self.fwd(x)
        back = self.bwd(reverse_by_length(x, lengths))
        back = reverse_by_length(back, lengths)
        out = torch.cat([ahead, back], dim=-1)
        valid = torch.arange(x.shape[1])[None, :] < lengths[:, None]
        return out * valid[..., None]


class Recognizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.frontend = Frontend()
        self.layers = nn.ModuleList([BiGRULayer(HIDDEN, HIDDEN), BiGRULayer(2 * HIDDEN, HIDDEN)])
        self.head = nn.Linear(2 * HIDDEN, VOCAB)

    def forward(self, mels, lengths):
        x = self.frontend(mels)
        lengths = (lengths + 1) // 2
        for layer in self.layers:
            x = layer(x, lengths)
        return self.head(x).log_softmax(dim=-1), lengths


def ctc_loss(logp, labels, lengths, label_lengths, blank=0):
    """Forward algorithm in log space, all utterances at once."""
    batch, size = labels.shape
    extended = labels.new_full((batch, 2 * size + 1), blank)
    extended[:, 1::2] = labels
    emit = logp.gather(2, extended[:, None, :].expand(-1, logp.shape[1], -1))
    differs = extended[:, 2:] != extended[:, :-2]
    may_skip = (extended[:, 2:] != blank) & differs
    may_skip = F.pad(may_skip, (2, 0), value=False)

    alpha = logp.new_full(extended.shape, NEG)
    alpha = torch.cat([emit[:, 0, :2], alpha[:, 2:]], dim=1)
    for t in range(1, logp.shape[1]):
        one = F.pad(alpha, (1, 0), value=NEG)[:, :-1]
        two = F.pad(alpha, (2, 0), value=NEG)[:, :-2]
        two = torch.where(may_skip, two, torch.full_like(two, NEG))
        moved = torch.logsumexp(torch.stack([alpha, one, two]), dim=0) + emit[:, t]
        running = (t < lengths)[:, None]
        alpha = torch.where(running, moved, alpha)

    last = (2 * label_lengths)[:, None]
    end_blank = alpha.gather(1, last)
    end_label = alpha.gather(1, last - 1)
    total = torch.logaddexp(end_blank, end_label).squeeze(1)
    return (-total / label_lengths).mean()


def load_weights(model, path):
    source = torch.load(path, weights_only=True)
    mapped = {
        "frontend.weight": source["conv.weight"],
        "frontend.bias": source["conv.bias"],
        "frontend.gain": source["norm.weight"],
        "frontend.shift": source["norm.bias"],
        "head.weight": source["head.weight"],
        "head.bias": source["head.bias"],
    }
    for i in range(2):
        for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            mapped[f"layers.{i}.fwd.{part}"] = source[f"gru.{part}_l{i}"]
            mapped[f"layers.{i}.bwd.{part}"] = source[f"gru.{part}_l{i}_reverse"]
    model.load_state_dict(mapped)


def batches(count):
    gen = torch.Generator().manual_seed(5)
    for _ in range(count):
        mels = torch.randn(4, 40, MELS, generator=gen)
        lengths = torch.tensor([40, 33, 36, 29])
        for i, n in enumerate(lengths.tolist()):
            mels[i, n:] = 0.0
        labels = torch.randint(1, VOCAB, (4, 7), generator=gen)
        labels[:, 3] = labels[:, 2]
        label_lengths = torch.tensor([7, 5, 6, 4])
        yield mels, lengths, labels, label_lengths


def main():
    torch.manual_seed(11)
    model = Recognizer()
    load_weights(model, "weights.pt")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for step, (mels, lengths, labels, label_lengths) in enumerate(batches(3)):
        logp, out_lengths = model(mels, lengths)
        loss = ctc_loss(logp, labels, out_lengths, label_lengths)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
