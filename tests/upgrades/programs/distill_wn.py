"""Distillation from stored teacher logits; the student keeps length and direction of its weights apart."""

import torch
from torch import nn
from torch.nn import functional as F


class OldTeacher(nn.Module):
    """Post-norm encoder, written out; only used once to store its logits."""

    def __init__(self, sd):
        super().__init__()
        self.sd = {k.removeprefix("teacher."): v for k, v in sd.items() if k.startswith("teacher.")}

    def attend(self, x, p):
        n, t, d = x.shape
        qkv = F.linear(x, self.sd[p + "in_proj_weight"], self.sd[p + "in_proj_bias"])
        q, k, v = qkv.view(n, t, 3, 4, d // 4).permute(2, 0, 3, 1, 4)
        y = torch.softmax(q @ k.mT * (d // 4) ** -0.5, -1) @ v
        return F.linear(y.transpose(1, 2).flatten(2), self.sd[p + "out_proj.weight"], self.sd[p + "out_proj.bias"])

    def lin(self, x, name):
        return F.linear(x, self.sd[name + ".weight"], self.sd[name + ".bias"])

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.sd[name + ".weight"], self.sd[name + ".bias"])

    def forward(self, ids):
        x = self.sd["emb.weight"][ids]
        for i in range(2):
            p = f"encoder.layers.{i}."
            x = self.norm(x + self.attend(x, p + "self_attn."), p + "norm1")
            x = self.norm(x + self.lin(self.lin(x, p + "linear1").relu(), p + "linear2"), p + "norm2")
        return 4 * self.lin(x.mean(dim=1), "cls")


class WNConv(nn.Module):
    """Convolution over (batch, time, channels) with weight g * v / |v|, one g an output channel."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.g = nn.Parameter(torch.ones(n_out, 1, 1))
        self.v = nn.Parameter(torch.zeros(n_out, n_in, 3))
        self.b = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        norm = self.v.pow(2).sum(dim=(1, 2), keepdim=True).sqrt()
        w = self.g * self.v / norm
        windows = F.pad(x, (0, 0, 1, 1)).unfold(1, 3, 1)
        return torch.einsum("btck,ock->bto", windows, w) + self.b


class WNLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.g = nn.Parameter(torch.ones(n_out, 1))
        self.v = nn.Parameter(torch.zeros(n_out, n_in))
        self.b = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return self.g[:, 0] * (x @ F.normalize(self.v, dim=1).T) + self.b


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(45, 16)
        self.conv_a, self.conv_b = WNConv(16, 20), WNConv(20, 20)
        self.fc = WNLinear(20, 6)

    def forward(self, ids):
        x = F.elu(self.conv_a(self.table(ids)))
        x = F.elu(self.conv_b(x))
        return self.fc(x.amax(dim=1))

    def load(self, sd):
        new = {"table.weight": sd["student.emb.weight"]}
        for mine, theirs in (("conv_a", "convs.0"), ("conv_b", "convs.1"), ("fc", "fc")):
            p = f"student.{theirs}."
            new[mine + ".g"] = sd[p + "parametrizations.weight.original0"]
            new[mine + ".v"] = sd[p + "parametrizations.weight.original1"]
            new[mine + ".b"] = sd[p + "bias"]
        self.load_state_dict(new)


def kd_loss(logits, teacher_logits, labels, temperature=2.0, mix=0.7):
    log_s = (logits / temperature).log_softmax(-1)
    log_t = (teacher_logits / temperature).log_softmax(-1)
    kl = (log_t.exp() * (log_t - log_s)).sum(-1).mean()
    hard = (logits.logsumexp(-1) - logits.gather(1, labels[:, None])[:, 0]).mean()
    return mix * temperature**2 * kl + (1 - mix) * hard


def main():
    sd = torch.load("weights.pt")
    g = torch.Generator().manual_seed(2)
    ids = torch.randint(0, 45, (24, 14), generator=g)
    labels = torch.randint(0, 6, (24,), generator=g)
    with torch.no_grad():
        stored = OldTeacher(sd)(ids)
    student = Student()
    student.load(sd)
    opt = torch.optim.RMSprop(student.parameters(), lr=0.003)
    for step, (x, y, t) in enumerate(zip(ids.split(8), labels.split(8), stored.split(8))):
        loss = kd_loss(student(x), t, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
