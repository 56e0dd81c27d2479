import torch
from transformers import ConvNextV2Config, ConvNextV2ForImageClassification


def build():
    config = ConvNextV2Config(
        num_channels=3,
        patch_size=2,
        num_stages=2,
        hidden_sizes=[16, 24],
        depths=[1, 2],
        image_size=16,
        num_labels=5,
        initializer_range=0.1,
    )
    model = ConvNextV2ForImageClassification(config)
    for name, p in model.named_parameters():
        if ".grn." in name:  # as after some training, they start at zero
            torch.nn.init.normal_(p, std=0.4)
    return model


def data(n_batches=3):
    g = torch.Generator().manual_seed(77)
    for _ in range(n_batches):
        yield torch.randn(4, 3, 16, 16, generator=g), torch.randint(0, 5, (4,), generator=g)


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    for i, (pixels, labels) in enumerate(data()):
        out = model(pixel_values=pixels, labels=labels)
        optimizer.zero_grad()
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"batch {i}: loss {out.loss.item():.9f}")


if __name__ == "__main__":
    main()
