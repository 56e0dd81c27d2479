"""Trainer side: log-probabilities of sampled answers under a GPT-NeoX policy, one padded batch per round."""

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM


def build():
    torch.manual_seed(0)
    config = GPTNeoXConfig(
        vocab_size=90,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
        initializer_range=0.2,
        use_parallel_residual=True,
        tie_word_embeddings=False,
    )
    model = GPTNeoXForCausalLM(config)
    for name, p in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(p, std=0.1)
        elif "norm" in name:
            torch.nn.init.normal_(p, mean=1.0, std=0.2)
    return model


def rollouts(g):
    """(prompt, answer) of five requests"""
    prompts = [torch.randint(0, 90, (n,), generator=g) for n in (6, 3, 8, 4, 5)]
    answers = [torch.randint(0, 90, (n,), generator=g) for n in (4, 7, 2, 5, 3)]
    return prompts, answers


@torch.no_grad()
def main():
    model = GPTNeoXForCausalLM.from_pretrained("checkpoint").eval()
    g = torch.Generator().manual_seed(5)
    for round_ in range(2):
        prompts, answers = rollouts(g)
        rows = [torch.cat(pair) for pair in zip(prompts, answers)]
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        attention = torch.arange(tokens.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]
        logits = model(input_ids=tokens, attention_mask=attention.long()).logits
        log_p = logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None]).squeeze(-1)
        for request, (prompt, answer) in enumerate(zip(prompts, answers)):
            of_answer = log_p[request, len(prompt) - 1 : len(prompt) + len(answer) - 1]
            print(f"round {round_} request {request} logprob {of_answer.sum().item():.9f}")


if __name__ == "__main__":
    main()
