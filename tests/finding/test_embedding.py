import re
from functools import partial

import numpy as np
import pandas as pd
import pytest

import errata
from errata.core import metrics
from errata.errors import InputError
from errata.finding import embedding
from errata.finding.candidates import candidates_for
from errata.readers import open_data
from errata.terminal import NoProgress

TOPICS = ("goal match team ball score", "vote party law minister senate", "star planet orbit moon comet")


class Encoder:
    """A sentence model that counts the words of each topic, and stores the texts it encoded."""

    def __init__(self, patience=10**9):
        self.encoded, self.patience = [], patience

    def encode(self, sentences, **options):
        assert options["normalize_embeddings"]
        if len(self.encoded) >= self.patience:
            raise KeyboardInterrupt
        self.encoded += sentences
        counts = [[sum(word in topic.split() for word in text.split()) for topic in TOPICS] for text in sentences]
        values = np.array(counts, dtype=np.float32) + 0.1
        return values / np.linalg.norm(values, axis=1, keepdims=True)


@pytest.fixture
def folder(tmp_path):
    """A folder with the files of a sentence model."""
    place = tmp_path / "minilm"
    place.mkdir()
    (place / "modules.json").write_text("[]")
    return place


@pytest.fixture
def encoder(monkeypatch):
    """Load this model from every folder."""
    known = Encoder()
    monkeypatch.setattr(embedding, "load_encoder", lambda folder, device: known)
    return known


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(TOPICS[row % 3].split(), 6)) for row in range(180)]


@pytest.fixture
def table(texts, clouds):
    noisy = clouds[1].labels
    return pd.DataFrame({"review": texts, "kind": [("sport", "state", "space")[label] for label in noisy]})


def test_errors_rank_first_with_embedded_texts_and_labels_are_held_out(table, clouds, folder, encoder, texts):
    found = errata.find(table, "kind", backbone=folder, model="mlp")
    assert encoder.encoded == texts
    assert found.summary["kind"] == "text"
    assert re.fullmatch(r"Unmixed-HeldOut(\(a=0.7\))?-EarlyProb-LM", found.summary["method"])
    assert found.summary["settings"]["backbone"] == str(folder)
    assert "texts are embedded by minilm in 3 dimensions." in found.summary["notes"]
    assert metrics.fnr(found.ranking.sort_values("id")["score"].to_numpy(), clouds[1].truth) <= 0.1


def test_a_linear_model_and_an_mlp_are_tried_on_vectors(table, folder, encoder):
    data = embedding.embedded(open_data(table, "kind"), folder, "cpu", None, NoProgress())
    assert [candidate.recipe.widths for candidate in candidates_for(data, "auto", 0)] == [(), (128, 64)]
    assert [candidate.recipe.widths for candidate in candidates_for(open_data(table, "kind"), "auto", 0)] == [()]


def test_vectors_replace_only_the_terms(table, folder, encoder):
    table = table.assign(length=[len(text) % 7 for text in table["review"]], shop=["north", "south", "east"] * 60)
    data = open_data(table, "kind")
    fitted = np.arange(0, 180, 2)
    plain, vectors = (
        one.prepare(fitted) for one in (data, embedding.embedded(data, folder, "cpu", None, NoProgress()))
    )
    names = list(vectors.names)
    of_text = [f"review: direction {number}" for number in range(3)]
    assert [name for name in names if name.startswith("review: ")] == of_text
    others = [name for name in plain.names if not name.startswith("review: ")]
    assert [name for name in names if name not in of_text] == others
    same = [
        matrix[:, [list(known).index(name) for name in others]]
        for known, matrix in ((plain.names, plain.matrix), (names, vectors.matrix))
    ]
    np.testing.assert_array_equal(*same)
    expected = Encoder().encode(table["review"].tolist(), normalize_embeddings=True)
    np.testing.assert_array_equal(vectors.matrix[:, [names.index(name) for name in of_text]], expected)


