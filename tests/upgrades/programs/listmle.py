import torch
import torch.nn as nn
import torch.nn.functional as F

DENSE, TAGS, SHOPS, DIM = 6, 20, 9, 8
WIDTH = DENSE + 2 * DIM


class MultiHot(nn.Module):
    """Mean of the embeddings of a set of ids (0 = none) as counts times table."""

    def __init__(self, n, dim):
        super().__init__()
        self.n = n
        self.table = nn.Parameter(torch.zeros(n, dim))

    def forward(self, ids):
        counts = F.one_hot(ids, self.n).sum(dim=-2)[..., 1:].float()
        share = counts / counts.sum(dim=-1, keepdim=True)
        return share @ self.table[1:]


class CrossNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.kernels = nn.Parameter(torch.zeros(depth, width, width))
        self.biases = nn.Parameter(torch.zeros(depth, width))

    def forward(self, x0):
        x = x0
        for kernel, bias in zip(self.kernels, self.biases):
            gate = torch.einsum("qni,oi->qno", x, kernel) + bias
            x = torch.addcmul(x, x0, gate)
        return x


class DCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.tag_pool = MultiHot(TAGS, DIM)
        self.shop_table = nn.Parameter(torch.zeros(SHOPS, DIM))
        self.cross = CrossNet(WIDTH, 2)
        self.fc1 = nn.Linear(WIDTH, 32)
        self.fc2 = nn.Linear(32, 16)
        self.score_cross = nn.Linear(WIDTH, 1)
        self.score_deep = nn.Linear(16, 1, bias=False)

    def forward(self, dense, tags, shop):
        x0 = torch.cat([dense, self.tag_pool(tags), self.shop_table[shop]], dim=-1)
        deep = F.relu(self.fc2(F.relu(self.fc1(x0))))
        return (self.score_cross(self.cross(x0)) + self.score_deep(deep))[..., 0]


def plackett_luce_nll(scores, relevance):
    order = relevance.sort(dim=1, descending=True).indices
    ranked = scores.gather(1, order)
    tails = ranked.flip(1).logcumsumexp(dim=1).flip(1)
    return (tails - ranked).sum(dim=1).mean()


def load(model):
    sd = torch.load("weights.pt")
    with torch.no_grad():
        model.tag_pool.table.copy_(sd["tags.weight"])
        model.shop_table.copy_(sd["shop.weight"])
        for i in range(2):
            model.cross.kernels[i] = sd[f"crosses.{i}.lin.weight"]
            model.cross.biases[i] = sd[f"crosses.{i}.lin.bias"]
        for ours, theirs in ((model.fc1, "deep.0"), (model.fc2, "deep.2")):
            ours.weight.copy_(sd[theirs + ".weight"])
            ours.bias.copy_(sd[theirs + ".bias"])
        model.score_cross.weight.copy_(sd["out.weight"][:, :WIDTH])
        model.score_cross.bias.copy_(sd["out.bias"])
        model.score_deep.weight.copy_(sd["out.weight"][:, WIDTH:])


@torch.no_grad()
def adagrad(params, sums, lr):
    for p, s in zip(params, sums):
        s += p.grad**2
        p -= lr * p.grad / (s.sqrt() + 1e-10)
        p.grad = None


def main():
    model = DCN()
    load(model)
    params = list(model.parameters())
    sums = [torch.zeros_like(p) for p in params]
    for step in range(3):
        g = torch.Generator().manual_seed(step)
        dense = torch.randn(5, 7, DENSE, generator=g)
        tags = torch.randint(0, TAGS, (5, 7, 4), generator=g)
        tags[..., 0].clamp_(min=1)
        shop = torch.randint(0, SHOPS, (5, 7), generator=g)
        rel = torch.rand(5, 7, generator=g)
        loss = plackett_luce_nll(model(dense, tags, shop), rel)
        loss.backward()
        adagrad(params, sums, lr=0.05)
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
