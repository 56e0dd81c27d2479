"""VQ-VAE on small images: full batches, torch.optim.AdamW."""

import torch
import torch.nn as nn
import torch.nn.functional as F

CODES = 16
CODE_DIM = 12
WIDTH = 24


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


def build():
    torch.manual_seed(121)
    return VQVAE()


def param_groups(model):
    decay, plain = [], []
    for name, p in model.named_parameters():
        if p.ndim >= 2 and "codebook" not in name:
            decay.append(p)
        else:
            plain.append(p)
    return [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]


def images(count):
    gen = torch.Generator().manual_seed(122)
    for _ in range(count):
        coarse = torch.randn(12, 3, 4, 4, generator=gen)
        contrast = torch.linspace(0.3, 2.0, 12).view(-1, 1, 1, 1)
        yield F.interpolate(coarse * contrast, size=16, mode="bilinear", align_corners=False)


def main():
    model = build()
    optimizer = torch.optim.AdamW(param_groups(model), lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 2))
    for step, batch in enumerate(images(3)):
        recon, vq_loss, codes = model(batch)
        loss = F.mse_loss(recon, batch) + vq_loss
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warmup.step()
        print(f"step {step} loss {loss.item():.6f} grad norm {norm.item():.6f} codes {codes.unique().numel()}")


if __name__ == "__main__":
    main()
