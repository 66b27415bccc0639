"""Batch norm, activation and pooling in one pass: the results of torch, in the places and under the names of torch."""

from copy import deepcopy

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import simulated_triton
from errata.training.fused_norm import FusedNorm, fuse_norms
from errata.training.models import cnn4, cnn9

PIXELS = st.integers(1, 3)


@pytest.fixture
def kernels(monkeypatch):
    return simulated_triton.install(monkeypatch)


def layers(channels, pooled, seed):
    torch.manual_seed(seed)
    norm = nn.BatchNorm2d(channels, eps=1e-3, momentum=0.3)
    for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        nn.init.normal_(tensor)
    return nn.Sequential(norm, nn.LeakyReLU(0.2), *([nn.MaxPool2d(2)] if pooled else []))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10, deadline=None)
@given(PIXELS, PIXELS, PIXELS, st.sampled_from([16, 48]), st.booleans(), st.integers(1, 9), st.integers(0, 99))
def test_results_and_gradients_are_those_of_torch(kernels, images, height, width, channels, pooled, programs, seed):
    kernels.PROGRAMS, kernels.ROWS, kernels.POOLED_ROWS, kernels.END_PARTS = programs, 8, 4, 2
    plain = layers(channels, pooled, seed)
    fused = deepcopy(plain)
    fuse_norms(fused)
    x = torch.randn(images, channels, 2 * height, 2 * width, requires_grad=True)
    again = x.detach().clone(memory_format=torch.channels_last).requires_grad_()
    expected, found = plain(x), fused[0].fused(again)
    gradient = torch.randn_like(expected)
    expected.backward(gradient)
    found.backward(gradient)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(again.grad, x.grad, rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(fused.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(fused[0].running_mean, plain[0].running_mean)
    torch.testing.assert_close(fused[0].running_var, plain[0].running_var)


def test_the_first_of_equal_pixels_has_the_gradient(kernels):
    fused = layers(16, True, 0)
    fuse_norms(fused)
    x = torch.ones(3, 16, 2, 2)
    x[2] = -1
    grads = []
    for layer in (fused[0].fused, layers(16, True, 0)):
        again = x.clone().requires_grad_()
        layer(again).square().sum().backward()
        grads.append(again.grad)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("build", [cnn4, cnn9])
def test_a_fused_model_has_the_same_state_and_evaluates_alike(kernels, build):
    torch.manual_seed(0)
    plain = build(5)
    fused = deepcopy(plain)
    fuse_norms(fused)
    norms = [layer for layer in fused if isinstance(layer, FusedNorm)]
    assert len(norms) == sum(isinstance(layer, nn.BatchNorm2d) for layer in plain)
    assert sum(layer.pooled for layer in norms) == 2
    assert list(fused.state_dict()) == list(plain.state_dict())
    images = torch.randn(2, 3, 32, 32)
    for mode in (False, True):  # on a CPU, training uses torch too
        torch.manual_seed(1)
        expected = plain.train(mode)(images)
        torch.manual_seed(1)
        assert torch.equal(fused.train(mode)(images), expected)


def test_layers_that_differ_are_left_alone(kernels):
    kept = nn.Sequential(
        *(nn.BatchNorm2d(24), nn.LeakyReLU()),  # 24 channels are no multiple of 16
        *(nn.BatchNorm2d(16, affine=False), nn.LeakyReLU()),
        *(nn.BatchNorm2d(16, track_running_stats=False), nn.LeakyReLU()),
        *(nn.BatchNorm2d(16), nn.ReLU()),
    )
    before = list(kept)
    fuse_norms(kept)
    assert list(kept) == before
    overlapping = nn.Sequential(nn.BatchNorm2d(16), nn.LeakyReLU(), nn.MaxPool2d(3, 2))
    fuse_norms(overlapping)
    assert isinstance(overlapping[0], FusedNorm)
    assert not overlapping[0].pooled
    assert isinstance(overlapping[2], nn.MaxPool2d)


def test_without_triton_nothing_is_fused(monkeypatch):
    monkeypatch.setattr("errata.training.fused_norm.find_spec", lambda name: None)
    model = cnn9(5)
    before = list(model)
    fuse_norms(model)
    assert list(model) == before
