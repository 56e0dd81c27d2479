"""T5 full decoder forward against encoder once and cached decoding."""

import torch
from transformers import T5Config, T5ForConditionalGeneration

torch.manual_seed(530)
model = T5ForConditionalGeneration(
    T5Config(
        vocab_size=60,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
).eval()
with torch.no_grad():
    for _, p in sorted(model.named_parameters()):
        if p.ndim > 1:
            p.copy_(torch.randn(p.shape) * 0.9 / p[0].numel() ** 0.5)
src = torch.randint(1, 60, (2, 7), generator=torch.Generator().manual_seed(531))
with torch.no_grad():
    memory = model.encoder(src)
    new, past = torch.zeros(2, 1, dtype=torch.long), None
    for step in range(4):
        out = model(encoder_outputs=memory, decoder_input_ids=new, past_key_values=past, use_cache=True)
        past, y = out.past_key_values, out.logits[:, -1]
        new = y.argmax(-1, keepdim=True)
        print(f"step {step} {y.std().item():.9f} {y.max().item():.9f} {y[-1, 3].item():.9f}")
