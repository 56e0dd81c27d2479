"""Federated learning with control variates (SCAFFOLD): three clients with skewed labels, server momentum."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad_and_value

torch.manual_seed(41)
CLIENTS, LOCAL_STEPS, LOCAL_LR, SERVER_LR, SERVER_MOM = 3, 4, 0.1, 1.0, 0.5


class SqueezeExcite(nn.Module):
    def __init__(self, ch, ratio=4):
        super().__init__()
        self.down, self.up = nn.Linear(ch, ch // ratio), nn.Linear(ch // ratio, ch)

    def forward(self, x):
        s = x.mean(dim=(2, 3))
        s = torch.sigmoid(self.up(F.relu(self.down(s))))
        return x * s[:, :, None, None]


class SeparableBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.depthwise = nn.Conv2d(cin, cin, 3, padding=1, groups=cin, bias=False)
        self.pointwise = nn.Conv2d(cin, cout, 1)
        self.norm = nn.GroupNorm(4, cout)
        self.se = SqueezeExcite(cout)

    def forward(self, x):
        y = self.norm(self.pointwise(self.depthwise(x)))
        y = self.se(F.relu6(y + 1.0))
        return y + x if x.shape == y.shape else y


class ClientNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, padding=1)
        self.block1, self.block2 = SeparableBlock(8, 8), SeparableBlock(8, 16)
        self.fc = nn.Linear(16 * 4, classes)

    def forward(self, x):
        x = F.max_pool2d(self.block1(F.relu(self.stem(x))), 2)
        x = F.adaptive_avg_pool2d(self.block2(x), 2)
        return self.fc(x.flatten(1))


def make_clients(gen):
    """Every client sees mostly two of the five classes; a class is a template plus noise."""
    templates, sizes = torch.randn(5, 1, 8, 8, generator=gen), (64, 48, 32)
    data = []
    for c, n in enumerate(sizes):
        y = torch.multinomial(torch.tensor([1.0 + 6.0 * (k in (c, c + 1)) for k in range(5)]), n, True, generator=gen)
        data.append((templates[y] + 0.7 * torch.randn(n, 1, 8, 8, generator=gen), y))
    return data


model = ClientNet()


def batch_loss(params, x, y):
    return F.cross_entropy(functional_call(model, params, (x,)), y)


def local_training(params, data, c_global, c_local, gen):
    x, y = data
    w, losses = dict(params), []
    for chunk in torch.randperm(len(y), generator=gen).chunk(LOCAL_STEPS):
        grads, value = grad_and_value(batch_loss)(w, x[chunk], y[chunk])
        w = {k: w[k] - LOCAL_LR * (grads[k] - c_local[k] + c_global[k]) for k in w}
        losses.append(value)
    c_new = {k: c_local[k] - c_global[k] + (params[k] - w[k]) / (LOCAL_STEPS * LOCAL_LR) for k in w}
    return w, c_new, torch.stack(losses).mean()


gen = torch.Generator().manual_seed(12)
clients = make_clients(gen)
total = sum(len(y) for _, y in clients)
server = {k: p.detach().clone() for k, p in model.named_parameters()}
zeros = {k: torch.zeros_like(p) for k, p in server.items()}
c_global, c_locals, velocity = dict(zeros), [dict(zeros) for _ in clients], dict(zeros)
for step in range(1, 4):
    delta, loss, c_shift = dict(zeros), 0.0, dict(zeros)
    for i, data in enumerate(clients):
        w, c_new, client_loss = local_training(server, data, c_global, c_locals[i], gen)
        share = len(data[1]) / total
        delta = {k: delta[k] + share * (w[k] - server[k]) for k in server}
        c_shift = {k: c_shift[k] + (c_new[k] - c_locals[i][k]) / CLIENTS for k in server}
        c_locals[i] = c_new
        loss = loss + share * client_loss
    velocity = {k: SERVER_MOM * velocity[k] + delta[k] for k in server}
    server = {k: server[k] + SERVER_LR * velocity[k] for k in server}
    c_global = {k: c_global[k] + c_shift[k] for k in server}
    print(f"step {step} loss {loss.item():.9f}")
