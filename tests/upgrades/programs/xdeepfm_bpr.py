# xDeepFM click model (linear + CIN + DIN-style history pooling), mixed BCE / BPR objective.
import torch
import torch.nn as nn
import torch.nn.functional as F

FIELDS = [7, 5, 9, 4]
ITEMS, K = 20, 8


class FieldEmbedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.table = nn.Embedding(sum(FIELDS), width)
        nn.init.normal_(self.table.weight, std=0.2)
        starts = torch.tensor([0] + FIELDS[:-1]).cumsum(0)
        self.register_buffer("starts", starts)

    def forward(self, idx):
        return self.table(idx + self.starts)


class CIN(nn.Module):
    """Compressed interaction network with split-half connections."""

    def __init__(self, fields, sizes=(8, 6)):
        super().__init__()
        self.sizes = sizes
        self.convs = nn.ModuleList()
        prev, total = fields, 0
        for n, size in enumerate(sizes):
            self.convs.append(nn.Conv1d(fields * prev, size, 1))
            last = n == len(sizes) - 1
            prev = size if last else size // 2
            total += prev
        self.fc = nn.Linear(total, 1)

    def forward(self, x0):
        b, _, k = x0.shape
        h, pooled = x0, []
        for n, conv in enumerate(self.convs):
            z = torch.einsum("bik,bjk->bijk", x0, h).reshape(b, -1, k)
            z = F.relu(conv(z))
            if n < len(self.sizes) - 1:
                h, out = z.split(self.sizes[n] // 2, dim=1)
            else:
                out = z
            pooled.append(out.sum(dim=2))
        return self.fc(torch.cat(pooled, dim=1)).squeeze(1)


class HistoryPool(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(4 * k, 16), nn.PReLU(), nn.Linear(16, 1))

    def forward(self, item, hist, mask):
        q = item.unsqueeze(1).expand_as(hist)
        s = self.score(torch.cat([q, hist, q - hist, q * hist], dim=-1)).squeeze(-1)
        a = s.masked_fill(~mask, float("-inf")).softmax(dim=1)
        return (a.unsqueeze(-1) * hist).sum(dim=1)


class XDeepFM(nn.Module):
    def __init__(self):
        super().__init__()
        self.fields = FieldEmbedding(K)
        self.linear = FieldEmbedding(1)
        self.items = nn.Embedding(ITEMS, K, padding_idx=0)
        self.pool = HistoryPool(K)
        self.cin = CIN(len(FIELDS) + 2)
        self.deep = nn.Sequential(nn.Linear(K * (len(FIELDS) + 2), 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 1))

    def forward(self, idx, item, hist):
        v = self.items(item)
        u = self.pool(v, self.items(hist), hist != 0)
        x = torch.cat([self.fields(idx), v.unsqueeze(1), u.unsqueeze(1)], dim=1)
        return self.linear(idx).sum(dim=(1, 2)) + self.cin(x) + self.deep(x.flatten(1)).squeeze(1)


def batch(n=12, length=6):
    idx = torch.stack([torch.randint(0, f, (n,)) for f in FIELDS], dim=1)
    hist = torch.randint(1, ITEMS, (n, length))
    n_seen = torch.randint(1, length + 1, (n, 1))
    hist = hist * (torch.arange(length) < n_seen)
    pos, neg = torch.randint(1, ITEMS, (n,)), torch.randint(1, ITEMS, (n,))
    return idx, hist, pos, neg


def objective(s_pos, s_neg, mix=0.5):
    bpr = -F.logsigmoid(s_pos - s_neg).mean()
    scores = torch.cat([s_pos, s_neg])
    labels = torch.cat([torch.ones_like(s_pos), torch.zeros_like(s_neg)])
    bce = F.binary_cross_entropy_with_logits(scores, labels)
    return mix * bpr + (1 - mix) * bce


torch.manual_seed(13)
model = XDeepFM()
emb_params = [*model.fields.parameters(), *model.linear.parameters(), *model.items.parameters()]
dense_params = [*model.pool.parameters(), *model.cin.parameters(), *model.deep.parameters()]
opt_emb = torch.optim.Adagrad(emb_params, lr=0.1)
opt_dense = torch.optim.Adam(dense_params, lr=1e-2)
for step in range(1, 4):
    idx, hist, pos, neg = batch()
    loss = objective(model(idx, pos, hist), model(idx, neg, hist))
    for o in (opt_emb, opt_dense):
        o.zero_grad()
    loss.backward()
    opt_emb.step()
    opt_dense.step()
    print(f"step {step} loss {loss.item():.9f}")
