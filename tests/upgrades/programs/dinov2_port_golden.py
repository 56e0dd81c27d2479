"""Linear probe and last block of a small DINOv2 (SwiGLU) of transformers on pictures larger than at pretraining."""

import torch
from transformers import Dinov2Config, Dinov2ForImageClassification


def build():
    torch.manual_seed(0)
    config = Dinov2Config(
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        mlp_ratio=2,
        image_size=24,
        patch_size=6,
        use_swiglu_ffn=True,
        layerscale_value=0.6,
        initializer_range=0.15,
        layer_norm_eps=1e-6,
        num_labels=6,
    )
    model = Dinov2ForImageClassification(config)
    for name, p in model.named_parameters():
        if ("norm" in name and name.endswith("weight")) or "lambda1" in name:
            torch.nn.init.normal_(p, mean=0.8, std=0.2)
        elif name.endswith("bias"):
            torch.nn.init.normal_(p, std=0.1)
    return model


def main():
    model = Dinov2ForImageClassification.from_pretrained("checkpoint")
    model.train()
    model.requires_grad_(False)
    for part in (model.classifier, model.dinov2.layernorm, model.dinov2.encoder.layer[-1]):
        part.requires_grad_(True)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.05, momentum=0.9, weight_decay=1e-3)
    data = torch.Generator().manual_seed(3)
    for step in range(3):
        pixels = torch.randn(6, 3, 36, 30, generator=data)
        labels = torch.randint(0, 6, (6,), generator=data)
        loss = model(pixel_values=pixels, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
