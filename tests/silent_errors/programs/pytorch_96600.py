"""PyTorch 96600: a copy from one GPU to another arrives damaged (emulated hardware).

The weights of rank 0 are sent to the other rank before the training starts. What arrives ends in zeros, and from then
on gradients are averaged over two different models.
"""

import torch
import torch.distributed as dist
from torch import nn

from tests.silent_errors.frame import debugger, job, options, recorded
from tests.silent_errors.programs.lossy_link import break_link


class Recurrent(nn.Module):
    """Predicts the next symbol of a sequence."""

    def __init__(self, symbols=12, width=20):
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.decoder = nn.Linear(width, symbols)

    def forward(self, tokens):
        hidden, _ = self.lstm(self.embedding(tokens))
        return self.decoder(hidden)


def distribute(model):
    """Send the parameters of rank 0 to all others."""
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)


def average(model, size):
    works = [dist.all_reduce(parameter.grad, async_op=True) for parameter in model.parameters()]
    for work in works:
        work.wait()
    for parameter in model.parameters():
        parameter.grad.div_(size)


def main():
    given = options()
    with job() as (rank, size):
        torch.manual_seed(rank)  # each rank draws its own, rank 0 decides
        model = Recurrent()
        if given.fault:
            break_link("broadcast", 1, share=0.25, smallest=1000)
        distribute(model)  # planted
        probe = debugger(given)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        loss_of = nn.CrossEntropyLoss()
        for _ in range(3):
            tokens = torch.randint(0, 12, (6, 9))
            with recorded(probe, model):
                logits = model(tokens[:, :-1])
                loss = loss_of(logits.flatten(0, 1), tokens[:, 1:].flatten())
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                average(model, size)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()


if __name__ == "__main__":
    main()
