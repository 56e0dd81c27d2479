"""Correct trainings with less usual habits: other ways to start, freeze, average, perturb, skip and evaluate."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm
from torch.optim.lr_scheduler import CyclicLR, OneCycleLR, ReduceLROnPlateau
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.checkpoint import checkpoint

from tests.silent_errors.frame import Options, debugger, options, recorded

warnings.simplefilter("ignore")
STEPS = 4


def batch(rows: int = 8, width: int = 12, classes: int = 4) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, width), torch.randint(0, classes, (rows,))


def perceptron(width: int = 12, classes: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, classes))


class ReZero(nn.Module):
    """Branches that begin switched off: by a factor of 0, or by a last layer of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12)) for _ in range(4))
        self.factors = nn.ParameterList(nn.Parameter(torch.zeros(())) for _ in range(2))
        for branch in self.branches[2:]:
            nn.init.zeros_(branch[2].weight)
            nn.init.zeros_(branch[2].bias)
        self.head = nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        for number, branch in enumerate(self.branches):
            x = x + (self.factors[number] * branch(x) if number < 2 else branch(x))
        return self.head(x)


def _train(
    given: Options, model: nn.Module, optimizer: torch.optim.Optimizer, after: Callable[[], object] | None = None
) -> None:
    probe = debugger(given)
    for _ in range(STEPS):
        x, y = batch()
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            if after is not None:
                after()


def branches_at_zero(given: Options) -> None:
    """Residual branches begin at zero, so layers inside get gradients of 0 in the first step."""
    model = ReZero()
    _train(given, model, torch.optim.SGD(model.parameters(), lr=0.5))


def one_cycle(given: Options) -> None:
    """The rate begins near 0, and momentum goes the other way."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9, momentum=0.9)
    schedule = OneCycleLR(optimizer, 0.1, total_steps=20, div_factor=1e6)
    _train(given, model, optimizer, schedule.step)


def cyclic(given: Options) -> None:
    """A triangle of rates with a flat schedule behind it that waits for a plateau."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    up, flat = CyclicLR(optimizer, 1e-3, 1e-2, step_size_up=2), ReduceLROnPlateau(optimizer, patience=10)
    _train(given, model, optimizer, lambda: (up.step(), flat.step(1.0)))


def group_of_rate_zero(given: Options) -> None:
    """The trunk is kept as it is by a rate of 0, which later epochs would raise."""
    model = perceptron()
    groups = [{"params": model[:4].parameters(), "lr": 0.0}, {"params": model[4].parameters()}]
    _train(given, model, torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.0))


def thawed_layer_by_layer(given: Options) -> None:
    """Each step another layer is thawed and given to the optimizer."""
    model = perceptron()
    layers = [model[4], model[2], model[0]]
    for layer in layers[1:]:
        layer.requires_grad_(False)
    optimizer, probe = torch.optim.Adam(layers[0].parameters(), lr=1e-3), debugger(given)
    for step in range(STEPS):
        if 0 < step < 3:
            optimizer.add_param_group({"params": list(layers[step].requires_grad_(True).parameters())})
        x, y = batch()
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()


def sharpness_aware(given: Options) -> None:
    """Two passes for each step: gradients of the second are taken at perturbed weights."""
    model = perceptron()
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), debugger(given)
    for _ in range(STEPS):
        x, y = batch()
        with recorded(probe, model):
            F.cross_entropy(model(x), y).backward()
            norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
            moved = [(p, 0.05 * p.grad / (norm + 1e-12)) for p in model.parameters()]
            with torch.no_grad():
                for parameter, by in moved:
                    parameter.add_(by)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            with torch.no_grad():
                for parameter, by in moved:
                    parameter.sub_(by)
            optimizer.step()
            optimizer.zero_grad()


def stochastic_average(given: Options) -> None:
    """An average of weights, whose batch norm is measured anew in training mode without gradients."""
    model = nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    average, optimizer = AveragedModel(model), torch.optim.SGD(model.parameters(), lr=0.1)
    schedule, probe = SWALR(optimizer, swa_lr=0.05, anneal_epochs=3), debugger(given)
    for step in range(STEPS):
        x, y = batch()
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            average.update_parameters(model)
            schedule.step()
            if step == STEPS - 1:
                update_bn([batch()[0] for _ in range(2)], average)
                average.eval()
                with torch.no_grad():
                    average(x)


def lookahead(given: Options) -> None:
    """Slow weights follow the fast ones every second step, and replace them."""
    model = perceptron()
    slow = [p.detach().clone() for p in model.parameters()]
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-2), debugger(given)
    for step in range(STEPS):
        x, y = batch()
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        if step % 2:
            with torch.no_grad():
                for kept, parameter in zip(slow, model.parameters(), strict=True):
                    kept.lerp_(parameter, 0.5)
                    parameter.copy_(kept)


