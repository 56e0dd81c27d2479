"""UNet2DModel with attention, DDPM loss."""

import torch
from diffusers import DDPMScheduler, UNet2DModel

NAMES = {".query.": ".to_q.", ".key.": ".to_k.", ".value.": ".to_v.", ".proj_attn.": ".to_out.0."}


def build():
    return UNet2DModel(
        sample_size=8,
        in_channels=2,
        out_channels=2,
        layers_per_block=1,
        block_out_channels=(8, 16),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=4,
        attention_head_dim=8,
    )


def canonical(k):
    for a, b in NAMES.items():
        k = k.replace(a, b)
    return k


if __name__ == "__main__":
    net = build()
    saved = {canonical(k): v for k, v in torch.load("weights.pt").items()}
    with torch.no_grad():
        for k, p in net.named_parameters():
            p.copy_(saved[canonical(k)].reshape(p.shape))
    sched = DDPMScheduler(num_train_timesteps=100)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    gen = torch.Generator().manual_seed(41)
    for step in range(2):
        x = torch.randn(2, 2, 8, 8, generator=gen)
        noise = torch.randn(2, 2, 8, 8, generator=gen)
        t = torch.randint(0, 100, (2,), generator=gen)
        noisy = sched.add_noise(x, noise, t)
        loss = torch.nn.functional.mse_loss(net(noisy, t).sample, noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.9f}")
