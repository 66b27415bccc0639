"""The optimisers, compared bit for bit with torch's classes."""

import pytest
import torch

from errata.training.optimizers import Optimizer
from errata.training.recipes import Recipe

RECIPES = {
    "adam": Recipe(1, 1, 0.01),
    "adam with L2": Recipe(1, 1, 0.01, 0.1),
    "sgd": Recipe(1, 1, 0.01, 0.1, optimizer="sgd"),
    "sgd with momentum": Recipe(1, 1, 0.01, 0.1, optimizer="sgd", momentum=0.9),
}


def parameters():
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in [(3, 4), (5,), (2,)]]


def torch_optimizer(recipe, trained):
    if recipe.optimizer == "adam":
        return torch.optim.Adam(trained, recipe.learning_rate, weight_decay=recipe.weight_decay)
    return torch.optim.SGD(trained, recipe.learning_rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay)


def set_gradients(trained, step):
    """Random gradients; the last parameter never has one, and the second one only at odd steps."""
    generator = torch.Generator().manual_seed(step)
    for number, parameter in enumerate(trained[:-1]):
        parameter.grad = torch.randn(parameter.shape, generator=generator) if number != 1 or step % 2 else None


@pytest.mark.parametrize("name", RECIPES)
def test_steps_are_those_of_torch_and_resume_from_a_state(name):
    recipe = RECIPES[name]
    expected, ours, resumed = parameters(), parameters(), parameters()
    theirs, optimizer = torch_optimizer(recipe, expected), Optimizer(ours, recipe)
    for step in range(6):
        optimizer.rate = theirs.param_groups[0]["lr"] = 0.01 / (1 + step)
        set_gradients(expected, step)
        set_gradients(ours, step)
        theirs.step()
        optimizer.step()
        if step == 2:
            later = Optimizer(resumed, recipe)
            later.load_state(optimizer.state)
            with torch.no_grad():
                for copy, parameter in zip(resumed, ours, strict=True):
                    copy.copy_(parameter)
        if step > 2:
            later.rate = optimizer.rate
            set_gradients(resumed, step)
            later.step()
    for one, other, third in zip(expected, ours, resumed, strict=True):
        assert torch.equal(one, other)
        assert torch.equal(one, third)
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in ours)
