"""Speech enhancement with a learned filter bank, a causal mask network and overlap-add, in a stream of chunks."""

import torch
from torch import nn

FILTERS, KERNEL, STRIDE, HIDDEN, CHUNK = 20, 16, 8, 24, 4


class CausalConv(nn.Module):
    def __init__(self, channels, kernel, dilation):
        super().__init__()
        self.context = (kernel - 1) * dilation
        self.conv = nn.Conv1d(channels, channels, kernel, dilation=dilation)
        self.gate = nn.PReLU(channels)

    def forward(self, x, past):
        if past is None:
            past = x.new_zeros(x.shape[0], x.shape[1], self.context)
        joined = torch.cat([past, x], dim=-1)
        return x + self.gate(self.conv(joined)), joined[..., -self.context :]


class MaskNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(CausalConv(FILTERS, 3, d) for d in (1, 2, 4))
        self.rnn = nn.GRU(FILTERS, HIDDEN, batch_first=True)
        self.out = nn.Linear(HIDDEN, FILTERS)

    def forward(self, x, state):
        for i, conv in enumerate(self.convs):
            x, state[f"conv{i}"] = conv(x, state.get(f"conv{i}"))
        x, state["rnn"] = self.rnn(x.transpose(1, 2), state.get("rnn"))
        return self.out(x).sigmoid().transpose(1, 2)


class Enhancer(nn.Module):
    def __init__(self):
        super().__init__()
        self.analysis = nn.Conv1d(1, FILTERS, KERNEL, stride=STRIDE, bias=False)
        self.mask = MaskNet()
        self.synthesis = nn.ConvTranspose1d(FILTERS, 1, KERNEL, stride=STRIDE, bias=False)

    def forward(self, chunk, state):
        overlap = KERNEL - STRIDE
        wave = torch.cat([state.get("wave", chunk.new_zeros(len(chunk), overlap)), chunk], dim=-1)
        state["wave"] = wave[:, -overlap:]
        frames = self.analysis(wave[:, None]).relu()
        out = self.synthesis(frames * self.mask(frames, state))[:, 0]
        if "tail" in state:
            out[:, :overlap] += state["tail"]
        state["tail"] = out[:, -overlap:].clone()
        return out[:, :-overlap]


torch.manual_seed(21)
model = Enhancer()
with torch.no_grad():
    for weight in model.parameters():
        weight.mul_(2.0)
model.eval()
generator = torch.Generator().manual_seed(2)
time = torch.arange(32 * STRIDE) / 40.0

for step in range(3):
    noise = torch.randn(2, len(time), generator=generator)
    clean = torch.stack([torch.sin(time * (step + 1)), torch.cos(time * 0.7)])
    state, pieces = {}, []
    with torch.no_grad():
        for chunk in (clean + 0.3 * noise).split(CHUNK * STRIDE, dim=1):
            pieces.append(model(chunk, state))
    out = torch.cat(pieces, dim=1)
    loss = out.square().sum() + (out - clean).abs().sum()
    print(f"step {step} loss {loss.item():.9f}")
