"""gMLP written functionally: a dictionary of parameters, einsum for every product, momentum by hand."""

import torch
from torch import nn

DEPTH, DIM, HIDDEN, TOKENS, PATCH, CLASSES = 3, 24, 32, 16, 6, 7


class Parameters(nn.Module):
    """A flat dictionary of parameters that can be saved."""

    def __init__(self, values):
        super().__init__()
        self.values = values

    def state_dict(self):
        return {name: value.clone() for name, value in self.values.items()}


def build():
    g = torch.Generator().manual_seed(0)

    def normal(*shape, scale=None):
        return torch.randn(*shape, generator=g) * (shape[0] ** -0.5 if scale is None else scale)

    p = {"embed.w": normal(PATCH * PATCH * 3, DIM), "embed.b": normal(DIM, scale=0.1)}
    for i in range(DEPTH):
        p |= {
            f"layer{i}.scale": 1 + normal(DIM, scale=0.1),
            f"layer{i}.shift": normal(DIM, scale=0.1),
            f"layer{i}.wu": normal(DIM, HIDDEN),
            f"layer{i}.wv": normal(DIM, HIDDEN),
            f"layer{i}.bu": normal(HIDDEN, scale=0.1),
            f"layer{i}.bv": normal(HIDDEN, scale=0.1),
            f"layer{i}.gate_scale": 1 + normal(HIDDEN, scale=0.1),
            f"layer{i}.gate_shift": normal(HIDDEN, scale=0.1),
            f"layer{i}.spatial": normal(TOKENS, TOKENS),
            f"layer{i}.spatial_b": 1 + normal(TOKENS, scale=0.1),
            f"layer{i}.wo": normal(HIDDEN, DIM),
            f"layer{i}.bo": normal(DIM, scale=0.1),
        }
    p |= {"final.scale": torch.ones(DIM), "final.shift": torch.zeros(DIM)}
    p |= {"head.w": normal(DIM, CLASSES), "head.b": torch.zeros(CLASSES)}
    return Parameters(p)


def layer_norm(x, scale, shift, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps) * scale + shift


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))


def block(p, x):
    h = layer_norm(x, p["scale"], p["shift"])
    u = gelu(torch.einsum("btd,dh->bth", h, p["wu"]) + p["bu"])
    v = gelu(torch.einsum("btd,dh->bth", h, p["wv"]) + p["bv"])
    v = layer_norm(v, p["gate_scale"], p["gate_shift"])
    v = torch.einsum("st,bth->bsh", p["spatial"], v) + p["spatial_b"][:, None]
    return x + torch.einsum("bth,hd->btd", u * v, p["wo"]) + p["bo"]


def apply(p, images):
    b, c, height, width = images.shape
    x = images.view(b, c, height // PATCH, PATCH, width // PATCH, PATCH)
    x = x.permute(0, 2, 4, 3, 5, 1).reshape(b, TOKENS, -1)
    x = torch.einsum("btp,pd->btd", x, p["embed.w"]) + p["embed.b"]
    for i in range(DEPTH):
        x = block({k.split(".")[1]: v for k, v in p.items() if k.startswith(f"layer{i}.")}, x)
    x = layer_norm(x, p["final.scale"], p["final.shift"]).mean(1)
    return x @ p["head.w"] + p["head.b"]


def smoothed(logits, labels, smoothing=0.1):
    log_p = logits.log_softmax(-1)
    right = log_p.gather(1, labels[:, None]).squeeze(1)
    return -((1 - smoothing) * right + smoothing * log_p.mean(1)).mean()


def batch(step):
    g = torch.Generator().manual_seed(step)
    images = torch.randn(8, 3, 24, 24, generator=g)
    return images, torch.randint(0, 7, (8,), generator=g)


def main():
    params = {name: value.requires_grad_() for name, value in torch.load("weights.pt").items()}
    velocity = {name: torch.zeros_like(value) for name, value in params.items()}
    for step in range(3):
        loss = smoothed(apply(params, batch(step)[0]), batch(step)[1])
        grads = torch.autograd.grad(loss, list(params.values()))
        with torch.no_grad():
            for (name, value), grad in zip(params.items(), grads):
                velocity[name].mul_(0.9).add_(grad)
                value -= 0.05 * velocity[name]
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
