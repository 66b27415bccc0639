import pytest
import torch
from torch import nn
from torch.nn.functional import adaptive_avg_pool2d, batch_norm, conv2d, linear, max_pool2d

from errata import InputError
from errata.training.models import cnn4, cnn9, mlp, penultimate, resnet18, resnet34, transformer

BATCH_NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("build", "classes", "expected"),
    [(cnn9, 10, 4_434_570), (cnn9, 100, 4_446_180), (resnet18, 1000, 11_689_512), (resnet34, 1000, 21_797_672)],
)
def test_networks_have_the_published_numbers_of_parameters(build, classes, expected):
    with torch.device("meta"):
        assert parameters(build(classes)) == expected


def test_cnn4_takes_images_of_any_size_with_a_thirtieth_of_the_arithmetic():
    convolutions = 3 * 32 + 32 * 32 + 32 * 64 + 64 * 64
    biases_and_norms = 3 * (32 + 32 + 64 + 64)
    assert parameters(cnn4(10)) == 9 * convolutions + biases_and_norms + 1024 * 128 + 128 + 128 * 10 + 10
    for side in (8, 28, 64):
        assert cnn4(10)(torch.zeros(2, 3, side, side)).shape == (2, 10)
    small, large = (operations(build(10)) for build in (cnn4, cnn9))
    assert 28 < large / small < 32


def test_the_transformer_uses_patches_and_their_positions():
    torch.manual_seed(0)
    model = transformer(10).eval()
    a_block = 12 * 192**2 + 3 * 192 + 192 + 4 * 192 + 192 + 4 * 192  # weights; biases of attention and layers; norms
    assert parameters(model) == 48 * 192 + 192 + 64 * 192 + 6 * a_block + 2 * 192 + 192 * 10 + 10
    assert 4 < operations(cnn9(10)) / operations(model) < 4.5
    image = torch.randn(1, 3, 32, 32)
    within_a_patch, between_patches = image.clone(), image.clone()
    within_a_patch[..., :4, :4] = image[..., :4, :4].flip(-1)
    between_patches[..., :4, :4], between_patches[..., 28:, 28:] = image[..., 28:, 28:], image[..., :4, :4]
    logits = model(image)
    assert not torch.allclose(model(within_a_patch), logits)
    assert not torch.allclose(model(between_patches), logits)
    torch.nn.init.zeros_(model.places)
    torch.testing.assert_close(model(between_patches), model(image))
    assert penultimate(model) is model.head


def operations(model):
    """Multiplications for an image of 32 x 32 pixels."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval()(torch.zeros(1, 3, 32, 32))
    return counter.get_total_flops()


def torchvision_names(blocks):
    """The keys of torchvision's resnet with that many basic blocks per stage, in its order."""
    names = ["conv1.weight", *(f"bn1.{part}" for part in BATCH_NORM)]
    for stage, count in enumerate(blocks, start=1):
        for block in range(count):
            prefix = f"layer{stage}.{block}"
            for number in (1, 2):
                names += [f"{prefix}.conv{number}.weight", *(f"{prefix}.bn{number}.{part}" for part in BATCH_NORM)]
            if stage > 1 and block == 0:
                names += [f"{prefix}.downsample.0.weight", *(f"{prefix}.downsample.1.{part}" for part in BATCH_NORM)]
    return [*names, "fc.weight", "fc.bias"]


@pytest.mark.parametrize(("build", "blocks"), [(resnet18, (2, 2, 2, 2)), (resnet34, (3, 4, 6, 3))])
def test_residual_networks_name_their_parameters_as_torchvision_does(build, blocks):
    with torch.device("meta"):
        state = build(1000).state_dict()
    assert list(state) == torchvision_names(blocks)
    assert state["conv1.weight"].shape == (64, 3, 7, 7)
    assert state["layer3.0.downsample.0.weight"].shape == (256, 128, 1, 1)
    assert state["layer4.1.conv2.weight"].shape == (512, 512, 3, 3)
    assert state["fc.weight"].shape == (1000, 512)


