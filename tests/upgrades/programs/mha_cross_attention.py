"""nn.MultiheadAttention with other key width against own cross attention."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(17)


class Cross(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.wq, self.wk, self.wv = (
            nn.Parameter(w.detach().clone()) for w in (m.q_proj_weight, m.k_proj_weight, m.v_proj_weight)
        )
        self.bq, self.bk, self.bv = (nn.Parameter(b.clone()) for b in m.in_proj_bias.detach().chunk(3))
        self.proj = m.out_proj

    def forward(self, q, mem, pad):
        b = q.shape[0]
        head = lambda t: t.view(b, -1, 4, 8)
        qh, kh, vh = (
            head(F.linear(q, self.wq, self.bq)),
            head(F.linear(mem, self.wk, self.bk)),
            head(F.linear(mem, self.wv, self.bv)),
        )
        s = torch.einsum("bqhd,bkhd->bhqk", qh, kh) * 8**-0.5
        s = s.masked_fill(pad[:, None, None, :], float("-inf"))
        return self.proj(torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), vh).flatten(2))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.src = nn.Linear(6, 20)
        self.tgt = nn.Embedding(30, 32)
        mha = nn.MultiheadAttention(32, 4, kdim=20, vdim=20, batch_first=True)
        with torch.no_grad():
            mha.in_proj_bias.normal_(std=0.1)
        self.cross = Cross(mha)
        self.out = nn.Linear(32, 30)

    def forward(self, frames, lengths, tokens):
        mem = self.src(frames)
        pad = torch.arange(mem.shape[1])[None] >= lengths[:, None]
        q = self.tgt(tokens)
        y = self.cross(q, mem, pad)
        return self.out(q + y)


net = Decoder()
opt = torch.optim.SGD(net.parameters(), lr=0.2)
gen = torch.Generator().manual_seed(17)
for step in range(3):
    frames = torch.randn(2, 8, 6, generator=gen)
    tokens = torch.randint(0, 30, (2, 5), generator=gen)
    logits = net(frames, torch.tensor([8, 5]), tokens)
    loss = F.nll_loss(F.log_softmax(logits, -1)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} {loss.item():.9f}")
