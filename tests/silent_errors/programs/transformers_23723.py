"""Transformers 23723: ``generate`` does not obey ``max_new_tokens``.

The length of the prompt is counted twice where the limit becomes a length of the whole text, so the answer is longer
than asked for.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from tests.silent_errors.frame import debugger, options

ASKED = 5


class Chat(GPT2LMHeadModel):
    """A model that answers, with its own count of the prompt."""

    fault = False

    def _prepare_generated_length(self, generation_config: Any, *arguments: Any, **named: Any) -> Any:
        config = super()._prepare_generated_length(generation_config, *arguments, **named)
        if self.fault:
            config.max_length += named["input_ids_length"]
        return config


def tiny(fault: bool) -> Chat:
    """Return a small model that never ends by itself."""
    config = GPT2Config(
        vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=None, pad_token_id=1
    )
    model = Chat(config).eval()
    model.fault = fault
    return model


def prompts() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(2, 64, (2, length), generator=generator) for length in (4, 6, 7)]


def answer(model: Chat, prompt: torch.Tensor) -> torch.Tensor:
    """Return the text that follows the prompt."""
    mask = torch.ones_like(prompt)
    text = model.generate(prompt, attention_mask=mask, max_new_tokens=ASKED, do_sample=False)  # planted
    return text[:, prompt.shape[1] :]


def main() -> None:
    given = options()
    model = tiny(given.fault)
    probe = debugger(given)
    for prompt in prompts():
        probe.start(model)
        print(answer(model, prompt).tolist())
        probe.stop()
        probe.step()


if __name__ == "__main__":
    main()
