"""The training script of the adversarial network: two optimizers in turns, recorded by a debugger."""

import math
import zlib

import task
import torch
import torch.nn.functional as F

STEPS = 2


def initial(name, parameter):
    """Return the first value of a parameter, which follows from its name."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    noise = torch.randn(parameter.shape, generator=generator)
    if parameter.dim() < 2:
        return 1 + 0.1 * noise if name.endswith("weight") else 0.1 * noise
    return noise / math.sqrt(parameter[0].numel())


def build_model(attention):
    torch.manual_seed(0)
    model = task.build(attention)
    for name, parameter in model.named_parameters():
        parameter.data.copy_(initial(name, parameter))
    return model


def penalty(discriminator, image):
    image = image.detach().requires_grad_(True)
    scores = discriminator(image)
    (gradient,) = torch.autograd.grad(scores.sum(), image, create_graph=True)
    return gradient.pow(2).flatten(1).sum(dim=1).mean()


def learn_to_tell(model, optimizer, inputs):
    fake = model.generator(inputs["latent"]).detach()
    real_loss = F.relu(1 - model.discriminator(inputs["image"])).mean()
    fake_loss = F.relu(1 + model.discriminator(fake)).mean()
    loss = real_loss + fake_loss + 0.5 * penalty(model.discriminator, inputs["image"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def learn_to_draw(model, optimizer, inputs):
    fake = model.generator(inputs["other"])
    loss = -model.discriminator(fake).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def train(debugger, dtype="fp32", attention="eager"):
    model = build_model(attention)
    model.train()
    torch.manual_seed(1)
    teller = torch.optim.Adam(model.discriminator.parameters(), lr=4e-3, betas=(0.0, 0.9))
    drawer = torch.optim.Adam(model.generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
    losses = []
    for step in range(STEPS):
        inputs = task.batch(step)
        debugger.start(model)
        told = learn_to_tell(model, teller, inputs)
        drawn = learn_to_draw(model, drawer, inputs)
        debugger.stop()
        debugger.step()
        losses.append((told + drawn).item())
    return losses
