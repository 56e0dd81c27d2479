"""GPT-NeoX, taught by preferences: a policy, a frozen reference, and pairs of answers."""

import torch
import torch.nn.functional as F
from modeling_gpt_neox import GPTNeoXForCausalLM
from transformers.models.gpt_neox.configuration_gpt_neox import GPTNeoXConfig

KEPT = ()
BETA = 0.3
SMOOTHING = 0.1


class Preference(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.policy = GPTNeoXForCausalLM(config)
        self.reference = GPTNeoXForCausalLM(config).requires_grad_(False)


def build(attention):
    config = GPTNeoXConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
        bos_token_id=1,
        eos_token_id=2,
        attn_implementation=attention,
    )
    return Preference(config)


def batch(step):
    generator = torch.Generator().manual_seed(4200 + step)
    words = torch.randint(3, 64, (4, 12), generator=generator)
    words[2:, :5] = words[:2, :5]
    answer = torch.zeros(4, 12)
    answer[:, 5:] = 1
    answer[1, 10:] = 0
    answer[2, 9:] = 0
    return {"words": words, "answer": answer}


def likelihood(model, words, answer):
    logits = model(input_ids=words, use_cache=False).logits[:, :-1].float()
    terms = logits.log_softmax(dim=-1).gather(2, words[:, 1:, None]).squeeze(2)
    return (terms * answer[:, 1:]).sum(dim=1)


def loss(model, inputs):
    learnt = likelihood(model.policy, inputs["words"], inputs["answer"])
    with torch.no_grad():
        known = likelihood(model.reference, inputs["words"], inputs["answer"])
    better, worse = (learnt - known).chunk(2)
    margin = BETA * (better - worse)
    terms = F.logsigmoid(margin) * (1 - SMOOTHING) + F.logsigmoid(-margin) * SMOOTHING
    return -terms.mean()
