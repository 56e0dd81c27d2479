"""A training of three steps."""

import torch
import torch.nn as nn
import torch.nn.functional as F

CH, LATENT, HYPER, LMBDA = 12, 10, 6, 60.0


def smooth_images(n, seed):
    g = torch.Generator().manual_seed(seed)
    coarse = torch.rand(n, 3, 6, 6, generator=g)
    img = F.interpolate(coarse, size=(32, 32), mode="bicubic", align_corners=False)
    return (img + 0.03 * torch.randn(n, 3, 32, 32, generator=g)).clamp(0, 1)


class GDN(nn.Module):
    def __init__(self, channels, inverse=False):
        super().__init__()
        self.inverse = inverse
        self.beta = nn.Parameter(torch.ones(channels))
        self.gamma = nn.Parameter(0.1 * torch.eye(channels) + 0.01)

    def forward(self, x):
        gamma = self.gamma.clamp(min=0.0)
        norm = F.conv2d(x.square(), gamma[:, :, None, None], self.beta.clamp(min=1e-3))
        return x * norm.sqrt() if self.inverse else x * norm.rsqrt()


def down(c_in, c_out):
    return nn.Conv2d(c_in, c_out, 5, stride=2, padding=2)


def up(c_in, c_out):
    return nn.ConvTranspose2d(c_in, c_out, 5, stride=2, padding=2, output_padding=1)


class FactorizedPrior(nn.Module):
    """Logistic density per channel, integrated over a unit bin."""

    def __init__(self, channels):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(channels))
        self.log_scale = nn.Parameter(torch.zeros(channels))

    def forward(self, z):
        loc, inv = self.loc.view(1, -1, 1, 1), torch.exp(-self.log_scale).view(1, -1, 1, 1)
        upper = torch.sigmoid((z + 0.5 - loc) * inv)
        lower = torch.sigmoid((z - 0.5 - loc) * inv)
        return (upper - lower).clamp(min=1e-7)


class Codec(nn.Module):
    def __init__(self):
        super().__init__()
        self.analysis = nn.Sequential(down(3, CH), GDN(CH), down(CH, CH), GDN(CH), down(CH, LATENT))
        self.synthesis = nn.Sequential(up(LATENT, CH), GDN(CH, True), up(CH, CH), GDN(CH, True), up(CH, 3))
        self.hyper_enc = nn.Sequential(nn.Conv2d(LATENT, HYPER, 3, padding=1), nn.ReLU(), down(HYPER, HYPER))
        self.hyper_dec = nn.Sequential(up(HYPER, HYPER), nn.ReLU(), nn.Conv2d(HYPER, 2 * LATENT, 3, padding=1))
        self.prior = FactorizedPrior(HYPER)

    def forward(self, x, noise_y, noise_z):
        y = self.analysis(x - 0.5)
        z = self.hyper_enc(y.abs()) + noise_z
        mu, raw = self.hyper_dec(z).chunk(2, dim=1)
        sigma = F.softplus(raw) + 0.05
        y_hat = y + noise_y
        dev = (y_hat - mu).abs()
        like_y = normal_cdf((0.5 - dev) / sigma) - normal_cdf((-0.5 - dev) / sigma)
        return self.synthesis(y_hat) + 0.5, like_y.clamp(min=1e-7), self.prior(z)


def normal_cdf(t):
    return 0.5 * torch.erfc(-t * 2**-0.5)


def rate_distortion(x, out):
    recon, like_y, like_z = out
    pixels = x.size(0) * x.size(2) * x.size(3)
    bpp = -(like_y.log2().sum() + like_z.log2().sum()) / pixels
    return bpp + LMBDA * F.mse_loss(recon, x)


if __name__ == "__main__":
    torch.manual_seed(90)
    codec = Codec()
    main_params = [p for n, p in codec.named_parameters() if not n.startswith("prior.")]
    main_opt = torch.optim.Adam(main_params, lr=2e-3, eps=1e-5)
    prior_opt = torch.optim.SGD(codec.prior.parameters(), lr=0.1)
    images = smooth_images(12, seed=91)
    noise = torch.Generator().manual_seed(92)
    for step in range(3):
        x = images[4 * step : 4 * step + 4]
        noise_y = torch.rand(4, LATENT, 4, 4, generator=noise) - 0.5
        noise_z = torch.rand(4, HYPER, 2, 2, generator=noise) - 0.5
        loss = rate_distortion(x, codec(x, noise_y, noise_z))
        codec.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(main_params, 1.0)
        main_opt.step()
        prior_opt.step()
        print(f"step {step} loss {loss.item():.9f}")
