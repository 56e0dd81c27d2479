"""Four networks with two optimizers, modelled on models/cycle_gan_model.py of junyanz/pytorch-CycleGAN-and-pix2pix.

An iteration is a pair of images: both generators are trained, then both discriminators.
"""

import itertools

import torch
from torch import nn

torch.manual_seed(0)


def generator():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.InstanceNorm2d(3), nn.ReLU(True), nn.Conv2d(3, 1, 1), nn.Tanh()
    )


def discriminator():
    return nn.Sequential(nn.Conv2d(1, 3, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(3, 1, 2))


class CycleGANModel:
    def __init__(self):
        self.netG_A, self.netG_B = generator(), generator()
        self.netD_A, self.netD_B = discriminator(), discriminator()
        self.criterionCycle, self.criterionIdt = nn.L1Loss(), nn.L1Loss()
        self.criterionGAN = nn.MSELoss()
        generators = itertools.chain(self.netG_A.parameters(), self.netG_B.parameters())
        discriminators = itertools.chain(self.netD_A.parameters(), self.netD_B.parameters())
        self.optimizer_G = torch.optim.Adam(generators, lr=2e-3, betas=(0.5, 0.999))
        self.optimizer_D = torch.optim.Adam(discriminators, lr=2e-3, betas=(0.5, 0.999))

    def require_gradients(self, wanted):
        for parameter in itertools.chain(self.netD_A.parameters(), self.netD_B.parameters()):
            parameter.requires_grad = wanted

    def gan_loss(self, prediction, real):
        return self.criterionGAN(prediction, torch.full_like(prediction, float(real)))

    def forward(self):
        self.fake_B = self.netG_A(self.real_A)
        self.rec_A = self.netG_B(self.fake_B)
        self.fake_A = self.netG_B(self.real_B)
        self.rec_B = self.netG_A(self.fake_A)

    def backward_D(self, net, real, fake):
        loss = (self.gan_loss(net(real), True) + self.gan_loss(net(fake.detach()), False)) * 0.5
        loss.backward()
        return loss

    def backward_G(self):
        loss_idt = self.criterionIdt(self.netG_A(self.real_B), self.real_B) * 5.0
        loss_idt = loss_idt + self.criterionIdt(self.netG_B(self.real_A), self.real_A) * 5.0
        loss_gan = self.gan_loss(self.netD_A(self.fake_B), True) + self.gan_loss(self.netD_B(self.fake_A), True)
        loss_cycle_A = self.criterionCycle(self.rec_A, self.real_A) * 10.0
        loss_cycle_B = self.criterionCycle(self.rec_B, self.real_B) * 10.0
        self.loss_G = loss_gan + loss_cycle_A + loss_cycle_B + loss_idt
        self.loss_G.backward()

    def optimize_parameters(self, real_A, real_B):
        self.real_A, self.real_B = real_A, real_B
        self.forward()
        self.require_gradients(False)
        self.optimizer_G.zero_grad()
        self.backward_G()
        self.optimizer_G.step()
        self.require_gradients(True)
        self.optimizer_D.zero_grad()
        self.loss_D_A = self.backward_D(self.netD_A, self.real_B, self.fake_B)
        self.loss_D_B = self.backward_D(self.netD_B, self.real_A, self.fake_A)
        self.optimizer_D.step()


model = CycleGANModel()
for _pair in range(3):
    model.optimize_parameters(torch.rand(2, 1, 6, 6), torch.rand(2, 1, 6, 6))
    print(*(loss.item().hex() for loss in (model.loss_G, model.loss_D_A, model.loss_D_B)))
