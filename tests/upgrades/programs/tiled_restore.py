"""Image restoration tile by tile: tiles with a halo, batch norm folded into the convolutions."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Folded(nn.Module):
    """valid convolution whose weights already hold a batch norm"""

    def __init__(self, conv, bn=None):
        super().__init__()
        w, b = conv.weight.detach(), conv.bias.detach()
        if bn is not None:
            gain = bn.weight.detach() / torch.sqrt(bn.running_var + bn.eps)
            w = w * gain.view(-1, 1, 1, 1)
            b = (b - bn.running_mean) * gain + bn.bias.detach()
        self.weight, self.bias = nn.Parameter(w), nn.Parameter(b)

    def forward(self, x):
        n, _, h, wd = x.shape
        cols = F.unfold(x, 3)
        out = self.weight.flatten(1) @ cols + self.bias[:, None]
        return out.view(n, -1, h - 2, wd - 2)


class Unit(nn.Module):
    def __init__(self, a, bn, b):
        super().__init__()
        self.first, self.second = Folded(a, bn), Folded(b)

    def forward(self, x):
        y = self.first(x)
        y = torch.where(y > 0, y, 0.1 * y)
        return x[:, :, 2:-2, 2:-2] + self.second(y) * 0.5


class Shuffle(nn.Module):
    def __init__(self, r):
        super().__init__()
        self.r = r

    def forward(self, x):
        n, c, h, w = x.shape
        r = self.r
        x = x.view(n, c // (r * r), r, r, h, w)
        return x.permute(0, 1, 4, 2, 5, 3).reshape(n, c // (r * r), h * r, w * r)


class TileNet(nn.Module):
    def __init__(self, head, units, tail, r=2):
        super().__init__()
        self.head, self.tail = Folded(head), Folded(tail)
        self.units = nn.Sequential(*[Unit(*u) for u in units])
        self.shuffle = Shuffle(r)

    def forward(self, patch):
        """A patch with its halo in, the upscaled residual of the inner part out."""
        x = F.leaky_relu(self.head(patch), 0.1)
        return self.shuffle(self.tail(self.units(x)))


class TiledRestorer(nn.Module):
    def __init__(self, net, tile=8, halo=6, r=2):
        super().__init__()
        self.net, self.tile, self.halo, self.r = net, tile, halo, r

    def forward(self, img):
        n, c, h, w = img.shape
        padded = F.pad(img, (self.halo,) * 4, mode="reflect")
        out = img.repeat_interleave(self.r, 2).repeat_interleave(self.r, 3)
        for top in range(0, h, self.tile):
            for left in range(0, w, self.tile):
                bottom, right = min(top + self.tile, h), min(left + self.tile, w)
                patch = padded[:, :, top : bottom + 2 * self.halo, left : right + 2 * self.halo]
                res = self.net(patch)
                out[:, :, top * self.r : bottom * self.r, left * self.r : right * self.r] += res
        return out


def weights(ch=10, units=2, r=2):
    """Same order of random draws as the reference."""
    torch.manual_seed(4)
    head = nn.Conv2d(3, ch, 3)
    body = [(nn.Conv2d(ch, ch, 3), nn.BatchNorm2d(ch), nn.Conv2d(ch, ch, 3)) for _ in range(units)]
    tail = nn.Conv2d(ch, 3 * r * r, 3)
    for _, bn, _ in body:
        bn.running_mean.normal_(0, 0.2)
        bn.running_var.uniform_(0.5, 1.5)
        nn.init.uniform_(bn.weight, 0.5, 1.5)
        nn.init.normal_(bn.bias, 0, 0.2)
    return head, body, tail


def main():
    model = TiledRestorer(TileNet(*weights()))
    g = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for i, (h, w) in enumerate([(24, 30), (17, 21)]):
            img = torch.rand(1, 3, h, w, generator=g)
            ref = torch.rand(1, 3, 2 * h, 2 * w, generator=g)
            out = model(img)
            psnr = -10 * ((out - ref) ** 2).mean().log10()
            print(f"image {i}: psnr {psnr.item():.9f} mean {out.mean().item():.9f}")
            print(
                f"   corner {out[0, 0, 0, 0].item():.9f} middle {out[0, 1, h, w].item():.9f}"
                f" end {out[0, 2, -1, -1].item():.9f}"
            )


if __name__ == "__main__":
    main()