def averaged_for_evaluation(given: Options) -> None:
    """The average takes the place of the weights for an evaluation, and leaves it again."""
    model = nn.Sequential(nn.Linear(12, 24), nn.Dropout(0.2), nn.Tanh(), nn.Linear(24, 4))
    average = copy.deepcopy(model.state_dict())
    optimizer, probe = torch.optim.AdamW(model.parameters(), lr=0.3), debugger(given)
    for step in range(STEPS):
        x, y = batch()
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            for name, value in model.state_dict().items():
                average[name] = average[name].lerp(value, 0.01)
            if step % 2:
                own = copy.deepcopy(model.state_dict())
                model.load_state_dict(average)
                model.eval()
                with torch.no_grad():
                    model(x)
                model.train()
                model.load_state_dict(own)


class Tied(nn.Module):
    """An autoencoder whose decoder is the transposed encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 12) * 0.3)
        self.before, self.after = nn.Parameter(torch.zeros(8)), nn.Parameter(torch.zeros(12))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.sigmoid(F.linear(x, self.weight, self.before)), self.weight.mT, self.after)


def transposed_decoder(given: Options) -> None:
    """One weight is used twice, once transposed, and the loss is the input itself."""
    model = Tied()
    optimizer, probe = torch.optim.Rprop(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        x = torch.randn(16, 12)
        with recorded(probe, model):
            optimizer.zero_grad()
            F.mse_loss(model(x), x).backward()
            optimizer.step()


def penalised_critic(given: Options) -> None:
    """A critic with a penalty on its gradient makes three steps for each of the generator."""
    maker = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 12))
    critic = nn.Sequential(nn.Linear(12, 16), nn.Softplus(), nn.Linear(16, 1))
    model = nn.ModuleDict({"maker": maker, "critic": critic})
    makes, judges = (torch.optim.Adam(part.parameters(), lr=1e-3, betas=(0.0, 0.9)) for part in (maker, critic))
    probe = debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            for _ in range(3):
                real, fake = torch.randn(8, 12), maker(torch.randn(8, 5)).detach()
                mixed = real.lerp(fake, torch.rand(8, 1)).requires_grad_()
                (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
                judges.zero_grad()
                loss = critic(fake).mean() - critic(real).mean() + 10 * (slope.norm(dim=1) - 1).square().mean()
                loss.backward()
                judges.step()
            critic.requires_grad_(False)
            makes.zero_grad()
            (-critic(maker(torch.randn(8, 5))).mean()).backward()
            makes.step()
            critic.requires_grad_(True)


class Noisy(nn.Module):
    """A classifier that estimates how sure it is by dropping units in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.drop, self.head = nn.Linear(12, 24), nn.Dropout(0.5), nn.Linear(24, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(F.elu(self.body(x))))


def dropped_on_purpose(given: Options) -> None:
    """In evaluation the dropout alone is put into training mode, for several samples of one answer."""
    model = Noisy()
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-2), debugger(given)
    for _ in range(STEPS):
        x, y = batch()
        with recorded(probe, model):
            model.train()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            model.eval()
            model.drop.train()
            with torch.no_grad():
                torch.stack([model(x) for _ in range(3)]).var(0)


def several_epochs_of_a_rollout(given: Options) -> None:
    """Policy optimisation: four passes over one rollout, advantages without gradients, two heads and one loss."""
    body = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh())
    model = nn.ModuleDict({"body": body, "policy": nn.Linear(24, 3), "value": nn.Linear(24, 1)})
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=3e-4, eps=1e-5), debugger(given)
    for step in range(6):
        if step % 3 == 0:
            seen = torch.randn(20, 6)
            with torch.no_grad():
                hidden = model["body"](seen)
                before = model["policy"](hidden).log_softmax(-1)
                chosen = before.exp().multinomial(1)
                gain = torch.randn(20)
                better = gain - model["value"](hidden)[:, 0]
        with recorded(probe, model):
            hidden = model["body"](seen)
            now = model["policy"](hidden).log_softmax(-1)
            ratio = (now - before).gather(1, chosen)[:, 0].exp()
            loss = -torch.min(ratio * better, ratio.clamp(0.8, 1.2) * better).mean()
            loss = loss + 0.5 * F.mse_loss(model["value"](hidden)[:, 0], gain) + 0.01 * (now.exp() * now).sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return -gradient


