import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

MELS = 20
HIDDEN = 32
VOCAB = 9


class Recognizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(MELS, HIDDEN, kernel_size=5, stride=2, padding=2)
        self.norm = nn.LayerNorm(HIDDEN)
        self.gru = nn.GRU(HIDDEN, HIDDEN, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * HIDDEN, VOCAB)

    def forward(self, mels, lengths):
        x = self.conv(mels.transpose(1, 2)).transpose(1, 2)
        x = F.gelu(self.norm(x))
        lengths = (lengths + 1) // 2
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        packed, _ = self.gru(packed)
        x, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        return self.head(x).log_softmax(dim=-1), lengths


def build():
    torch.manual_seed(11)
    return Recognizer()


def batches(count):
    gen = torch.Generator().manual_seed(5)
    for _ in range(count):
        mels = torch.randn(4, 40, MELS, generator=gen)
        lengths = torch.tensor([40, 33, 36, 29])
        for i, n in enumerate(lengths.tolist()):
            mels[i, n:] = 0.0
        labels = torch.randint(1, VOCAB, (4, 7), generator=gen)
        labels[:, 3] = labels[:, 2]
        label_lengths = torch.tensor([7, 5, 6, 4])
        yield mels, lengths, labels, label_lengths


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt", weights_only=True))
    criterion = nn.CTCLoss(blank=0, reduction="mean")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for step, (mels, lengths, labels, label_lengths) in enumerate(batches(3)):
        logp, out_lengths = model(mels, lengths)
        loss = criterion(logp.transpose(0, 1), labels, out_lengths, label_lengths)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
