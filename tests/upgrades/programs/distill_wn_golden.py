"""Distil a transformer teacher (run live, frozen) into a weight-normalised text CNN."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

VOCAB, CLASSES, T = 45, 6, 2.0


class Teacher(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.cls = nn.Linear(d, CLASSES)

    def forward(self, ids):
        return self.cls(self.encoder(self.emb(ids)).mean(1)) * 4


class TextCNN(nn.Module):
    def __init__(self, d=16, channels=20):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.convs = nn.ModuleList(
            weight_norm(nn.Conv1d(d if i == 0 else channels, channels, 3, padding=1)) for i in range(2)
        )
        self.fc = weight_norm(nn.Linear(channels, CLASSES))

    def forward(self, ids):
        x = self.emb(ids).transpose(1, 2)
        for conv in self.convs:
            x = F.elu(conv(x))
        return self.fc(x.max(dim=-1).values)


class Distiller(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher = Teacher()
        self.student = TextCNN()

    def forward(self, ids, labels):
        with torch.no_grad():
            soft = self.teacher(ids)
        logits = self.student(ids)
        kd = F.kl_div(F.log_softmax(logits / T, -1), F.softmax(soft / T, -1), reduction="batchmean") * T * T
        return 0.7 * kd + 0.3 * F.cross_entropy(logits, labels)


def build():
    return Distiller()


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    model.teacher.eval()
    opt = torch.optim.RMSprop(model.student.parameters(), lr=0.003)
    g = torch.Generator().manual_seed(2)
    ids = torch.randint(0, VOCAB, (24, 14), generator=g)
    labels = torch.randint(0, CLASSES, (24,), generator=g)
    for step in range(3):
        rows = slice(8 * step, 8 * step + 8)
        loss = model(ids[rows], labels[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
