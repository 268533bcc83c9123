"""Train a generator against a discriminator, each with an optimizer of its own, in turn."""

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(), nn.Linear(16, 8))
discriminator = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(), nn.Linear(16, 1))
of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
for _ in range(6):
    real, fake = torch.randn(8, 8), generator(torch.randn(8, 4))
    discriminator.zero_grad()
    loss = criterion(discriminator(real), torch.ones(8, 1)) + criterion(discriminator(fake.detach()), torch.zeros(8, 1))
    loss.backward()
    of_discriminator.step()
    generator.zero_grad()
    criterion(discriminator(fake), torch.ones(8, 1)).backward()
    of_generator.step()
