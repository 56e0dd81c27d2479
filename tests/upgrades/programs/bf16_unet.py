import torch
from torch import nn
from torch.nn import functional as F


class ConvNormAct(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.conv = nn.Conv2d(n_in, n_out, kernel_size=3, padding=1)
        self.norm = nn.GroupNorm(2, n_out)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)))


class Encoder(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.levels = nn.ModuleList(
            nn.Sequential(ConvNormAct(i, o), ConvNormAct(o, o)) for i, o in zip(widths[:-1], widths[1:])
        )

    def forward(self, x):
        maps = []
        for depth, level in enumerate(self.levels):
            if depth:
                x = F.max_pool2d(x, kernel_size=2)
            x = level(x)
            maps.append(x)
        return maps


class UpStage(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.up = nn.ConvTranspose2d(n_in, n_out, kernel_size=2, stride=2)
        self.first = ConvNormAct(2 * n_out, n_out)
        self.second = ConvNormAct(n_out, n_out)

    def forward(self, x, skip):
        x = self.up(x)
        x = torch.cat((skip, x), dim=1)
        return self.second(self.first(x))


class SegNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder([3, 8, 16, 32])
        self.decoder = nn.ModuleList([UpStage(32, 16), UpStage(16, 8)])
        self.head = nn.Conv2d(8, 4, kernel_size=1)

    def forward(self, x):
        *skips, x = self.encoder(x)
        for stage, skip in zip(self.decoder, reversed(skips)):
            x = stage(x, skip)
        return self.head(x)


class SegLoss(nn.Module):
    """Cross entropy plus soft dice, in float32 whatever the autocast dtype is."""

    def forward(self, logits, target):
        logp = logits.float().log_softmax(dim=1)
        ce = F.nll_loss(logp, target)
        p = logp.exp().flatten(2)
        hot = torch.zeros_like(p).scatter_(1, target.flatten(1)[:, None], 1.0)
        overlap = torch.einsum("bcn,bcn->bc", p, hot)
        size = p.sum(-1) + hot.sum(-1)
        return ce + (1 - (2 * overlap + 1) / (size + 1)).mean()


def translate(sd):
    blocks = {
        "inc": "encoder.levels.0.{}",
        "down1": "encoder.levels.1.{}",
        "down2": "encoder.levels.2.{}",
        "dec1": "decoder.0.{}",
        "dec2": "decoder.1.{}",
    }
    out = {}
    for key, value in sd.items():
        part, *rest = key.split(".")
        if part in blocks:
            half, kind = divmod(int(rest[1]), 3)
            name = ("first", "second")[half] if part.startswith("dec") else str(half)
            out[f"{blocks[part].format(name)}.{('conv', 'norm')[kind]}.{rest[2]}"] = value
        elif part == "outc":
            out["head." + rest[0]] = value
        else:
            out[f"decoder.{int(part[2]) - 1}.up.{rest[0]}"] = value
    return out


def main():
    net = SegNet()
    net.load_state_dict(translate(torch.load("weights.pt")))
    criterion = SegLoss()
    optim = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        g = torch.Generator().manual_seed(60 + step)
        x = torch.randn(3, 3, 16, 16, generator=g)
        y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0.3).long()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = net(x)
        loss = criterion(logits, y)
        optim.zero_grad(set_to_none=True)
        loss.backward()
        optim.step()
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
