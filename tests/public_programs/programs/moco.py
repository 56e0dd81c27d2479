"""Momentum contrast, modelled on main_moco.py and moco/builder.py of facebookresearch/moco.

The key encoder follows the trained one. An iteration is a batch of two views of the same images.
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
SIZE, QUEUE, BATCH = 4, 12, 4


def encoder():
    convolution = nn.Conv2d(1, 4, 3, padding=1, bias=False)
    return nn.Sequential(
        convolution, nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, SIZE)
    )


class MoCo(nn.Module):
    def __init__(self, momentum=0.9, temperature=0.07):
        super().__init__()
        self.momentum, self.temperature = momentum, temperature
        self.encoder_q, self.encoder_k = encoder(), encoder()
        for trained, follower in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            follower.data.copy_(trained.data)
            follower.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(SIZE, QUEUE), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def follow(self):
        for trained, follower in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            follower.data = follower.data * self.momentum + trained.data * (1.0 - self.momentum)

    @torch.no_grad()
    def enqueue(self, keys):
        start = int(self.queue_ptr)
        self.queue[:, start : start + BATCH] = keys.T
        self.queue_ptr[0] = (start + BATCH) % QUEUE

    def forward(self, view_q, view_k):
        q = F.normalize(self.encoder_q(view_q), dim=1)
        with torch.no_grad():
            self.follow()
            k = F.normalize(self.encoder_k(view_k), dim=1)
        positive = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        negative = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([positive, negative], dim=1)
        logits /= self.temperature
        self.enqueue(k)
        return logits, torch.zeros(len(logits), dtype=torch.long)


model = MoCo()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), 0.03, momentum=0.9, weight_decay=1e-4)
images = torch.rand(4, BATCH, 1, 6, 6)
model.train()
for batch in images:
    views = (batch + 0.1 * torch.randn_like(batch), batch.flip(-1) + 0.1 * torch.randn_like(batch))
    output, target = model(*views)
    loss = criterion(output, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
