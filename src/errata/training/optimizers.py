"""Adam, AdamW and SGD, in forms that a CUDA graph can contain.

The arithmetic is torch's. Its optimiser classes import torch._dynamo, which takes longer than a small table does.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from errata.training.recipes import Recipe


class Optimizer:
    """The optimiser of a recipe for some parameters. `rate` is the learning rate of the next step.

    state: by name, one tensor per parameter.
    """

    def __init__(self, parameters: Iterable[Tensor], recipe: Recipe) -> None:
        self.parameters, self.rate, self._recipe = list(parameters), recipe.learning_rate, recipe
        # On a CPU, rounding in the fused form depends on the position in the tensor, so stacking would change the bits.
        self._on_gpu = self.parameters[0].device.type == "cuda"
        self.state: dict[str, list[Tensor]] = {}
        if recipe.optimizer != "sgd":
            steps_on = self.parameters[0].device if self._on_gpu else torch.device("cpu")
            self.state["step"] = [torch.zeros((), device=steps_on) for _ in self.parameters]
            self.state["exp_avg"], self.state["exp_avg_sq"] = self._zeros(), self._zeros()
        elif recipe.momentum:
            self.state["momentum"] = self._zeros()

    def zero_grad(self) -> None:
        """Drop all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters that have a gradient."""
        used = [number for number, parameter in enumerate(self.parameters) if parameter.grad is not None]
        parameters = [self.parameters[number] for number in used]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        state = {name: [tensors[number] for number in used] for name, tensors in self.state.items()}
        if self._recipe.optimizer == "sgd":
            sgd(
                parameters,
                gradients,
                list(state.get("momentum", [None] * len(used))),
                foreach=True,
                weight_decay=self._recipe.weight_decay,
                momentum=self._recipe.momentum,
                lr=self.rate,
                dampening=0.0,
                nesterov=False,
                maximize=False,
            )
            return
        adam(
            parameters,
            gradients,
            state["exp_avg"],
            state["exp_avg_sq"],
            [],
            state["step"],
            foreach=not self._on_gpu,
            capturable=self._on_gpu,
            fused=self._on_gpu,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.rate,
            weight_decay=self._recipe.weight_decay,
            eps=1e-8,
            maximize=False,
            decoupled_weight_decay=self._recipe.optimizer == "adamw",
        )

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Copy the tensors of the `state` of another optimiser of the same parameters."""
        for name, tensors in self.state.items():
            for tensor, saved in zip(tensors, state[name], strict=True):
                tensor.copy_(saved)

    def _zeros(self) -> list[Tensor]:
        return [torch.zeros_like(parameter) for parameter in self.parameters]
