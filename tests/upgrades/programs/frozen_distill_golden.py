"""Distilling a frozen conv teacher; the student sits on a frozen backbone with adapters and a weight-normed head."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

CLASSES, TEMP = 5, 2.0


def conv_bn(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class Teacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(conv_bn(1, 8, 1), conv_bn(8, 12, 2), conv_bn(12, 16, 2))
        self.fc = nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.fc(self.features(x).mean((2, 3)))


class Adapter(nn.Module):
    def __init__(self, dim, mid):
        super().__init__()
        self.down = nn.Linear(dim, mid)
        self.up = nn.Linear(mid, dim)

    def forward(self, x):
        return x + self.up(F.gelu(self.down(x), approximate="tanh"))


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(conv_bn(1, 6, 2), conv_bn(6, 10, 2))
        self.adapter = Adapter(10, 4)
        self.head = weight_norm(nn.Linear(10, CLASSES))

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()  # frozen statistics
        return self

    def forward(self, x):
        with torch.no_grad():
            f = self.backbone(x).flatten(2).mean(2)
        return self.head(self.adapter(f))


def seeded_models():
    torch.manual_seed(5)
    teacher, student = Teacher(), Student()
    for m in list(teacher.modules()) + list(student.modules()):
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.uniform_(-0.2, 0.2)
            m.running_var.uniform_(0.2, 0.6)
    return teacher.eval(), student


def images(n=20):
    g = torch.Generator().manual_seed(6)
    return torch.randn(n, 1, 12, 12, generator=g), torch.randint(0, CLASSES, (n,), generator=g)


def distill_loss(s, t, y):
    soft = F.kl_div(F.log_softmax(s / TEMP, 1), F.softmax(t / TEMP, 1), reduction="batchmean") * TEMP**2
    hard = F.cross_entropy(s, y)
    return 0.7 * soft + 0.3 * hard


def main():
    teacher, student = seeded_models()
    student.train()
    with torch.no_grad():
        teacher.fc.weight.mul_(8)
    x, y = images()
    trainable = [p for n, p in student.named_parameters() if not n.startswith("backbone")]
    opt = torch.optim.SGD(trainable, lr=0.2, momentum=0.9, weight_decay=0.01)
    for epoch in range(2):
        for i in range(0, 20, 10):
            xb, yb = x[i : i + 10], y[i : i + 10]
            with torch.no_grad():
                t = teacher(xb)
            loss = distill_loss(student(xb), t, yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            print(f"epoch {epoch} batch {i // 10}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
