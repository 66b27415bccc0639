"""Stochastic weight averaging: the plain mean of the weights at the end of every epoch."""

import math
from copy import deepcopy

import torch
from torch import Generator, Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from errata.training.executors import EVALUATION_BATCH, forward
from errata.training.model_inputs import Inputs


class WeightAverage:
    """Running sum of a model's parameters and buffers."""

    def __init__(self) -> None:
        self.count = 0
        self.total: dict[str, Tensor] = {}

    def add(self, weights: dict[str, Tensor]) -> None:
        """Take in the weights of one more epoch."""
        self.count += 1
        wide = {name: value.detach().to(_precise(value.dtype)) for name, value in weights.items()}
        if not self.total:
            self.total = {name: value.clone() for name, value in wide.items()}
            return
        torch._foreach_add_([self.total[name] for name in wide], list(wide.values()))

    def module(self, like: nn.Module) -> nn.Module:
        """A copy of the model with the mean weights."""
        averaged = deepcopy(like)
        current = averaged.state_dict()
        averaged.load_state_dict({name: (self.total[name] / self.count).to(current[name]) for name in current})
        return averaged


def _precise(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


@torch.no_grad()
def recompute_batch_norm(model: nn.Module, inputs: Inputs, rows: Tensor, draws: Generator) -> None:
    """Set the batch-norm statistics of averaged weights to those of the training set, passed through once."""
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not layers:
        return
    model.eval()
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a plain mean over the batches
        layer.train()
    # Even batches: in a mean over batches a small one at the end would count as much as all others.
    for raw in inputs.fetch(torch.tensor_split(rows, math.ceil(len(rows) / EVALUATION_BATCH))):
        forward(model, inputs.train(raw, draws))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.eval()
