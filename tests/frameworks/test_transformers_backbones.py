"""Image models made here, saved by transformers, and opened as backbones without a network."""

import json
import socket
import sys

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import errata
from errata import memory
from errata.cli.app import as_options
from errata.errors import InputError
from errata.finding.find import find_again
from errata.finding.frozen_features import frozen_features
from errata.readers import open_data
from errata.terminal import NoProgress
from errata.training.backbones import open_backbone
from errata.training.image_preprocessing import BICUBIC, Preprocessing
from errata.training.stated_preprocessing import read_preprocessing

SIDE = 16
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
WHOLE = {"size": {"height": SIDE, "width": SIDE}, "resample": 2, **HALF}
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
PATCHES = {**TINY, "image_size": SIDE, "patch_size": 4}


def tiny(name):
    """A very small network that has learned nothing."""
    torch.manual_seed(0)
    if name == "vit":
        return transformers.ViTModel(transformers.ViTConfig(**PATCHES))
    if name == "vit classifier":  # has no weights of a pooler
        return transformers.ViTForImageClassification(transformers.ViTConfig(**PATCHES))
    if name == "dinov2":
        return transformers.Dinov2Model(transformers.Dinov2Config(**PATCHES))
    if name == "convnext":
        config = transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2)
        return transformers.ConvNextModel(config)
    if name == "resnet":
        config = transformers.ResNetConfig(hidden_sizes=[8, 16], depths=[1, 1], embedding_size=8)
        return transformers.ResNetModel(config)
    texts = {**TINY, "vocab_size": 30}
    return transformers.CLIPModel(transformers.CLIPConfig(text_config=texts, vision_config=PATCHES))


def expected(name, model, images):
    """The features by the documentation of each model."""
    model = model.eval()
    if name == "clip":
        return model.vision_model(pixel_values=images).pooler_output
    if name == "vit classifier":
        return model.vit(pixel_values=images).last_hidden_state[:, 0]
    return model(pixel_values=images).pooler_output.flatten(1)


@pytest.fixture
def saved(tmp_path):
    def save(name, preprocessing=WHOLE):
        folder = tmp_path / name.replace(" ", "-")
        tiny(name).save_pretrained(folder)
        if preprocessing is not None:
            (folder / "preprocessor_config.json").write_text(json.dumps(preprocessing))
        return folder

    return save


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    connect = socket.socket.connect

    def refuse(self, address):
        if self.family != socket.AF_UNIX:  # which worker processes use
            raise AssertionError(f"a connection to {address} was opened")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.parametrize("name", ["vit", "vit classifier", "dinov2", "convnext", "resnet", "clip"])
def test_features_are_those_of_the_model(name, saved):
    backbone = open_backbone(saved(name))
    images = torch.rand(3, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert torch.allclose(backbone.module(images), expected(name, tiny(name), images), atol=1e-5)
    assert backbone.width == 16
    assert backbone.name == name.replace(" ", "-")
    assert backbone.key == open_backbone(saved(name)).key
    assert not backbone.module.training
    assert "torchvision" not in sys.modules


def test_loading_shows_no_progress_bars(saved, capsys):
    folder = saved("vit")
    capsys.readouterr()
    open_backbone(folder)
    assert capsys.readouterr().err == ""
    assert transformers.utils.logging.is_progress_bar_enabled()


def test_files_are_resized_and_normalised_as_the_folder_states(saved, tmp_path):
    rng = np.random.default_rng(0)
    for number in range(12):
        folder = tmp_path / "photos" / ("one", "two")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        small = rng.integers(0, 256, (5, 6, 3)).astype(np.uint8)
        Image.fromarray(small).resize((90, 75), Image.Resampling.BICUBIC).save(folder / f"{number:02}.png")
    data = open_data(tmp_path / "photos")
    backbone = open_backbone(saved("vit"))
    features = frozen_features(data, backbone, "cpu", None, NoProgress())
    images = [Image.open(data.root / path).resize((SIDE, SIDE), Image.Resampling.BILINEAR) for path in data.inputs]
    pixels = torch.tensor(np.stack(images)).permute(0, 3, 1, 2) / 127.5 - 1
    with torch.inference_mode():
        assert features == pytest.approx(expected("vit", tiny("vit"), pixels).numpy(), abs=1e-4)


@pytest.mark.parametrize(
    ("settings", "side", "centre"),
    [
        (WHOLE, 16, None),
        ({"size": 16, **HALF}, 16, None),
        ({"size": {"shortest_edge": 32}, "crop_size": {"height": 24, "width": 24}, **HALF}, 24, 0.75),
        ({"size": {"shortest_edge": 24}, "crop_size": 24, "do_center_crop": True, **HALF}, 24, 1.0),
        ({"size": {"shortest_edge": 224}, "crop_pct": 0.875, **HALF}, 224, 0.875),
        ({"size": {"shortest_edge": 384}, "crop_pct": 0.875, **HALF}, 384, None),
        ({"size": 16, "crop_size": 12, "do_center_crop": False, **HALF}, 16, None),
    ],
)
def test_preprocessing_of_a_folder(settings, side, centre, tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**settings, "resample": 3}))
    assert read_preprocessing(tmp_path) == Preprocessing(side, (0.5,) * 3, (0.5,) * 3, centre, BICUBIC)


