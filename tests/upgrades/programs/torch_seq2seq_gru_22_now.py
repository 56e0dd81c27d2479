"""GRU encoder-decoder with attention."""

import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, 16)
        self.gru = nn.GRU(16, 12, bidirectional=True, batch_first=True)

    def forward(self, ids, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.emb(ids), lengths, batch_first=True, enforce_sorted=False)
        out, h = self.gru(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=ids.shape[1])
        return out, torch.cat([h[0], h[1]], -1)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, 16)
        self.cell = nn.GRUCell(16 + 24, 24)
        self.score = nn.Bilinear(24, 24, 1)
        self.out = nn.Linear(48, 30)

    def forward(self, tgt, memory, h):
        logits = []
        for t in range(tgt.shape[1]):
            w = self.score(h[:, None].expand_as(memory).contiguous(), memory).softmax(1)
            ctx = (w * memory).sum(1)
            h = self.cell(torch.cat([self.emb(tgt[:, t]), ctx], -1), h)
            logits.append(self.out(torch.cat([h, ctx], -1)))
        return torch.stack(logits, 1)


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    def forward(self, src, lengths, tgt):
        memory, h = self.encoder(src, lengths)
        return self.decoder(tgt[:, :-1], memory, h)


def build():
    return Seq2Seq()


if __name__ == "__main__":
    net = build()
    net.load_state_dict(torch.load("weights.pt"))
    opt = torch.optim.Adagrad(net.parameters(), lr=0.02)
    gen = torch.Generator().manual_seed(22)
    for step in range(3):
        src = torch.randint(1, 30, (3, 6), generator=gen)
        lengths = torch.tensor([6, 3, 5])
        tgt = torch.randint(1, 30, (3, 5), generator=gen)
        logits = net(src, lengths, tgt)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.9f}")
