"""Child-sum tree LSTM for sentiment on random trees; nodes are processed level by level."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ChildSumCell(nn.Module):
    def __init__(self, dim_in, dim):
        super().__init__()
        self.dim = dim
        self.w_iou = nn.Linear(dim_in, 3 * dim)
        self.u_iou = nn.Linear(dim, 3 * dim, bias=False)
        self.w_f = nn.Linear(dim_in, dim)
        self.u_f = nn.Linear(dim, dim, bias=False)

    def forward(self, x, child_h, child_c, owner):
        n = x.size(0)
        h_sum = x.new_zeros(n, self.dim).index_add(0, owner, child_h)
        i, o, u = (self.w_iou(x) + self.u_iou(h_sum)).chunk(3, dim=1)
        f = torch.sigmoid(self.w_f(x)[owner] + self.u_f(child_h))
        c = torch.sigmoid(i) * torch.tanh(u)
        c = c.index_add(0, owner, f * child_c)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


class TreeEncoder(nn.Module):
    def __init__(self, vocab, dim_in, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim_in)
        self.drop = nn.Dropout(0.1)
        self.cell = ChildSumCell(dim_in, dim)

    def forward(self, tokens, parent, depth):
        x = self.drop(self.emb(tokens))
        h = x.new_zeros(len(tokens), self.cell.dim)
        c = torch.zeros_like(h)
        slot = torch.zeros_like(tokens)
        for level in range(int(depth.max()), -1, -1):
            nodes = (depth == level).nonzero().squeeze(1)
            slot[nodes] = torch.arange(len(nodes))
            kids = (depth == level + 1).nonzero().squeeze(1)
            owner = slot[parent[kids]]
            h_new, c_new = self.cell(x[nodes], h[kids], c[kids], owner)
            h = h.index_copy(0, nodes, h_new)
            c = c.index_copy(0, nodes, c_new)
        return h


class SentimentTree(nn.Module):
    def __init__(self, vocab=30, dim_in=12, dim=16, classes=5):
        super().__init__()
        self.encoder = TreeEncoder(vocab, dim_in, dim)
        self.att = nn.Linear(dim, 1)
        self.classify = nn.Sequential(nn.LayerNorm(2 * dim), nn.Linear(2 * dim, classes))

    def forward(self, tokens, parent, depth, tree_id, n_trees):
        h = self.encoder(tokens, parent, depth)
        root = h[depth == 0]
        score = self.att(h).squeeze(1).exp()
        norm = torch.zeros(n_trees).index_add(0, tree_id, score)
        weight = score / norm[tree_id]
        pooled = torch.zeros(n_trees, h.size(1)).index_add(0, tree_id, weight.unsqueeze(1) * h)
        return self.classify(torch.cat([root, pooled], dim=1))


def grow(n_trees, size):
    parent, depth, tree_id = [], [], []
    for t in range(n_trees):
        base = t * size
        for k in range(size):
            p = -1 if k == 0 else base + int(torch.randint(0, k, ()))
            parent.append(p)
            depth.append(0 if k == 0 else depth[p] + 1)
            tree_id.append(t)
    tokens = torch.randint(0, 30, (n_trees * size,))
    label = tokens.view(n_trees, size)[:, :3].sum(1) % 5
    return tokens, torch.tensor(parent), torch.tensor(depth), torch.tensor(tree_id), label


def ordinal_loss(logits, label):
    ce = F.cross_entropy(logits, label, label_smoothing=0.1)
    expected = (logits.softmax(1) * torch.arange(5)).sum(1)
    return ce + 0.2 * F.smooth_l1_loss(expected, label.float())


torch.manual_seed(0)
model = SentimentTree()
opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
accum = 2
for step in range(3):
    opt.zero_grad()
    total = 0.0
    for _ in range(accum):
        *tree, label = grow(4, 8)
        loss = ordinal_loss(model(*tree, 4), label) / accum
        loss.backward()
        total += loss.item()
    opt.step()
    print(f"step {step + 1} loss {total:.9f}")
