"""TREC question classification: the type of answer that a question expects."""

from pathlib import Path

import numpy as np

from errata.datasets.label_noise import SymmetricNoise
from errata.datasets.spec import Arrays, Dataset, ParsedArrays, PreparedArrays, Setting, Source
from errata.datasets.table_datasets import check_rows, prepare_parts
from errata.errors import DataError
from errata.readers.file_access import file_errors
from errata.training.recipes import BoostingRecipe, Recipe

NAME = "trec"
CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
FILES = ("train_5500.label", "TREC_10.label")
ROWS = {"train": 5452, "test": 500}
# epochs chosen on a noisy held-out fifth; with more epochs the network memorises the noise
RECIPE = Recipe(epochs=14, batch_size=128, learning_rate=1e-3, widths=(64,))


def read(*paths: Path) -> ParsedArrays:
    """Read lines `COARSE:fine text of the question`; the coarse class is the label."""
    arrays: Arrays = {}
    for path, (part, rows) in zip(paths, ROWS.items(), strict=True):
        labels, texts = [], []
        with file_errors(path):
            lines = path.read_text(encoding="latin-1").removesuffix("\n").split("\n")
        for number, line in enumerate(lines, start=1):
            tag, _, text = line.partition(" ")
            coarse, colon, _ = tag.partition(":")
            if coarse not in CLASSES or not colon or not text.strip():
                classes = ", ".join(CLASSES)
                raise DataError(f"{path}: line {number} must hold a class ({classes}), a colon and a question")
            labels.append(CLASSES.index(coarse))
            texts.append(text.strip())
        check_rows(path, len(labels), rows)
        arrays |= {f"{part}_labels": np.array(labels, dtype=np.int64), f"{part}_texts": np.array(texts)}
    return ParsedArrays(arrays)


def prepare(parsed: ParsedArrays) -> PreparedArrays:
    """The official split; TF-IDF of the words that occur in at least two training questions."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    arrays = parsed.arrays
    words = TfidfVectorizer(min_df=2, sublinear_tf=True).fit(arrays["train_texts"])
    train, test = (words.transform(arrays[f"{part}_texts"]).toarray() for part in ROWS)
    return prepare_parts((train, arrays["train_labels"]), (test, arrays["test_labels"]), [])


DATASET = Dataset(
    name=NAME,
    title="TREC question classification",
    source="https://cogcomp.seas.upenn.edu/Data/QA/QC/",
    licence="none stated",
    bibtex="""@inproceedings{li_roth_2002,
  author = {Li, Xin and Roth, Dan},
  title = {Learning Question Classifiers},
  booktitle = {International Conference on Computational Linguistics},
  year = {2002},
  doi = {10.3115/1072228.1072378}
}""",
    kind="table",
    classes=CLASSES,
    sources=(Source(FILES, read),),
    prepare=prepare,
    settings=(
        Setting(NAME, SymmetricNoise(0.2), "mlp", RECIPE),
        Setting(NAME, SymmetricNoise(0.2), "boosting", BoostingRecipe(84)),
    ),
    downloads=tuple(f"https://cogcomp.seas.upenn.edu/Data/QA/QC/{name}" for name in FILES),
    # no hash of train_texts: copies of that file differ in a few bytes
    hashes={
        "train_labels": "7d3f5b58138f2a53adce536c37768785f798d75f0e5a80f53de37d2fb97072d3",
        "test_labels": "58662e0a3faf3f0f6efd0d7bdf9c6ac19b63623463ea5d1e1214df31f7a7df8a",
        "test_texts": "f7809a9ac110c58018f92a38afa78bc78aab4b96486b87fe87eeaea4ff36a435",
    },
    class_counts=(95, 1300, 1344, 1288, 916, 1009),
)
