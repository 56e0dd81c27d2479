"""Style transfer, modelled on fast_neural_style/neural_style/neural_style.py of pytorch/examples.

A frozen network is part of the loss and passes gradients on. An iteration is a batch of images.
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class TransformerNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.in1 = nn.Conv2d(1, 4, 3, padding=1), nn.InstanceNorm2d(4, affine=True)
        self.conv2 = nn.Conv2d(4, 1, 3, padding=1)

    def forward(self, x):
        return self.conv2(F.relu(self.in1(self.conv1(x))))


class Vgg16(nn.Module):
    def __init__(self):
        super().__init__()
        self.slice1 = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU())
        self.slice2 = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())
        for parameter in self.parameters():
            parameter.requires_grad = False

    def forward(self, x):
        first = self.slice1(x)
        return first, self.slice2(first)


def gram_matrix(y):
    batch, channels, height, width = y.size()
    features = y.view(batch, channels, width * height)
    return features.bmm(features.transpose(1, 2)) / (channels * height * width)


transformer, vgg = TransformerNet(), Vgg16()
optimizer = torch.optim.Adam(transformer.parameters(), 1e-2)
mse_loss = nn.MSELoss()
gram_style = [gram_matrix(y) for y in vgg(torch.rand(1, 1, 8, 8).repeat(2, 1, 1, 1))]
transformer.train()
for _batch in range(3):
    x = torch.rand(2, 1, 8, 8)
    optimizer.zero_grad()
    y = transformer(x)
    features_y, features_x = vgg(y), vgg(x)
    content_loss = 1e2 * mse_loss(features_y[1], features_x[1])
    style_loss = 0.0
    for feature, wanted in zip(features_y, gram_style):
        style_loss += mse_loss(gram_matrix(feature), wanted)
    total_loss = content_loss + 1e4 * style_loss
    total_loss.backward()
    optimizer.step()
    print(total_loss.item().hex())
