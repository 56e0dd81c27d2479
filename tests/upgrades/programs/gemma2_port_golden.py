"""Reference: Gemma 2 of transformers; perplexity of a text and greedy continuations."""

import torch
from transformers import Gemma2Config, Gemma2ForCausalLM


def build():
    config = Gemma2Config(
        vocab_size=48,
        hidden_size=32,
        intermediate_size=56,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        sliding_window=5,
        query_pre_attn_scalar=16,
        attn_logit_softcapping=5.0,
        final_logit_softcapping=8.0,
        max_position_embeddings=64,
        initializer_range=0.25,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=None,
        attn_implementation="eager",
    )
    return Gemma2ForCausalLM(config)


def main():
    model = build().eval()
    model.load_state_dict(torch.load("weights.pt"))
    generator = torch.Generator().manual_seed(31)
    text = torch.randint(0, 48, (2, 16), generator=generator)
    with torch.no_grad():
        out = model(input_ids=text, labels=text, use_cache=False)
    print(f"nll {out.loss.item():.9f} logit {out.logits[1, -1, 3].item():.9f}")

    for n in range(2):
        prompt = torch.randint(0, 48, (1, 7), generator=generator)
        gen = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=5,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        new = gen.sequences[0, prompt.shape[1] :]
        total = sum(step[0].log_softmax(-1)[tok] for step, tok in zip(gen.logits, new))
        print(f"continuation {n}: {new.tolist()} logp {total.item():.9f}")


if __name__ == "__main__":
    main()
