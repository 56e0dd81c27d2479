"""A message-passing potential for small molecules, trained on energies and forces (the forces by double backward)."""

import math

import torch
import torch.nn.functional as F
from torch import nn

CUTOFF = 3.0
SPECIES = 4


class RadialBasis(nn.Module):
    def __init__(self, count):
        super().__init__()
        centers = torch.linspace(0.0, CUTOFF, count)
        self.register_buffer("centers", centers)
        self.register_buffer("width", centers[1] - centers[0])

    def forward(self, distance):
        gap = distance.unsqueeze(-1) - self.centers
        return torch.exp(-0.5 * (gap / self.width) ** 2)


class CosineCutoff(nn.Module):
    def forward(self, distance):
        value = 0.5 * (torch.cos(math.pi * distance / CUTOFF) + 1.0)
        return value * (distance < CUTOFF)


class ShiftedSoftplus(nn.Module):
    def forward(self, x):
        return F.softplus(x) - math.log(2.0)


class FilterConv(nn.Module):
    """Continuous-filter convolution: the weights of an edge are made from its length."""

    def __init__(self, width, radial):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(radial, width), ShiftedSoftplus(), nn.Linear(width, width))
        self.inlet = nn.Linear(width, width, bias=False)
        self.outlet = nn.Sequential(nn.Linear(width, width), ShiftedSoftplus(), nn.Linear(width, width))

    def forward(self, h, sender, receiver, basis, envelope):
        weight = self.filter(basis) * envelope.unsqueeze(-1)
        message = self.inlet(h)[sender] * weight
        gathered = torch.zeros_like(h).index_add(0, receiver, message)
        return h + self.outlet(gathered)


class Readout(nn.Module):
    """Energies of atoms, scaled and shifted per species, summed per molecule."""

    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, width // 2), ShiftedSoftplus(), nn.Linear(width // 2, 1))
        self.scale = nn.Embedding(SPECIES, 1)
        self.shift = nn.Embedding(SPECIES, 1)
        nn.init.ones_(self.scale.weight)
        nn.init.zeros_(self.shift.weight)

    def forward(self, h, species, molecule, count):
        atomic = self.net(h) * self.scale(species) + self.shift(species)
        return torch.zeros(count, dtype=h.dtype).index_add(0, molecule, atomic.squeeze(-1))


class Potential(nn.Module):
    def __init__(self, width=32, radial=12, layers=2):
        super().__init__()
        self.embed = nn.Embedding(SPECIES, width)
        self.basis = RadialBasis(radial)
        self.cutoff = CosineCutoff()
        self.layers = nn.ModuleList(FilterConv(width, radial) for _ in range(layers))
        self.readout = Readout(width)

    def forward(self, positions, species, molecule, count):
        sender, receiver = neighbours(positions, molecule)
        distance = (positions[sender] - positions[receiver]).norm(dim=-1)
        basis, envelope = self.basis(distance), self.cutoff(distance)
        h = self.embed(species)
        for layer in self.layers:
            h = layer(h, sender, receiver, basis, envelope)
        return self.readout(h, species, molecule, count)


@torch.no_grad()
def neighbours(positions, molecule):
    close = torch.cdist(positions, positions) < CUTOFF
    close &= molecule[:, None] == molecule[None, :]
    close.fill_diagonal_(False)
    receiver, sender = close.nonzero(as_tuple=True)
    return sender, receiver


def morse(positions, species, molecule, count):
    """The reference: a Morse potential between all pairs of a molecule."""
    i, j = torch.triu_indices(len(positions), len(positions), offset=1)
    inside = molecule[i] == molecule[j]
    i, j = i[inside], j[inside]
    best = 0.9 + 0.1 * (species[i] + species[j])
    distance = (positions[i] - positions[j]).norm(dim=-1)
    energy = 0.5 * ((1 - torch.exp(-1.2 * (distance - best))) ** 2 - 1)
    return torch.zeros(count, dtype=positions.dtype).index_add(0, molecule[i], energy)


def forces(energy, positions, create_graph):
    return -torch.autograd.grad(energy.sum(), positions, create_graph=create_graph)[0]


def make_batch(step):
    g = torch.Generator().manual_seed(40 + step)
    sizes = torch.tensor([5, 7, 4, 6])
    molecule = torch.repeat_interleave(torch.arange(4), sizes)
    grid = torch.cartesian_prod(*[torch.arange(2.0)] * 3)
    places = torch.cat([grid[:n] for n in sizes.tolist()]) * 1.3
    positions = places + 0.15 * torch.randn(len(places), 3, generator=g)
    species = torch.randint(0, SPECIES, (len(places),), generator=g)
    positions.requires_grad_(True)
    energy = morse(positions, species, molecule, 4)
    force = forces(energy, positions, create_graph=False)
    return positions.detach(), species, molecule, sizes, energy.detach(), force


class Average:
    """Exponential moving average of the weights, with a warm-up of the decay."""

    def __init__(self, model, decay=0.9):
        self.decay, self.count = decay, 0
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        self.count += 1
        decay = min(self.decay, (1 + self.count) / (10 + self.count))
        for name, p in model.named_parameters():
            self.shadow[name].mul_(decay).add_(p, alpha=1 - decay)


def losses(model, batch):
    positions, species, molecule, sizes, energy, force = batch
    positions = positions.clone().requires_grad_(True)
    predicted = model(positions, species, molecule, len(sizes))
    predicted_force = forces(predicted, positions, create_graph=True)
    energy_loss = ((predicted - energy) / sizes).pow(2).mean()
    force_loss = (predicted_force - force).pow(2).sum(-1).mean()
    return energy_loss, force_loss


def main():
    torch.manual_seed(8)
    model = Potential()
    average = Average(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, eps=1e-4, amsgrad=True)
    held_out = make_batch(99)
    evaluated = Potential()
    for step in range(3):
        energy_loss, force_loss = losses(model, make_batch(step))
        loss = 0.05 * energy_loss + 0.95 * force_loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        average.update(model)
        evaluated.load_state_dict(average.shadow, strict=False)
        test = sum(losses(evaluated, held_out))
        print(f"step {step} loss {loss.item():.9f} test {test.item():.9f}")


if __name__ == "__main__":
    main()
