"""A small conditional UNet of diffusers learns the velocity of a noise schedule."""

import torch
from diffusers import DDPMScheduler, UNet2DConditionModel
from torch.nn import functional as F


def fill(model):
    generator = torch.Generator().manual_seed(19)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            noise = torch.randn(weight.shape, generator=generator)
            if weight.ndim > 1:
                weight.copy_(noise * weight[0].numel() ** -0.5)
            else:
                weight.copy_(noise * 0.1 + float(name.endswith("weight")))


model = UNet2DConditionModel(
    sample_size=8,
    in_channels=3,
    out_channels=3,
    block_out_channels=(16, 32),
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    layers_per_block=1,
    cross_attention_dim=12,
    attention_head_dim=4,
    norm_num_groups=8,
)
fill(model)
model.train()
schedule = DDPMScheduler(num_train_timesteps=200, beta_schedule="squaredcos_cap_v2", prediction_type="v_prediction")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
generator = torch.Generator().manual_seed(27)

for step in range(3):
    clean = torch.randn(6, 3, 8, 8, generator=generator).clamp(-1, 1)
    noise = torch.randn(6, 3, 8, 8, generator=generator)
    captions = torch.randn(6, 5, 12, generator=generator)
    times = torch.randint(0, 200, (6,), generator=generator)
    noisy = schedule.add_noise(clean, noise, times)
    prediction = model(noisy, times, encoder_hidden_states=captions).sample
    velocity = schedule.get_velocity(clean, noise, times)
    loss = F.mse_loss(prediction, velocity)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
