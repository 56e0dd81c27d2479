"""Greedy continuations with a small Llama from transformers, one prompt at a time, no cache."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

PROMPTS = [[5, 17, 3, 44, 8, 21, 9], [12, 30, 2], [40, 1, 7, 7, 33]]
NEW = 6


def build():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=48,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        initializer_range=0.3,
        attn_implementation="eager",
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    return LlamaForCausalLM(config).eval()


class Continuation:
    """What was generated for one prompt, and how sure the model was."""

    def __init__(self, prompt):
        self.tokens = list(prompt)
        self.logps = []

    def extend(self, model):
        ids = torch.tensor([self.tokens])
        logits = model(input_ids=ids, use_cache=False).logits[0, -1]
        logp = torch.log_softmax(logits, dim=-1)
        token = int(logp.argmax())
        self.tokens.append(token)
        self.logps.append(logp[token].item())


def perplexity(model, tokens):
    ids = torch.tensor([tokens])
    out = model(input_ids=ids, labels=ids, use_cache=False)
    return out.loss.exp().item()


def rank(model, prompt, candidates):
    """log-probability of several two-token endings"""
    scores = []
    for cand in candidates:
        ids = torch.tensor([prompt + cand])
        logp = torch.log_softmax(model(input_ids=ids, use_cache=False).logits[0], dim=-1)
        total = 0.0
        for k, token in enumerate(cand):
            total += logp[len(prompt) + k - 1, token].item()
        scores.append(total)
    return scores


@torch.no_grad()
def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    conts = []
    for prompt in PROMPTS:
        c = Continuation(prompt)
        for _ in range(NEW):
            c.extend(model)
        conts.append(c)
        print("tokens", c.tokens)
        print("logp", " ".join(f"{x:.9f}" for x in c.logps))
    for c in conts:
        print(f"perplexity {perplexity(model, c.tokens):.9f}")
    endings = [[4, 9], [11, 2], [46, 30], [0, 5]]
    for cand, score in zip(endings, rank(model, PROMPTS[0], endings)):
        print("ending", cand, f"{score:.9f}")


if __name__ == "__main__":
    main()
