"""A loop of generation by hand that goes on beyond ``max_new_tokens`` (as Transformers 23723)."""

import torch
from torch import nn

from tests.silent_errors.frame import debugger, options, recorded


class Recurrent(nn.Module):
    """A model of text with a state in place of a cache."""

    def __init__(self, words=30, width=24):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.cell = nn.GRUCell(width, width)
        self.head = nn.Linear(width, words)
        self.width = width

    def forward(self, token, state):
        state = self.cell(self.words(token), state)
        return self.head(state), state

    @torch.no_grad()
    def generate(self, prompt, max_new_tokens, count_prompt=False):
        """Return the prompt with the tokens that follow it."""
        state = torch.zeros(len(prompt), self.width)
        for token in prompt.unbind(1):
            scores, state = self(token, state)
        text = prompt
        left = max_new_tokens + (prompt.shape[1] if count_prompt else 0)
        while left > 0:
            token = scores.argmax(-1)
            text = torch.cat([text, token[:, None]], 1)
            left -= 1
            if left:
                scores, state = self(token, state)
        return text


def main():
    given = options()
    model = Recurrent().eval()
    probe = debugger(given)
    for length in (3, 4, 6):
        prompt = torch.randint(0, 30, (2, length))
        with recorded(probe, model):
            text = model.generate(prompt, max_new_tokens=4, count_prompt=given.fault)  # planted
        print(text.tolist())


if __name__ == "__main__":
    main()
