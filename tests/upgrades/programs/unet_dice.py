"""Small U-Net on synthetic discs, soft dice + cross entropy."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)
NUM_CLASSES = 3


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False),
        nn.GroupNorm(4, cout),
        nn.SiLU(),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False),
        nn.GroupNorm(4, cout),
        nn.SiLU(),
    )


class AttentionGate(nn.Module):
    def __init__(self, c_skip, c_up, c_mid):
        super().__init__()
        self.w_skip = nn.Conv2d(c_skip, c_mid, 1)
        self.w_up = nn.Conv2d(c_up, c_mid, 1)
        self.psi = nn.Conv2d(c_mid, 1, 1)

    def forward(self, skip, up):
        a = F.relu(self.w_skip(skip) + self.w_up(up))
        a = torch.sigmoid(self.psi(a))
        return skip * a


class Up(nn.Module):
    def __init__(self, c_in, c_skip, c_out):
        super().__init__()
        self.tconv = nn.ConvTranspose2d(c_in, c_out, 2, stride=2)
        self.gate = AttentionGate(c_skip, c_out, 8)
        self.conv = double_conv(c_out + c_skip, c_out)

    def forward(self, x, skip):
        x = self.tconv(x)
        dh = skip.size(2) - x.size(2)
        dw = skip.size(3) - x.size(3)
        x = F.pad(x, (dw // 2, dw - dw // 2, dh // 2, dh - dh // 2))
        skip = self.gate(skip, x)
        x = torch.cat([skip, x], dim=1)
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, widths=(8, 16, 32)):
        super().__init__()
        self.stem = double_conv(2, widths[0])
        self.down = nn.ModuleList([double_conv(a, b) for a, b in zip(widths[:-1], widths[1:])])
        self.up = nn.ModuleList([Up(b, a, a) for a, b in reversed(list(zip(widths[:-1], widths[1:])))])
        self.head = nn.Conv2d(widths[0], NUM_CLASSES, 1)

    def forward(self, img):
        skips = [self.stem(img)]
        for block in self.down:
            skips.append(block(F.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for block in self.up:
            x = block(x, skips.pop())
        return self.head(x)


def make_batch(n, h=22, w=26):
    yy, xx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    target = torch.zeros(n, h, w, dtype=torch.long)
    for i in range(n):
        cy, cx = torch.randint(5, h - 5, ()), torch.randint(5, w - 5, ())
        dist = (yy - cy) ** 2 + (xx - cx) ** 2
        target[i][dist < 30] = 1
        target[i][dist < 8] = 2
    img = torch.stack([(target > 0).float(), (target == 2).float()], dim=1)
    return img + 0.5 * torch.randn_like(img), target


def dice_loss(logits, target, eps=1.0):
    prob = logits.softmax(dim=1)
    onehot = F.one_hot(target, NUM_CLASSES).permute(0, 3, 1, 2).float()
    inter = (prob * onehot).sum(dim=(2, 3))
    denom = prob.sum(dim=(2, 3)) + onehot.sum(dim=(2, 3))
    score = (2 * inter + eps) / (denom + eps)
    return 1 - score[:, 1:].mean()


net = UNet()
opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
weights = torch.tensor([0.3, 1.0, 2.0])
for step in range(1, 4):
    img, target = make_batch(4)
    logits = net(img)
    ce = F.cross_entropy(logits, target, weight=weights)
    loss = dice_loss(logits, target) + 0.5 * ce
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    print(f"step {step} loss {loss.item():.9f}")
