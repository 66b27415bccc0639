"""Weights in bfloat16 for one training step; the optimiser changes the float32 weights that they are copied from."""

from typing import Any

import torch
from torch import Tensor, nn


class LowPrecision(torch.autograd.Function):
    """Copies of all weights by one kernel, and their gradients by another. Autocast uses one per weight."""

    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> tuple[Tensor, ...]:
        """The weights in bfloat16."""
        return _copies(weights, torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        """The gradients in float32."""
        return _copies(gradients, torch.float32)


def _copies(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    copied = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    torch._foreach_copy_(copied, list(tensors))
    return tuple(copied)


def matrices(model: nn.Module) -> dict[str, Tensor]:
    """The trained float32 parameters of convolutions and linear layers, by name: those that autocast converts."""
    return {
        f"{name}.{own}" if name else own: parameter
        for name, module in model.named_modules()
        if isinstance(module, nn.Conv2d | nn.Linear)
        for own, parameter in module.named_parameters(recurse=False)
        if parameter.requires_grad and parameter.dtype == torch.float32
    }
