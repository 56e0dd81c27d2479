"""Click prediction, modelled on dlrm_s_pytorch.py of facebookresearch/dlrm.

The tables have sparse gradients and an optimizer of their own. An iteration is a batch, with a step of each optimizer.
"""

import torch
from torch import nn

torch.manual_seed(0)
SIZE, TABLES = 4, (7, 9, 5)


def create_mlp(sizes, last):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1], last)


class DLRM_Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb_l = nn.ModuleList(nn.EmbeddingBag(rows, SIZE, mode="sum", sparse=True) for rows in TABLES)
        self.bot_l = create_mlp([3, 6, SIZE], nn.ReLU())
        self.top_l = create_mlp([SIZE + 6, 8, 1], nn.Sigmoid())

    def interact_features(self, x, ly):
        features = torch.cat([x, *ly], dim=1).view(len(x), -1, SIZE)
        products = torch.bmm(features, features.transpose(1, 2))
        rows, columns = torch.tril_indices(len(ly) + 1, len(ly) + 1, offset=-1)
        return torch.cat([x, products[:, rows, columns]], dim=1)

    def forward(self, dense, offsets, indices):
        x = self.bot_l(dense)
        ly = [table(index, offset) for table, index, offset in zip(self.emb_l, indices, offsets)]
        return self.top_l(self.interact_features(x, ly))


dlrm = DLRM_Net()
loss_fn = nn.BCELoss(reduction="mean")
opt_sparse = torch.optim.Adagrad(dlrm.emb_l.parameters(), lr=0.1)
opt_dense = torch.optim.SGD([*dlrm.bot_l.parameters(), *dlrm.top_l.parameters()], lr=0.1)
for _batch in range(4):
    dense, clicked = torch.rand(4, 3), torch.randint(0, 2, (4, 1)).float()
    offsets = [torch.tensor([0, 2, 3, 5])] * len(TABLES)
    indices = [torch.randint(0, rows, (7,)) for rows in TABLES]
    loss = loss_fn(dlrm(dense, offsets, indices), clicked)
    opt_sparse.zero_grad()
    opt_dense.zero_grad()
    loss.backward()
    opt_sparse.step()
    opt_dense.step()
    print(loss.item().hex())
