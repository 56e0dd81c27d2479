"""Questions are matched with passages by a Longformer with global attention on the question."""

import torch
from torch import nn
from torch.nn import functional as F
from transformers import LongformerConfig, LongformerModel

LENGTH, QUESTION = 24, 5


def fill(model):
    generator = torch.Generator().manual_seed(123)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            noise = torch.randn(weight.shape, generator=generator)
            if weight.ndim > 1:
                weight.copy_(noise * weight.shape[-1] ** -0.5)
            else:
                weight.copy_(noise * 0.1 + float(name.endswith("weight")))


class Matcher(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.encoder = LongformerModel(config, add_pooling_layer=False)
        self.score = nn.Linear(2 * config.hidden_size, 1)

    def forward(self, ids, mask):
        globally = torch.zeros_like(mask)
        globally[:, :QUESTION] = 1
        states = self.encoder(ids, attention_mask=mask, global_attention_mask=globally).last_hidden_state
        question = states[:, :QUESTION].mean(1)
        passage = (states * mask[..., None])[:, QUESTION:].sum(1) / mask[:, QUESTION:].sum(1, keepdim=True)
        return self.score(torch.cat([question, passage], dim=-1)).squeeze(-1)


config = LongformerConfig(
    vocab_size=70,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=40,
    attention_window=[4, 8],
    max_position_embeddings=40,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    pad_token_id=1,
)
model = Matcher(config)
fill(model)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
generator = torch.Generator().manual_seed(1)

for step in range(3):
    ids = torch.randint(4, 70, (8, LENGTH), generator=generator)
    lengths = torch.randint(12, LENGTH + 1, (8,), generator=generator)
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    ids = ids * mask + (1 - mask)
    fits = (ids[:, 0] > ids[:, QUESTION]).float()
    loss = F.binary_cross_entropy_with_logits(model(ids, mask), fits)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
