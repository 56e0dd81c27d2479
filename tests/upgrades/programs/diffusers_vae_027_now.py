"""AutoencoderKL training."""

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL


def build():
    return AutoencoderKL(
        in_channels=1,
        out_channels=1,
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
        block_out_channels=(8, 16),
        layers_per_block=1,
        latent_channels=2,
        norm_num_groups=4,
        sample_size=16,
    )


if __name__ == "__main__":
    vae = build()
    vae.load_state_dict(torch.load("weights.pt"))
    opt = torch.optim.Adam(vae.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(42)
    for step in range(2):
        img = torch.randn(2, 1, 16, 16, generator=gen)
        post = vae.encode(img).latent_dist
        z = post.mean + post.std * torch.randn(post.mean.shape, generator=gen)
        rec = vae.decode(z).sample
        loss = F.mse_loss(rec, img) + 1e-2 * post.kl().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.9f}")
