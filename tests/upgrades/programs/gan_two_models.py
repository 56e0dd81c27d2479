"""A Wasserstein GAN with a gradient penalty."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(35)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 16)
        self.bn = nn.BatchNorm1d(16)
        self.out = nn.Linear(16, 6)

    def forward(self, z):
        return torch.tanh(self.out(F.relu(self.bn(self.lin(z)))))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.utils.parametrizations.weight_norm(nn.Linear(6, 16))
        self.b = nn.Linear(16, 1)

    def forward(self, x):
        return self.b(F.leaky_relu(self.a(x), 0.2))


def gradient_penalty(critic, real, fake, eps):
    mid = (eps * real + (1 - eps) * fake).requires_grad_()
    (grad,) = torch.autograd.grad(critic(mid).sum(), mid, create_graph=True)
    return ((grad.norm(dim=1) - 1) ** 2).mean()


gen, critic = Generator(), Critic()
opt_g = torch.optim.Adam(gen.parameters(), lr=5e-3, betas=(0.5, 0.9))
opt_c = torch.optim.Adam(critic.parameters(), lr=5e-3, betas=(0.5, 0.9))
rng = torch.Generator().manual_seed(36)
for step in range(3):
    for _ in range(2):
        real = torch.randn(16, 6, generator=rng) * 0.3 + 0.4
        fake = gen(torch.randn(16, 4, generator=rng)).detach()
        eps = torch.rand(16, 1, generator=rng)
        loss_c = critic(fake).mean() - critic(real).mean() + 10 * gradient_penalty(critic, real, fake, eps)
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()
    loss_g = -critic(gen(torch.randn(16, 4, generator=rng))).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    print(f"step {step} critic {loss_c.item():.9f} generator {loss_g.item():.9f}")
