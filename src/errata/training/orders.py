"""Orders of samples drawn on a GPU, where shuffling a small table on the host takes longer than training on it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from errata.training.jobs import TrainingJob

EPOCHS_AHEAD = 32
NUMBERS_AHEAD = 1 << 20


class DeviceOrders:
    """Shuffled positions of several jobs, several epochs at a time; each job's come from a generator of its own."""

    def __init__(self, jobs: Sequence[TrainingJob], width: int, padding: int, device: torch.device) -> None:
        self._samples = [len(job.train_rows) for job in jobs]
        self._width, self._padding, self._device = width, padding, device
        self._generators = [Generator(device).manual_seed(job.recipe.seed) for job in jobs]
        self._before = [generator.get_state() for generator in self._generators]
        self._used = 0
        self._drawn: Tensor | None = None

    def next_epoch(self) -> Tensor:
        """Positions (R, width) of every job's next epoch, padded at the end."""
        if self._drawn is None:
            self._drawn = self._draw()
        if self._used == len(self._drawn):
            self._before = [generator.get_state() for generator in self._generators]
            self._drawn, self._used = self._draw(), 0
        self._used += 1
        return self._drawn[self._used - 1]

    def state(self, slot: int) -> dict[str, Any]:
        """Where a job is in its order."""
        return {"generator": self._before[slot], "used": self._used}

    def load_state(self, slot: int, state: dict[str, Any]) -> None:
        """Go on in that order; all jobs are at the same epoch."""
        self._generators[slot].set_state(state["generator"])
        self._before[slot], self._used, self._drawn = state["generator"], state["used"], None

    def _draw(self) -> Tensor:
        """Positions (epochs, R, width); a job alone is as wide as in company, so its numbers are the same."""
        epochs = max(1, min(EPOCHS_AHEAD, NUMBERS_AHEAD // self._width))
        shape = (epochs, len(self._samples), self._width)
        drawn = torch.full(shape, self._padding, device=self._device)
        for slot, (samples, generator) in enumerate(zip(self._samples, self._generators, strict=True)):
            keys = torch.rand((epochs, samples), generator=generator, device=self._device)
            drawn[:, slot, :samples] = keys.argsort(dim=1)
        return drawn