def test_preprocessing_of_a_processor_and_of_other_scales(tmp_path):
    settings = {**WHOLE, "rescale_factor": 1 / 127.5, "image_mean": 1.0, "image_std": 1.0}
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": settings}))
    found = read_preprocessing(tmp_path)
    assert found.mean == pytest.approx((0.5,) * 3)
    assert found.std == pytest.approx((0.5,) * 3)
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": {**WHOLE, "do_normalize": False}}))
    assert (read_preprocessing(tmp_path).mean, read_preprocessing(tmp_path).std) == ((0.0,) * 3, (1.0,) * 3)


@pytest.mark.parametrize(
    ("preprocessing", "message"),
    [
        (None, "has no preprocessor_config.json"),
        ({"size": {"height": 16, "width": 20}, **HALF}, "states no square size"),
        ({"size": 16}, "image_mean is not stated"),
        ({**WHOLE, "size": 8}, "does not take images|cannot be loaded"),
    ],
)
def test_unusable_preprocessing_is_refused(preprocessing, message, saved):
    with pytest.raises(InputError, match=message):
        open_backbone(saved("vit", preprocessing))


def test_a_damaged_preprocessing_file_is_named(saved):
    folder = saved("vit")
    (folder / "preprocessor_config.json").write_text("{")
    with pytest.raises(InputError, match=r"preprocessor_config\.json is damaged"):
        open_backbone(folder)


def test_pickles_are_never_read(saved, monkeypatch):
    folder = saved("vit")
    weights = torch.nn.Linear(1, 1).state_dict()
    torch.save(weights, folder / "pytorch_model.bin")
    open_backbone(folder)  # safetensors are there as well
    (folder / "model.safetensors").unlink()
    monkeypatch.setattr(torch, "load", lambda *arguments, **options: pytest.fail("the pickle was read"))
    with pytest.raises(InputError, match=r"pickled, in pytorch_model\.bin, which could run any code.*save_pretrained"):
        open_backbone(folder)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(InputError, match=r"no \.safetensors file.*Copy or download the folder again"):
        open_backbone(folder)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_with_the_name_of_safetensors_is_called_a_pickle(zipped, saved):
    folder = saved("vit")
    weights = torch.nn.Linear(1, 1).state_dict()
    torch.save(weights, folder / "model.safetensors", _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match=r"pickled, in model\.safetensors, which could run any code"):
        open_backbone(folder)


def test_incomplete_and_damaged_weights_are_refused(saved):
    from safetensors.torch import load_file, save_file

    folder = saved("dinov2")
    weights = load_file(folder / "model.safetensors")
    weights.pop(next(name for name in weights if "layernorm" in name))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"are incomplete.*copy or download the folder again"):
        open_backbone(folder)
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"cannot be loaded.*copy or download them again"):
        open_backbone(folder)


def test_code_in_a_folder_is_not_run(saved):
    folder = saved("vit")
    (folder / "own.py").write_text("raise SystemExit('the code was run')")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModel": "own.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="cannot be loaded"):
        open_backbone(folder)


def test_other_folders_and_names_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"no config\.json\. Name a folder that save_pretrained"):
        open_backbone(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(InputError, match="neither a folder nor a model in the cache") as refused:
        open_backbone("nobody/no-model-of-this-name")
    assert str(refused.value).endswith("unless you pass `allow_download=True`")
    assert as_options(str(refused.value)).endswith("unless you pass --allow-download")


def test_a_name_in_the_cache_is_opened(saved, tmp_path, monkeypatch):
    import huggingface_hub

    folder = saved("resnet")
    asked = {}

    def snapshot(name, **options):
        asked.update(name=name, **options)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert open_backbone("somebody/resnet").name == "somebody/resnet"
    assert asked["local_files_only"]
    open_backbone("somebody/resnet", allow_download=True)
    assert not asked["local_files_only"]
    assert asked["allow_patterns"] == ["*.json", "*.safetensors"]


def test_a_relative_folder_is_found_again_from_another_one(saved, tmp_path, monkeypatch):
    rng, labels = np.random.default_rng(0), np.arange(40) % 2
    pixels = np.clip(rng.normal(60 + 140 * labels[:, None, None, None], 25, (40, 3, 32, 32)), 0, 255).astype(np.uint8)
    np.savez(tmp_path / "images.npz", X=pixels, y=labels)
    saved("vit")
    monkeypatch.chdir(tmp_path)
    errata.find("images.npz", backbone="vit", out="out")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "on features of vit" in find_again(tmp_path / "out", {"3": "0"}).summary["model"]


def test_memory_is_checked_before_weights_are_read(saved, monkeypatch):
    folder = saved("vit")
    monkeypatch.setattr(memory, "available_memory", lambda: 100)
    with pytest.raises(InputError, match=r"the backbone in .*vit would take .*or pass a smaller `backbone=`"):
        open_backbone(folder)
