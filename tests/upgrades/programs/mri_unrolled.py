"""Unrolled reconstruction of multi-coil MRI: complex k-space, data-consistency steps, checkpointed denoisers."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

SIZE, COILS, CASCADES = 16, 3, 3


def fft2c(x):
    return torch.fft.fftshift(torch.fft.fft2(torch.fft.ifftshift(x, dim=(-2, -1)), norm="ortho"), dim=(-2, -1))


def ifft2c(x):
    return torch.fft.fftshift(torch.fft.ifft2(torch.fft.ifftshift(x, dim=(-2, -1)), norm="ortho"), dim=(-2, -1))


class Standardized(nn.Module):
    """Weight standardization: every filter has zero mean and the given length."""

    def forward(self, weight):
        flat = weight.flatten(1)
        flat = flat - flat.mean(1, keepdim=True)
        return (flat / (flat.std(1, keepdim=True) + 1e-4) * flat.shape[1] ** -0.5).view_as(weight)


class Denoiser(nn.Module):
    """A residual network on real and imaginary channels, normalised per image."""

    def __init__(self, width=12):
        super().__init__()
        self.inlet = nn.Conv2d(2, width, 3, padding=1)
        self.middle = parametrize.register_parametrization(
            nn.Conv2d(width, width, 3, padding=1), "weight", Standardized()
        )
        self.norm = nn.GroupNorm(3, width)
        self.outlet = nn.Conv2d(width, 2, 3, padding=1)

    def forward(self, image):
        power = image.abs().square().mean(dim=(-2, -1), keepdim=True).sqrt() + 1e-6
        x = torch.view_as_real(image / power).permute(0, 3, 1, 2)
        h = F.leaky_relu(self.inlet(x), 0.1)
        h = h + F.leaky_relu(self.norm(self.middle(h)), 0.1)
        change = self.outlet(h).permute(0, 2, 3, 1).contiguous()
        return torch.view_as_complex(change) * power


class DataConsistency(nn.Module):
    """One gradient step on the squared error in k-space, with a learned positive step size."""

    def __init__(self):
        super().__init__()
        self.log_step = nn.Parameter(torch.tensor(-0.3))

    def forward(self, image, kspace, mask, maps):
        predicted = fft2c(maps * image.unsqueeze(1))
        error = (predicted - kspace) * mask
        gradient = (maps.conj() * ifft2c(error)).sum(1)
        return image - self.log_step.exp() * gradient


class Unrolled(nn.Module):
    def __init__(self):
        super().__init__()
        self.consistency = nn.ModuleList(DataConsistency() for _ in range(CASCADES))
        self.denoisers = nn.ModuleList(Denoiser() for _ in range(CASCADES))

    def forward(self, kspace, mask, maps):
        image = (maps.conj() * ifft2c(kspace)).sum(1)
        stages = []
        for consistency, denoiser in zip(self.consistency, self.denoisers):
            image = image - 0.3 * checkpoint(denoiser, image, use_reentrant=False)
            image = consistency(image, kspace, mask, maps)
            stages.append(image)
        return stages


class SSIM(nn.Module):
    def __init__(self, window=5):
        super().__init__()
        self.window = window
        self.register_buffer("kernel", torch.full((1, 1, window, window), 1.0 / window**2))

    def forward(self, x, y, peak):
        x, y = x.unsqueeze(1), y.unsqueeze(1)
        c1, c2 = (0.01 * peak).square().view(-1, 1, 1, 1), (0.03 * peak).square().view(-1, 1, 1, 1)
        mx, my = F.conv2d(x, self.kernel), F.conv2d(y, self.kernel)
        unbiased = self.window**2 / (self.window**2 - 1)
        vx = unbiased * (F.conv2d(x * x, self.kernel) - mx * mx)
        vy = unbiased * (F.conv2d(y * y, self.kernel) - my * my)
        vxy = unbiased * (F.conv2d(x * y, self.kernel) - mx * my)
        top = (2 * mx * my + c1) * (2 * vxy + c2)
        return (top / ((mx * mx + my * my + c1) * (vx + vy + c2))).mean()


def make_scans(step):
    g = torch.Generator().manual_seed(700 + step)
    axis = torch.linspace(-1, 1, SIZE)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    images = []
    for _ in range(3):
        image = torch.zeros(SIZE, SIZE)
        for cx, cy, rx, ry, value in (torch.rand(4, 5, generator=g)).tolist():
            inside = ((x - cx + 0.5) / (0.2 + rx)) ** 2 + ((y - cy + 0.5) / (0.2 + ry)) ** 2 < 1
            image = image + (0.5 + value) * inside
        images.append(image * torch.exp(1j * (0.5 * x + 0.3 * y)))
    images = torch.stack(images)
    angles = 2 * torch.pi * torch.arange(COILS) / COILS
    cx, cy = torch.cos(angles)[:, None, None], torch.sin(angles)[:, None, None]
    maps = torch.exp(-0.5 * ((x - cx) ** 2 + (y - cy) ** 2)) * torch.exp(1j * cx * x)
    maps = maps / maps.abs().square().sum(0, keepdim=True).sqrt()
    columns = torch.rand(3, SIZE, generator=g) < 0.35
    columns[:, SIZE // 2 - 2 : SIZE // 2 + 2] = True
    mask = columns[:, None, None, :].float()
    noise = torch.complex(*torch.randn(2, 3, COILS, SIZE, SIZE, generator=g))
    kspace = (fft2c(maps * images.unsqueeze(1)) + 0.02 * noise) * mask
    return kspace, mask, maps.expand(3, -1, -1, -1), images


class Lion:
    """Sign of the interpolated momentum; the sign is softened so that tiny gradients do not jump."""

    def __init__(self, params, lr, betas=(0.9, 0.98), weight_decay=0.01):
        self.params, self.lr, self.betas, self.weight_decay = list(params), lr, betas, weight_decay
        self.momentum = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        for p, m in zip(self.params, self.momentum):
            update = self.betas[0] * m + (1 - self.betas[0]) * p.grad
            p.mul_(1 - self.lr * self.weight_decay)
            p.add_(torch.tanh(update / 1e-3), alpha=-self.lr)
            m.mul_(self.betas[1]).add_(p.grad, alpha=1 - self.betas[1])
            p.grad = None


def reconstruction_loss(stages, truth, ssim):
    peak = truth.abs().amax(dim=(-2, -1))
    loss = 0.0
    for number, image in enumerate(stages):
        weight = 10.0 ** ((number + 1 - len(stages)) / (len(stages) - 1))
        difference = image - truth
        l1 = torch.sqrt(difference.real**2 + difference.imag**2 + 1e-6).mean()
        loss = loss + weight * (l1 + 1.0 - ssim(image.abs(), truth.abs(), peak))
    return loss


def main():
    torch.manual_seed(13)
    model, ssim = Unrolled(), SSIM()
    optimizer = Lion(model.parameters(), lr=3e-3)
    for step in range(3):
        kspace, mask, maps, truth = make_scans(step)
        loss = reconstruction_loss(model(kspace, mask, maps), truth, ssim)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
