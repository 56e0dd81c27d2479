# Sequence autoencoder, written step by step. Pruned weights are zeros kept at zero by masking the gradients;
# the embedding is one parameter that is used three times.
import torch
import torch.nn.functional as F
from torch import nn


class GruLoop(nn.Module):
    def __init__(self, cin, hid):
        super().__init__()
        self.hid = hid
        self.w = nn.Parameter(torch.zeros(3, hid, cin))
        self.u = nn.Parameter(torch.zeros(3, hid, hid))
        self.bw = nn.Parameter(torch.zeros(3, hid))
        self.bu = nn.Parameter(torch.zeros(3, hid))

    def forward(self, x, h):
        """x: (batch, time, cin); returns all states (batch, time, hid)"""
        gx = torch.einsum("btc,khc->ktbh", x, self.w) + self.bw[:, None, None]
        states = []
        for r_x, z_x, n_x in zip(*gx):
            r_h, z_h, n_h = torch.einsum("bi,khi->kbh", h, self.u) + self.bu[:, None]
            r = torch.sigmoid(r_x + r_h)
            z = torch.sigmoid(z_x + z_h)
            n = torch.tanh(n_x + r * n_h)
            h = n + z * (h - n)
            states.append(h)
        return torch.stack(states, dim=1)


class TiedEmbedding(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(vocab, dim))
        self.bias = nn.Parameter(torch.zeros(vocab))

    def forward(self, ids):
        return F.one_hot(ids, len(self.table)).float() @ self.table

    def logits(self, x):
        return x @ self.table.t() + self.bias


class SparseLinear(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(cout, cin))
        self.bias = nn.Parameter(torch.zeros(cout))

    @torch.no_grad()
    def prune(self, amount):
        flat = self.weight.abs().flatten()
        drop = flat.argsort()[: round(amount * flat.numel())]
        keep = torch.ones_like(flat)
        keep[drop] = 0
        keep = keep.view_as(self.weight)
        self.weight.mul_(keep)
        self.weight.register_hook(lambda grad: grad * keep)

    def forward(self, x):
        return x @ self.weight.mT + self.bias


class SeqAE(nn.Module):
    def __init__(self, vocab=26, dim=12, hid=12, latent=6):
        super().__init__()
        self.tied = TiedEmbedding(vocab, dim)
        self.enc, self.dec = GruLoop(dim, hid), GruLoop(dim, hid)
        self.squeeze, self.expand, self.mix = (
            SparseLinear(hid, latent),
            SparseLinear(latent, hid),
            SparseLinear(hid, dim),
        )

    def forward(self, ids):
        emb = self.tied(ids)
        last = self.enc(emb, emb.new_zeros(len(ids), self.enc.hid))[:, -1]
        z = self.squeeze(last).tanh()
        first = self.tied(torch.zeros_like(ids[:, :1]))
        states = self.dec(torch.cat([first, emb[:, :-1]], dim=1), self.expand(z).tanh())
        return self.tied.logits(F.elu(self.mix(states)))

    @torch.no_grad()
    def load(self, sd):
        self.tied.table.copy_(sd["encoder.emb.weight"])
        self.tied.bias.copy_(sd["decoder.out.bias"])
        for m, key in ((self.enc, "encoder.gru."), (self.dec, "decoder.gru.")):
            m.w.copy_(sd[key + "weight_ih_l0"].view_as(m.w))
            m.u.copy_(sd[key + "weight_hh_l0"].view_as(m.u))
            m.bw.copy_(sd[key + "bias_ih_l0"].view_as(m.bw))
            m.bu.copy_(sd[key + "bias_hh_l0"].view_as(m.bu))
        for m, key in (
            (self.squeeze, "encoder.to_latent"),
            (self.expand, "decoder.from_latent"),
            (self.mix, "decoder.mix"),
        ):
            m.weight.copy_(sd[key + ".weight"])
            m.bias.copy_(sd[key + ".bias"])


def adam_update(params, memory, t, lr=1e-2, b1=0.9, b2=0.999, eps=1e-8):
    with torch.no_grad():
        for p in params:
            m, v = memory.setdefault(p, (torch.zeros_like(p), torch.zeros_like(p)))
            m.lerp_(p.grad, 1 - b1)
            v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
            step = lr / (1 - b1**t)
            p.addcdiv_(m, (v / (1 - b2**t)).sqrt() + eps, value=-step)


def main():
    model = SeqAE()
    model.load(torch.load("weights.pt"))
    sparse = [model.squeeze, model.expand, model.mix]
    for layer in sparse:
        layer.prune(0.5)
    memory = {}
    for step in range(3):
        ids = torch.randint(1, 26, (8, 7), generator=torch.Generator().manual_seed(300 + step))
        logp = model(ids).log_softmax(-1)
        loss = -logp.gather(-1, ids[..., None]).mean()
        model.zero_grad()
        loss.backward()
        adam_update(list(model.parameters()), memory, step + 1)
        print(f"step {step}: loss {loss.item():.9f}")
    for layer in sparse:
        w = layer.weight.detach()
        print(f"sparsity {(w == 0).float().mean().item():.9f} norm {w.norm().item():.9f}")


if __name__ == "__main__":
    main()