def test_an_interrupted_embedding_resumes(table, folder, monkeypatch, tmp_path, texts):
    monkeypatch.setattr(embedding, "BLOCK", 50)
    find = partial(errata.find, table, "kind", model="mlp", backbone=folder)
    impatient, patient, whole = Encoder(patience=100), Encoder(), Encoder()
    monkeypatch.setattr(embedding, "load_encoder", lambda folder, device: impatient)
    with pytest.raises(KeyboardInterrupt):
        find(out=tmp_path / "out")
    monkeypatch.setattr(embedding, "load_encoder", lambda folder, device: patient)
    found = find(out=tmp_path / "out")
    assert impatient.encoded == texts[:100]
    assert patient.encoded == texts[100:]
    monkeypatch.setattr(embedding, "load_encoder", lambda folder, device: whole)
    pd.testing.assert_frame_equal(found.ranking, find().ranking)
    assert not (tmp_path / "out" / "work").exists()


def test_another_model_has_another_key(folder):
    before = embedding.model_key(folder)
    assert embedding.model_key(folder) == before
    (folder / "model.safetensors").write_bytes(b"weights")
    assert embedding.model_key(folder) != before


def test_the_command_reports_the_embedding(table, folder, encoder, errata_command):
    table.to_csv("reviews.csv", index=False)
    arguments = ["reviews.csv", "--label", "kind", "--backbone", folder, "--model", "mlp"]
    code, out, err = errata_command("find", *arguments)
    assert (code, err) == (0, "")
    assert f"Note: texts are embedded by {folder.name} in 3 dimensions." in out


def test_the_detector_embeds_as_find_does(table, folder, encoder, texts):
    detector = errata.ErrataDetector(model="mlp", backbone=folder)
    assert detector.get_params()["backbone"] == folder
    detector.fit(table[["review"]], table["kind"])
    assert encoder.encoded == texts
    found = errata.find(table, "kind", backbone=folder, model="mlp")
    pd.testing.assert_frame_equal(detector.ranking_, found.ranking)
    assert detector.found_.summary["settings"]["backbone"] == str(folder)
    with pytest.raises(InputError, match="no text to embed"):
        detector.fit(np.eye(180, 4), table["kind"])


def test_a_missing_model_gives_an_error_that_explains_how_to_save_one(table, tmp_path):
    with pytest.raises(InputError, match=r"all-MiniLM-L6-v2 is not a folder.*not downloaded.*\.save\("):
        errata.find(table, "kind", backbone="all-MiniLM-L6-v2")
    with pytest.raises(InputError, match="holds no sentence model"):
        errata.find(table, "kind", backbone=tmp_path)


def test_embedding_without_the_package_names_the_extra(table, folder, monkeypatch):
    monkeypatch.setattr("errata.extras.find_spec", lambda name: None if name == "sentence_transformers" else "there")
    with pytest.raises(InputError, match=r"pip install 'errata\[text\]'"):
        errata.find(table, "kind", backbone=folder)


def test_invalid_calls_are_refused_before_embedding(table, clouds, curves, folder, encoder):
    logits, labels, _ = curves(0)
    for source, label, options, sentence in (
        (table, "kind", {"model": "cnn9"}, "cnn9 does not take text"),
        (table, "kind", {"device": "abacus"}, "abacus"),
        (clouds[0], clouds[1].labels, {}, "no text to embed"),
        (errata.Dynamics.from_arrays(logits, labels), None, {}, "backbone=` has no effect"),
    ):
        with pytest.raises(InputError, match=sentence):
            errata.find(source, label, backbone=folder, **options)
    assert not encoder.encoded


@pytest.mark.parametrize("wrong", [np.full((180, 3), np.nan), np.zeros((179, 3)), np.zeros(180)])
def test_invalid_vectors_are_refused(table, folder, monkeypatch, wrong):
    class Broken:
        def encode(self, sentences, **options):
            return wrong

    monkeypatch.setattr(embedding, "load_encoder", lambda folder, device: Broken())
    with pytest.raises(InputError, match="the sentence model returned"):
        errata.find(table, "kind", backbone=folder)
