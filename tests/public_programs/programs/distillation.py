"""A student that learns from a teacher, modelled on train.py of haitongli/knowledge-distillation-pytorch.

An iteration is a batch; the teacher is in evaluation mode and called without gradients.
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
ALPHA, TEMPERATURE = 0.9, 4.0


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(1, width, 3, padding=1)
        self.bn = nn.BatchNorm2d(width)
        self.fc = nn.Linear(width * 9, 5)
        self.dropout_rate = 0.5

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.bn(self.conv(x)), 2))
        return self.fc(F.dropout(x.flatten(1), p=self.dropout_rate, training=self.training))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = x + F.relu(self.conv2(x))
        return self.fc(x.mean((2, 3)))


def loss_fn_kd(outputs, labels, teacher_outputs):
    divergence = nn.KLDivLoss(reduction="batchmean")(
        F.log_softmax(outputs / TEMPERATURE, dim=1), F.softmax(teacher_outputs / TEMPERATURE, dim=1)
    )
    divergence = divergence * (ALPHA * TEMPERATURE * TEMPERATURE)
    return divergence + F.cross_entropy(outputs, labels) * (1.0 - ALPHA)


student, teacher = Net(4), ResNet()
optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
images, labels = torch.rand(4, 4, 1, 6, 6), torch.randint(0, 5, (4, 4))
student.train()
teacher.eval()
for batch, batch_labels in zip(images, labels):
    output = student(batch)
    with torch.no_grad():
        teacher_output = teacher(batch)
    loss = loss_fn_kd(output, batch_labels, teacher_output)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
