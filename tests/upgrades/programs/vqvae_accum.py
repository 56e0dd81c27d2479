"""VQ-VAE on small images: gradient accumulation over microbatches, hand-written AdamW."""

import torch
import torch.nn as nn
import torch.nn.functional as F

CODES = 16
CODE_DIM = 12
WIDTH = 24
MICRO = 5


class ResBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(4, WIDTH)
        self.conv1 = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.conv2 = nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x):
        h = self.conv1(F.silu(self.norm(x)))
        return x + self.conv2(F.silu(h))


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.codebook = nn.Embedding(CODES, CODE_DIM)

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1).reshape(-1, CODE_DIM)
        distance = torch.cdist(flat, self.codebook.weight)
        codes = distance.argmin(dim=1)
        q = self.codebook(codes).view(z.shape[0], z.shape[2], z.shape[3], CODE_DIM).permute(0, 3, 1, 2)
        codebook_loss = F.mse_loss(q, z.detach())
        commit_loss = F.mse_loss(z, q.detach())
        return z + (q - z).detach(), codebook_loss + 0.25 * commit_loss, codes


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc_in = nn.Conv2d(3, WIDTH, 4, stride=2, padding=1)
        self.enc = nn.Sequential(ResBlock(), ResBlock())
        self.enc_out = nn.Conv2d(WIDTH, CODE_DIM, 1)
        self.quantizer = Quantizer()
        self.dec_in = nn.Conv2d(CODE_DIM, WIDTH, 3, padding=1)
        self.dec = nn.Sequential(ResBlock(), ResBlock())
        self.dec_out = nn.ConvTranspose2d(WIDTH, 3, 4, stride=2, padding=1)

    def forward(self, images):
        z = self.enc_out(self.enc(self.enc_in(images)))
        q, vq_loss, codes = self.quantizer(z)
        return self.dec_out(self.dec(self.dec_in(q))), vq_loss, codes


class AdamW:
    """Decoupled weight decay; state lives in lists parallel to the parameters."""

    def __init__(self, named, lr, betas, eps, weight_decay):
        self.params = []
        self.decays = []
        for name, p in named:
            self.params.append(p)
            self.decays.append(weight_decay if p.ndim >= 2 and "codebook" not in name else 0.0)
        self.lr = lr
        self.betas = betas
        self.eps = eps
        self.count = 0
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def clip(self, limit):
        total = torch.stack([p.grad.square().sum() for p in self.params]).sum().sqrt()
        factor = (limit / (total + 1e-6)).clamp(max=1.0)
        for p in self.params:
            p.grad.mul_(factor)
        return total

    @torch.no_grad()
    def step(self, lr_factor):
        self.count += 1
        lr = self.lr * lr_factor
        beta1, beta2 = self.betas
        for p, decay, m, v in zip(self.params, self.decays, self.m, self.v):
            p.mul_(1 - lr * decay)
            m.lerp_(p.grad, 1 - beta1)
            v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
            m_hat = m / (1 - beta1**self.count)
            v_hat = v / (1 - beta2**self.count)
            p.sub_(lr * m_hat / (v_hat.sqrt() + self.eps))


def images(count):
    gen = torch.Generator().manual_seed(122)
    for _ in range(count):
        coarse = torch.randn(12, 3, 4, 4, generator=gen)
        contrast = torch.linspace(0.3, 2.0, 12).view(-1, 1, 1, 1)
        yield F.interpolate(coarse * contrast, size=16, mode="bilinear", align_corners=False)


def main():
    torch.manual_seed(121)
    model = VQVAE()
    optimizer = AdamW(model.named_parameters(), lr=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for step, batch in enumerate(images(3)):
        optimizer.zero_grad()
        total = 0.0
        used = set()
        chunks = batch.split(MICRO)
        for chunk in chunks:
            recon, vq_loss, codes = model(chunk)
            loss = F.mse_loss(recon, chunk) + vq_loss
            loss = loss * (len(chunk) / len(batch))
            loss.backward()
            total += loss.item()
            used.update(codes.tolist())
        norm = optimizer.clip(1.0)
        optimizer.step(min(1.0, (step + 1) / 2))
        print(f"step {step} loss {total:.6f} grad norm {norm.item():.6f} codes {len(used)}")


if __name__ == "__main__":
    main()
