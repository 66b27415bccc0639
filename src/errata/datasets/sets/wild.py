"""The suite `wild`: eleven tables, listed in wild.toml, and two sets of texts, of many kinds.

Tables are boosted; texts are classified by a linear model on TF-IDF. Each set has symmetric noise of 1, 5 and 20 %, and
pairflip noise of 30 %.
"""

import tomllib
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from typing import Any

from errata.datasets import text_files
from errata.datasets.column_tables import prepare_table, prepare_texts, read_columns, read_complete
from errata.datasets.label_noise import PairflipNoise, SymmetricNoise
from errata.datasets.spec import Dataset, Network, Noise, OpenmlTable, Setting, Source
from errata.datasets.table_datasets import REPOSITORY, citation
from errata.training.recipes import AnyRecipe, BoostingRecipe, Recipe

SUITE = "wild"
NOISES: tuple[Noise, ...] = (SymmetricNoise(0.01), SymmetricNoise(0.05), SymmetricNoise(0.2), PairflipNoise(0.3))
UCI, OPENML = "https://archive.ics.uci.edu/dataset", "https://www.openml.org/d"
AG_NEWS = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv"
CLINC = "https://raw.githubusercontent.com/clinc/oos-eval/master/data"
WORDS = partial(Recipe, batch_size=128, learning_rate=1e-2, weight_decay=3e-4)  # no hidden layer


def noisy(name: str, network: Network, recipes: Sequence[AnyRecipe]) -> tuple[Setting, ...]:
    """The settings of a dataset, with a recipe for each noise."""
    chosen = zip(NOISES, recipes, strict=True)
    return tuple(Setting(name, noise, network, recipe, suite=SUITE) for noise, recipe in chosen)


def copy_of(name: str, classes: Sequence[str], content: str, part: str) -> Source:
    """The copy of a dataset in the folder `more`. part: which part of the official data it is; empty for all of it."""
    remark = f"a random part of the official data: {part}" if part else ""
    return Source((f"more/{name}.parquet",), partial(read_columns, classes), not part, remark, content)


def table(name: str, entry: dict[str, Any]) -> Dataset:
    """A table. entry: its entry in wild.toml."""
    classes, counts = tuple(entry["rows"]), tuple(entry["rows"].values())
    openml = OpenmlTable(entry["openml"], entry.get("renamed", {}), tuple(entry.get("left_out", ())))
    at_uci = "page" in entry
    published = REPOSITORY if at_uci else "OpenML"
    return Dataset(
        name=name,
        title=entry["title"],
        source=f"{UCI}/{entry['page']}" if at_uci else f"{OPENML}/{openml.data_id}",
        licence="CC BY 4.0" if at_uci else "public, as stated by OpenML",
        bibtex=citation(name, entry["authors"], entry["title"], entry["year"], published),
        kind="table",
        classes=classes,
        sources=(
            Source((f"{name}.parquet",), partial(read_complete, classes, counts)),
            copy_of(name, classes, entry["content"], entry.get("part", "")),
        ),
        prepare=prepare_table,
        settings=noisy(name, "boosting", [BoostingRecipe(rounds) for rounds in entry["rounds"]]),
        openml=openml,
        class_counts=counts,
    )


def texts(
    name: str, official: Source, *, epochs: tuple[int, int, int, int], content: str, part: str = "", **fields: Any
) -> Dataset:
    """A set of texts. epochs: by noise, those with the lowest log loss on a noisy held-out fifth."""
    return Dataset(
        name=name,
        kind="table",
        sources=(official, copy_of(name, fields["classes"], content, part)),
        prepare=prepare_texts,
        settings=noisy(name, "mlp", [WORDS(count) for count in epochs]),
        **fields,
    )


TABLES = tomllib.loads((files("errata.datasets.sets") / "wild.toml").read_text(encoding="utf-8"))
DATASETS = (
    *(table(name, entry) for name, entry in TABLES.items()),
    texts(
        "agnews",
        Source(("test.csv",), text_files.read_ag_news),
        epochs=(48, 28, 18, 21),
        content="14e9459e07f799752a842765606cc5d14c4df9372c294aa31df5d2e7715de277",
        title="AG News, test part",
        source="https://github.com/mhjabreel/CharCnn_Keras",
        licence="non-commercial use",
        bibtex=citation("agnews", "Zhang, Xiang and Zhao, Junbo and LeCun, Yann", "AG News", 2015, "arXiv 1509.01626"),
        classes=text_files.AG_NEWS_CLASSES,
        downloads=(f"{AG_NEWS}/test.csv",),
        class_counts=(1900,) * 4,
    ),
    texts(
        "clinc150",
        Source(("data_full.json",), text_files.read_clinc),
        epochs=(73, 68, 78, 64),
        content="37cc190e8dc3d62925b9ef8c3362a3be80e61ff3d29755014ab98433970b3bdd",
        part="7,500 of 22,500 questions",
        title="CLINC150, questions within scope",
        source="https://github.com/clinc/oos-eval",
        licence="CC BY 3.0",
        bibtex=citation(
            "clinc150",
            "Larson, Stefan and others",
            "An Evaluation Dataset for Intent Classification and Out-of-Scope Prediction",
            2019,
            "EMNLP-IJCNLP",
        ),
        classes=text_files.INTENTS,
        downloads=(f"{CLINC}/data_full.json",),
        class_counts=(150,) * 150,
    ),
)
