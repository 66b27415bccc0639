"""TREC question classification: what kind of answer a question asks for."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from errata.datasets.settings import Drawn, Setting
from errata.datasets.spec import Content, Dataset, Download, Prepared, Raw, Source
from errata.datasets.tables import Labels, Texts, check_rows, table_content
from errata.errors import DataError
from errata.training.recipes import BoostingRecipe, Recipe

NAME = "trec"
CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
FILES = ("train_5500.label", "TREC_10.label")
ROWS = {"train": 5452, "test": 500}


def read(paths: Sequence[Path]) -> Raw:
    """`COARSE:fine text of the question` a line; the coarse class is the label."""
    arrays: dict[str, Labels | Texts] = {}
    for path, (part, rows) in zip(paths, ROWS.items(), strict=True):
        arrays[f"{part}_labels"], arrays[f"{part}_texts"] = _questions(path)
        check_rows(path, len(arrays[f"{part}_labels"]), rows)
    return Raw(dict(arrays))


def _questions(path: Path) -> tuple[Labels, Texts]:
    labels, texts = [], []
    try:
        lines = path.read_text(encoding="latin-1").removesuffix("\n").split("\n")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    for number, line in enumerate(lines, start=1):
        tag, _, text = line.partition(" ")
        coarse, colon, _ = tag.partition(":")
        if coarse not in CLASSES or not colon or not text.strip():
            raise DataError(f"{path}: line {number} is not a class ({', '.join(CLASSES)}), a colon and a question")
        labels.append(CLASSES.index(coarse))
        texts.append(text.strip())
    return np.array(labels, dtype=np.int64), np.array(texts)


def prepare(raw: Raw, base: Prepared | None) -> Content:
    """The official split; words that at least two training questions have, weighted by how few have them."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    arrays = raw.arrays
    words = TfidfVectorizer(min_df=2, sublinear_tf=True).fit(arrays["train_texts"])
    train, test = (words.transform(arrays[f"{part}_texts"]).toarray() for part in ROWS)
    return table_content(
        train, arrays["train_labels"], test, arrays["test_labels"], words.get_feature_names_out().tolist()
    )


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
        Setting(
            NAME,
            Drawn("symmetric", 0.2),
            "mlp",
            # epochs chosen on a held-out fifth with the noise in it; after more, the network learns the noise by heart
            Recipe(epochs=14, batch_size=128, learning_rate=1e-3, widths=(64,)),
            in_paper=False,
        ),
        Setting(NAME, Drawn("symmetric", 0.2), "boosting", BoostingRecipe(84), in_paper=False),
    ),
    downloads=tuple(Download(f"https://cogcomp.seas.upenn.edu/Data/QA/QC/{name}", name) for name in FILES),
    # None for train_texts: copies of that file differ in a few bytes.
    hashes={
        "train_labels": "7d3f5b58138f2a53adce536c37768785f798d75f0e5a80f53de37d2fb97072d3",
        "test_labels": "58662e0a3faf3f0f6efd0d7bdf9c6ac19b63623463ea5d1e1214df31f7a7df8a",
        "test_texts": "f7809a9ac110c58018f92a38afa78bc78aab4b96486b87fe87eeaea4ff36a435",
    },
    class_counts=(95, 1300, 1344, 1288, 916, 1009),
)
