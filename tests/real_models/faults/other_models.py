"""Planted faults of convolutional and recurrent models: what is wrong, and which module and line are right."""

from __future__ import annotations

from tests.real_models.faults.plant import (
    OPTIMIZER,
    OUTSIDE,
    STEP,
    built,
    fault,
)
from tests.real_models.runs import TASK, TRAIN, Edit

RESNET = [
    fault("resnet/norm-eps", "layer1.0.bn2", built("model.layer1[0].bn2.eps = 1e-1"), at="out = self.bn2(out)"),
    fault("resnet/stale-statistics", "layer1.1.bn1", built("model.layer1[1].bn1.eval()"), at="out = self.bn1(out)"),
    fault(
        "resnet/padding",
        "layer2.1.conv1",
        built("c = model.layer2[1].conv1; c.padding_mode = 'circular'; c._reversed_padding_repeated_twice = [1] * 4"),
        at="out = self.conv1(x)",
    ),
    fault(
        "resnet/relu-missing",
        ("layer1.0.relu", "layer1.0"),
        Edit("        out = self.relu(out)\n", ""),
        healthy_at="out = self.relu(out)",
    ),
    fault("resnet/smoothing", OUTSIDE, Edit("label_smoothing=0.1)", "label_smoothing=0.0)  # <- here", TASK)),
    fault(
        "resnet/input-halved",
        OUTSIDE,
        Edit('model(inputs["image"])', 'model(inputs["image"] / 2)', TASK),
        at='model(inputs["image"] / 2)',
    ),
    fault(
        "resnet/average-pool",
        "maxpool",
        Edit("nn.MaxPool2d(3, stride=2, padding=1)", "nn.AvgPool2d(3, stride=2, padding=1)"),
        at="x = self.maxpool(x)",
    ),
    fault(
        "resnet/image-flipped",
        OUTSIDE,
        Edit('model(inputs["image"])', 'model(inputs["image"].flip(3))', TASK),
        at='model(inputs["image"].flip(3))',
    ),
    fault("resnet/double-step", OPTIMIZER, Edit(STEP, f"{STEP}\n{STEP}  # <- here", TRAIN)),
]

LSTM = [
    fault(
        "lstm/mask-off-by-one",
        "pool",
        Edit("positions[None, :] >= lengths", "positions[None, :] > lengths"),
        at="positions[None, :] > lengths",
    ),
    fault("lstm/softmax-axis", "pool", Edit("torch.softmax(scores, dim=1)", "torch.softmax(scores, dim=0)  # <- here")),
    fault("lstm/input-reversed", OUTSIDE, Edit("x, _ = self.lstm(x)", "x, _ = self.lstm(x.flip(1))  # <- here")),
    fault("lstm/recurrent-weight", "lstm", built("model.lstm.weight_hh_l0[2, 3] += 0.1"), at="x, _ = self.lstm(x)"),
    fault(
        "lstm/state-lost",
        ("", "cell"),
        Edit(
            "state = self.cell(x[:, position], state)",
            "state = self.cell(x[:, position], torch.zeros_like(state))  # <- here",
        ),
    ),
    fault(
        "lstm/gates-swapped",
        "cell",
        Edit("reset, update, new = self.inner(x)", "update, reset, new = self.inner(x)"),
        at=("update, reset, new = self.inner(x)", "reset = torch.sigmoid(reset + reset_h)"),
    ),
    fault(
        "lstm/tanh-missing",
        "cell",
        Edit("new = torch.tanh(new + reset * new_h)", "new = new + reset * new_h  # <- here"),
        healthy_at="new = torch.tanh(new + reset * new_h)",
        at="return (1 - update) * new + update * state",
    ),
    fault(
        "lstm/dropout-rate",
        "drop",
        Edit("nn.Dropout(0.2)", "nn.Dropout(0.4)"),
        at="return self.head(self.drop(pooled))",
    ),
    fault(
        "lstm/state-detached",
        ("", "cell"),
        Edit(
            "state = self.cell(x[:, position], state)", "state = self.cell(x[:, position], state.detach())  # <- here"
        ),
    ),
]

UNET = [
    fault(
        "unet/groups",
        "middle.norm1",
        built("model.middle.norm1.num_groups = 2"),
        at="h = self.conv1(F.silu(self.norm1(x)))",
    ),
    fault(
        "unet/wave-length",
        "time",
        Edit("-math.log(10000) * torch.arange(half)", "-math.log(1000) * torch.arange(half)"),
        at="-math.log(1000) * torch.arange(half)",
    ),
    fault(
        "unet/sine-and-cosine-swapped",
        "time",
        Edit(
            "torch.cat((angles.sin(), angles.cos()), dim=-1)",
            "torch.cat((angles.cos(), angles.sin()), dim=-1)  # <- here",
        ),
        near="return self.second(F.silu(self.first(waves)))",
    ),
    fault(
        "unet/skip-first",
        ("", "up"),
        Edit("torch.cat((x, skip), dim=1)", "torch.cat((skip, x), dim=1)"),
        at="torch.cat((skip, x), dim=1)",
    ),
    fault("unet/scale", "attention", Edit("channels**-0.5", "channels**-1  # <- here")),
    fault("unet/kernel-flipped", "grow", built("w = model.grow.weight; w.copy_(w.flip(-1))"), at="x = self.grow(x)"),
    fault(
        "unet/loss-sum",
        OUTSIDE,
        Edit('inputs["noise"].float())', 'inputs["noise"].float(), reduction="sum")  # <- here', TASK),
    ),
    fault(
        "unet/clamped-in-place",
        "down",
        Edit("F.silu(self.norm1(x))", "F.silu(self.norm1(x.clamp_(-1, 1)))"),
        at="F.silu(self.norm1(x.clamp_(-1, 1)))",
    ),
    fault(
        "unet/residual-missing",
        "attention",
        Edit("return x + h", "return h"),
        healthy_at="return x + h",
    ),
]