def resnet_by_hand(state, images, blocks):
    """The residual network written with functions of its weights."""

    def normalised(x, name):
        values = [state[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")]
        return batch_norm(x, *values)

    x = conv2d(images, state["conv1.weight"], stride=2, padding=3)
    x = max_pool2d(normalised(x, "bn1").relu(), 3, stride=2, padding=1)
    for stage, count in enumerate(blocks, start=1):
        for block in range(count):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            shortcut = x
            if f"{name}.downsample.0.weight" in state:
                shortcut = conv2d(x, state[f"{name}.downsample.0.weight"], stride=stride)
                shortcut = normalised(shortcut, f"{name}.downsample.1")
            x = normalised(conv2d(x, state[f"{name}.conv1.weight"], stride=stride, padding=1), f"{name}.bn1").relu()
            x = normalised(conv2d(x, state[f"{name}.conv2.weight"], padding=1), f"{name}.bn2")
            x = (x + shortcut).relu()
    return linear(adaptive_avg_pool2d(x, 1).flatten(1), state["fc.weight"], state["fc.bias"])


def test_a_residual_network_equals_its_definition():
    torch.manual_seed(0)
    model = resnet18(5).double().eval()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
        images = torch.randn(2, 3, 40, 40, dtype=torch.float64)
        torch.testing.assert_close(
            model(images), resnet_by_hand(model.state_dict(), images, (2, 2, 2, 2)), rtol=1e-10, atol=1e-10
        )


def test_cnn9_is_the_network_of_co_teaching():
    model = cnn9(10)
    convolutions = [layer for layer in model if isinstance(layer, nn.Conv2d)]
    assert [(layer.in_channels, layer.out_channels, layer.padding[0]) for layer in convolutions] == [
        (3, 128, 1), (128, 128, 1), (128, 128, 1), (128, 256, 1), (256, 256, 1), (256, 256, 1),
        (256, 512, 0), (512, 256, 0), (256, 128, 0),
    ]  # fmt: skip
    sizes = []
    for layer in convolutions:
        layer.register_forward_hook(lambda _, __, output: sizes.append(output.shape[-1]))
    model.eval()
    with torch.no_grad():
        assert model(torch.randn(2, 3, 32, 32)).shape == (2, 10)
    assert sizes == [32, 32, 32, 16, 16, 16, 6, 4, 2]
    assert {layer.negative_slope for layer in model if isinstance(layer, nn.LeakyReLU)} == {0.01}


@pytest.mark.parametrize(("training", "always_drop"), [(True, False), (True, True), (False, True)])
def test_whole_channels_are_dropped(training, always_drop):
    torch.manual_seed(0)
    model = cnn9(10, dropout=0.25, always_drop=always_drop)
    dropped = []
    for layer in model:
        if isinstance(layer, nn.Dropout2d):
            layer.register_forward_hook(lambda _, given, output: dropped.append((given[0], output)))
    images = torch.randn(8, 3, 32, 32)
    with torch.no_grad():
        model.train(training)(images)
        shares = []
        for before, after in dropped:
            gone = (after == 0).flatten(2).all(dim=2)
            kept = ~gone[:, :, None, None]
            torch.testing.assert_close(after, torch.where(kept, before / 0.75, 0 * before))
            shares.append(gone.float().mean().item())
        assert len(shares) == 2
        assert all(abs(share - 0.25) < 0.06 for share in shares)


def test_dropout_in_evaluation_is_an_option_with_draws_of_its_own():
    torch.manual_seed(0)
    images = torch.randn(8, 3, 32, 32)
    plain, always, again = cnn9(10).eval(), cnn9(10, always_drop=True).eval(), cnn9(10, always_drop=True).eval()
    always.load_state_dict(plain.state_dict())
    again.load_state_dict(plain.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(plain(images), plain(images), rtol=0, atol=0)
        first, second = always(images), always(images)
        assert not torch.equal(first[:4], first[4:])
        assert not torch.allclose(first, second)
        torch.rand(1)  # the draws do not depend on torch's own generator
        torch.testing.assert_close(again(images), first, rtol=0, atol=0)
        torch.testing.assert_close(again(images), second, rtol=0, atol=0)


def test_features_are_the_inputs_of_the_last_linear_layer():
    model = mlp([4, 8, 6, 3])
    assert penultimate(model) is model[-1]
    assert penultimate(resnet18(7)).out_features == 7
    with pytest.raises(InputError, match="Conv2d has no linear layer"):
        penultimate(nn.Conv2d(3, 4, 1))
