"""Two-tower retrieval with float8 products (e4m3 forward, e5m2 gradients) and delayed scaling."""

import torch
import torch.nn.functional as F
from torch import nn

LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}


def cast(x, scale, dtype):
    return (x * scale).clamp(-LARGEST[dtype], LARGEST[dtype]).to(dtype)


class Product8(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, scale_x, scale_w):
        x8 = cast(x, scale_x, torch.float8_e4m3fn)
        w8 = cast(weight, scale_w, torch.float8_e4m3fn)
        ctx.save_for_backward(x8, w8, scale_x, scale_w)
        return (x8.float() @ w8.float().t()) / (scale_x * scale_w)

    @staticmethod
    def backward(ctx, grad):
        x8, w8, scale_x, scale_w = ctx.saved_tensors
        scale_g = LARGEST[torch.float8_e5m2] / grad.abs().amax().clamp(min=1e-12)
        g8 = cast(grad, scale_g, torch.float8_e5m2).float()
        return g8 @ w8.float() / (scale_g * scale_w), g8.t() @ x8.float() / (scale_g * scale_x), None, None


class Linear8(nn.Module):
    """The scale of a step comes from the largest values of the last steps, this one included."""

    def __init__(self, n_in, n_out, history=4):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_out, n_in))
        self.bias = nn.Parameter(torch.empty(n_out))
        self.register_buffer("amax", torch.zeros(history, 2), persistent=False)

    def scales(self, x):
        with torch.no_grad():
            self.amax.copy_(self.amax.roll(1, dims=0))
            self.amax[0] = torch.stack([x.abs().amax(), self.weight.abs().amax()])
            return (LARGEST[torch.float8_e4m3fn] / self.amax.amax(dim=0).clamp(min=1e-12)).unbind()

    def forward(self, x):
        scale_x, scale_w = self.scales(x)
        return Product8.apply(x, self.weight, scale_x, scale_w) + self.bias


class Tower(nn.Module):
    def __init__(self, entities, dim=24, hidden=48, out=16):
        super().__init__()
        self.ids = nn.Embedding(entities, dim)
        self.context = Linear8(8, dim)
        self.hidden = Linear8(2 * dim, hidden)
        self.out = Linear8(hidden, out)

    def forward(self, ids, context):
        x = torch.cat([self.ids(ids), F.silu(self.context(context))], dim=-1)
        return F.normalize(self.out(F.silu(self.hidden(x))), dim=-1)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = Tower(50)
        self.item = Tower(80)

    def forward(self, batch):
        users = self.user(batch["user"], batch["user_context"])
        items = self.item(batch["item"], batch["item_context"])
        return users @ items.t() / 0.2


def clicks(step, size=16):
    g = torch.Generator().manual_seed(step)
    return {
        "user": torch.randint(0, 50, (size,), generator=g),
        "user_context": torch.randn(size, 8, generator=g),
        "item": torch.randint(0, 80, (size,), generator=g),
        "item_context": torch.randn(size, 8, generator=g).exp(),
    }


def main():
    model = TwoTower()
    model.load_state_dict(torch.load("weights.pt"))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for step in range(3):
        logits = model(clicks(step))
        labels = torch.arange(len(logits))
        loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
