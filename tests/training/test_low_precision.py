"""Weights in bfloat16 for a step: exactly the logits and gradients of autocast."""

import pytest
import torch
from torch.func import functional_call

from errata.training.low_precision import LowPrecision, matrices
from errata.training.models import cnn4, mlp, transformer


@pytest.mark.parametrize(
    ("model", "shape"), [(cnn4(3), (2, 3, 16, 16)), (transformer(3), (2, 3, 32, 32)), (mlp([5, 8, 3]), (4, 5))]
)
def test_logits_and_gradients_are_those_of_autocast(model, shape):
    weights, gradients, logits = matrices(model), [], []
    assert weights
    batch = torch.randn(shape)

    def by_copies():
        low = dict(zip(weights, LowPrecision.apply(*weights.values()), strict=True))
        assert {value.dtype for value in low.values()} == {torch.bfloat16}
        return functional_call(model, low, batch)

    for forward in (lambda: model(batch), by_copies):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            logits.append(forward().float())
        logits[-1].square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
    assert torch.equal(*logits)
    assert all(map(torch.equal, *gradients))


def test_only_trained_float32_matrices_are_copied():
    model = mlp([4, 3, 2])
    assert list(matrices(model)) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    model[0].requires_grad_(False)
    assert list(matrices(model)) == ["2.weight", "2.bias"]
    assert matrices(model.double()) == {}