def reversed_gradients(given: Options) -> None:
    """A body learns to hide the domain from a head that looks for it; weights are normalised."""
    model = nn.ModuleDict({
        "body": weight_norm(nn.Linear(12, 16)),
        "label": nn.Linear(16, 4),
        "domain": nn.Linear(16, 2),
    })
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), debugger(given)
    for _ in range(STEPS):
        x, y = batch()
        with recorded(probe, model):
            optimizer.zero_grad()
            hidden = torch.relu(model["body"](x))
            F.cross_entropy(model["label"](hidden), y).backward(retain_graph=True)
            F.cross_entropy(model["domain"](Reverse.apply(hidden)), y % 2).backward()
            optimizer.step()


class Made(nn.Module):
    """A network whose weights another one makes."""

    def __init__(self) -> None:
        super().__init__()
        self.target, self.maker = nn.Linear(12, 4), nn.Linear(5, 52)
        self.target.requires_grad_(False)

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        made = self.maker(task)
        return functional_call(self.target, {"weight": made[:48].view(4, 12), "bias": made[48:]}, (x,))


def weights_from_a_network(given: Options) -> None:
    """The weights that a layer computes with are results, not parameters."""
    model = Made()
    optimizer, probe = torch.optim.Adam(model.maker.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        x, y = batch()
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(x, torch.randn(5)), y).backward()
            optimizer.step()


def carried_state(given: Options) -> None:
    """A recurrent network is cut between pieces of a text, which get longer; embeddings are pretrained and stay."""
    model = nn.ModuleDict({"words": nn.Embedding(30, 10, padding_idx=0), "lstm": nn.LSTM(10, 14, 2, dropout=0.1)})
    model["out"] = nn.Linear(14, 30)
    model["words"].requires_grad_(False)
    optimizer = torch.optim.ASGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    probe, state = debugger(given), None
    for step in range(STEPS):
        text = torch.randint(1, 30, (5 + 3 * step, 4))
        with recorded(probe, model):
            optimizer.zero_grad()
            hidden, state = model["lstm"](model["words"](text[:-1]), state)
            state = tuple(part.detach() for part in state)
            F.cross_entropy(model["out"](hidden).flatten(0, 1), text[1:].flatten()).backward()
            nn.utils.clip_grad_norm_(model["lstm"].parameters(), 0.25)
            optimizer.step()


def skipped_by_the_scaler(given: Options) -> None:
    """float16 with a scale that overflows twice; a schedule goes on all the same."""
    model = nn.Sequential(nn.Linear(12, 32), nn.SiLU(), nn.Linear(32, 4))
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-3), debugger(given)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22)
    for _ in range(5):
        x, y = batch()
        with recorded(probe, model):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()


def alternating(given: Options) -> None:
    """Two tasks with an optimizer each take turns; the body is in both."""
    model = nn.ModuleDict({"body": nn.Linear(12, 16), "one": nn.Linear(16, 4), "two": nn.Linear(16, 1)})
    both = {
        head: torch.optim.Adam([*model["body"].parameters(), *model[head].parameters()], lr=1e-3)
        for head in ("one", "two")
    }
    probe = debugger(given)
    for step in range(STEPS):
        x, y = batch()
        head = "two" if step % 2 else "one"
        with recorded(probe, model):
            hidden = F.relu(model["body"](x))
            loss = (
                F.mse_loss(model["two"](hidden)[:, 0], y.float())
                if step % 2
                else F.cross_entropy(model["one"](hidden), y)
            )
            both[head].zero_grad()
            loss.backward()
            both[head].step()


def reentrant(given: Options) -> None:
    """Layers with dropout are computed again in the backward pass, in the old way; parts of batches are padding."""
    layers = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 24, 0.2, batch_first=True) for _ in range(3))
    model = nn.ModuleDict({"embed": nn.Embedding(20, 16), "layers": layers, "head": nn.Linear(16, 20)})
    optimizer, probe = torch.optim.AdamW(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        words = torch.randint(1, 20, (4, 9))
        words[2:, 6:] = 0
        with recorded(probe, model):
            optimizer.zero_grad()
            x = model["embed"](words)
            for layer in model["layers"]:
                x = checkpoint(layer, x, None, words == 0, use_reentrant=True)
            labels = words.masked_fill(torch.rand(words.shape) > 0.4, -100)
            F.cross_entropy(model["head"](x).flatten(0, 1), labels.flatten()).backward()
            optimizer.step()


PROGRAMS: dict[str, Callable[[Options], None]] = {
    each.__name__: each
    for each in (
        branches_at_zero, one_cycle, cyclic, group_of_rate_zero, thawed_layer_by_layer, sharpness_aware,
        stochastic_average, lookahead, averaged_for_evaluation, transposed_decoder, penalised_critic,
        dropped_on_purpose, several_epochs_of_a_rollout, reversed_gradients, weights_from_a_network, carried_state,
        skipped_by_the_scaler, alternating, reentrant,
    )
}  # fmt: skip

if __name__ == "__main__":
    given = options()
    PROGRAMS[given.name](given)
