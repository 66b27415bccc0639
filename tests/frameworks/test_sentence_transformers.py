"""Sentence models made here, saved by sentence-transformers, and read by errata without a network."""

import logging
import re
import shutil
import socket

import numpy as np
import pytest

import errata
from errata.core import metrics
from errata.core.noise import symmetric
from errata.errors import InputError
from errata.finding import embedding
from errata.readers import open_data
from errata.terminal import NoProgress

TOPICS = ("goal match team ball score", "vote party law minister senate", "star planet orbit moon comet")
WORDS = " ".join(TOPICS).split()


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(TOPICS[row % 3].split(), 6)) for row in range(150)]


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    made = Tokenizer(WordLevel({name: number for number, name in enumerate(names)}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    made.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return made


@pytest.fixture(scope="module")
def bert(tokenizer, tmp_path_factory):
    """A very small BERT that has learned nothing, and a mean over its words."""
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    plain, saved = tmp_path_factory.mktemp("plain"), tmp_path_factory.mktemp("saved") / "tiny-bert"
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS) + 4,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    BertModel(config).save_pretrained(plain)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(plain)
    SentenceTransformer(str(plain), device="cpu", local_files_only=True).save(str(saved))
    return saved


@pytest.fixture
def no_network(monkeypatch):
    """Note and refuse every attempt to reach another machine."""
    attempts = []

    def refused(*arguments, **options):
        attempts.append(arguments)
        raise OSError("there is no network")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    return attempts


def test_a_model_on_disk_embeds_texts_without_a_network(bert, texts, no_network):
    from sentence_transformers import SentenceTransformer

    data = open_data(texts, [row % 3 for row in range(150)])
    vectors = embedding.embedded(data, bert, "cpu", None, NoProgress()).prepare().matrix
    expected = SentenceTransformer(str(bert), device="cpu").encode(texts)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert not no_network


def test_errors_rank_first_with_embedded_texts(bert, texts, no_network):
    noisy = symmetric(np.arange(150) % 3, 0.1, num_classes=3, seed=0)
    found = errata.find(texts, noisy.labels, backbone=bert, device="cpu")
    assert re.fullmatch(r"Unmixed-HeldOut(\(a=0\.7\))?-EarlyProb-LM", found.summary["method"])
    assert "texts are embedded by tiny-bert in 32 dimensions." in found.summary["notes"]
    assert metrics.fnr(found.ranking.sort_values("id")["score"].to_numpy(), noisy.truth) <= 0.2
    assert not no_network


def test_a_static_model_embeds_texts_too(tokenizer, texts, tmp_path, no_network):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    values = np.random.default_rng(0).normal(size=(len(WORDS) + 4, 8)).astype(np.float32)
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=values)], device="cpu").save(
        str(tmp_path)
    )
    encoder = embedding.load_encoder(tmp_path, "auto")
    assert np.asarray(encoder.encode(["goal match", "law"], normalize_embeddings=True)).shape == (2, 8)
    assert not no_network


def test_pickled_weights_are_never_read(bert, tmp_path, monkeypatch, no_network):
    import torch

    folder = tmp_path / "model"
    shutil.copytree(bert, folder)
    monkeypatch.setattr(torch, "load", lambda *arguments, **options: pytest.fail("the pickle was read"))
    torch.save({}, folder / "pytorch_model.bin")
    embedding.load_encoder(folder, "cpu")  # safetensors are there as well
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"pickled, in pytorch_model\.bin, which could run any code"):
        embedding.load_encoder(folder, "cpu")
    torch.save({}, folder / "model.safetensors")
    with pytest.raises(InputError, match=r"pickled, in model\.safetensors"):
        embedding.load_encoder(folder, "cpu")
    shutil.copy(bert / "model.safetensors", folder)
    (folder / "2_Dense").mkdir()
    torch.save({}, folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"2_Dense are not safetensors"):
        embedding.load_encoder(folder, "cpu")


def test_loading_shows_no_progress_bars(bert, capsys):
    capsys.readouterr()
    embedding.load_encoder(bert, "cpu")
    assert capsys.readouterr().err == ""


def test_an_incomplete_model_gives_a_clear_error(bert, texts, tmp_path, no_network):
    logging.getLogger("transformers").setLevel(logging.CRITICAL)
    (tmp_path / "modules.json").write_bytes((bert / "modules.json").read_bytes())
    with pytest.raises(InputError, match=r"the sentence model in .* cannot be loaded: .*copy the folder again"):
        errata.find(texts, [row % 3 for row in range(150)], backbone=tmp_path, device="cpu")
    assert not no_network
