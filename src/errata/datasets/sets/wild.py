"""The suite `wild`: eleven tables and two sets of texts, of many kinds.

Tables are boosted; texts are classified by a linear model on TF-IDF. Each set has symmetric noise of 1, 5 and 20 %, and
pairflip noise of 30 %.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from errata.datasets import text_files
from errata.datasets.column_tables import prepare_table, prepare_texts, read_columns, read_complete
from errata.datasets.label_noise import PairflipNoise, SymmetricNoise
from errata.datasets.spec import Dataset, Noise, OpenmlTable, Setting, Source
from errata.datasets.table_datasets import REPOSITORY, citation
from errata.training.recipes import BoostingRecipe, Recipe

SUITE = "wild"
NOISES: tuple[Noise, ...] = (SymmetricNoise(0.01), SymmetricNoise(0.05), SymmetricNoise(0.2), PairflipNoise(0.3))
UCI, OPENML = "https://archive.ics.uci.edu/dataset", "https://www.openml.org/d"
CC_BY = "CC BY 4.0"
AG_NEWS = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv"
CLINC = "https://raw.githubusercontent.com/clinc/oos-eval/master/data"
WORDS = partial(Recipe, batch_size=128, learning_rate=1e-2, weight_decay=3e-4)  # no hidden layer


def copy_of(name: str, classes: Sequence[str], content: str, part: str) -> Source:
    """The copy of a dataset in the folder `more`. part: which part of the official data it is; empty for all of it."""
    remark = f"a random part of the official data: {part}" if part else ""
    return Source((f"more/{name}.parquet",), partial(read_columns, classes), not part, remark, content)


def table(
    name: str,
    cite: tuple[str, str, int, str],
    classes: tuple[str, ...],
    *,
    counts: tuple[int, ...],
    rounds: tuple[int, int, int, int],
    openml: OpenmlTable,
    page: str = "",
    content: str,
    part: str = "",
) -> Dataset:
    """A table. cite: authors, title, year, publisher. counts: rows of each class in the official data.

    rounds: by noise, as `errata bench choose` finds them. page: at UCI, empty for a table that is only at OpenML.
    content, part: of the copy in `more`.
    """
    settings = zip(NOISES, map(BoostingRecipe, rounds), strict=True)
    return Dataset(
        name=name,
        title=cite[1],
        source=f"{UCI}/{page}" if page else f"{OPENML}/{openml.data_id}",
        licence=CC_BY if page else "public, as stated by OpenML",
        bibtex=citation(name, *cite),
        kind="table",
        classes=classes,
        sources=(
            Source((f"{name}.parquet",), partial(read_complete, classes, counts)),
            copy_of(name, classes, content, part),
        ),
        prepare=prepare_table,
        settings=tuple(Setting(name, noise, "boosting", recipe, suite=SUITE) for noise, recipe in settings),
        openml=openml,
        class_counts=counts,
    )


def texts(
    name: str, official: Source, *, epochs: tuple[int, int, int, int], content: str, part: str = "", **fields: Any
) -> Dataset:
    """A set of texts. epochs: by noise, those with the lowest log loss on a noisy held-out fifth."""
    settings = zip(NOISES, map(WORDS, epochs), strict=True)
    return Dataset(
        name=name,
        kind="table",
        sources=(official, copy_of(name, fields["classes"], content, part)),
        prepare=prepare_texts,
        settings=tuple(Setting(name, noise, "mlp", recipe, suite=SUITE) for noise, recipe in settings),
        **fields,
    )


DATASETS = (
    table(
        "vowel",
        ("Deterding, David and Niranjan, Mahesan and Robinson, Tony", "Vowel Recognition", 1989, REPOSITORY),
        ("hAd", "hEd", "hId", "hOd", "hUd", "hYd", "had", "hed", "hid", "hod", "hud"),
        counts=(90,) * 11,
        rounds=(1000, 783, 175, 333),
        openml=OpenmlTable(307),
        page="152/connectionist+bench+vowel+recognition+deterding+data",
        content="c547904bfe72db38b217311a970f2ca65942df0ab5289cc715fd89f8b0b921d3",
    ),
    table(
        "vehicle",
        ("Mowforth, Pete and Shepherd, Barry", "Statlog (Vehicle Silhouettes)", 1987, REPOSITORY),
        ("bus", "opel", "saab", "van"),
        counts=(218, 212, 217, 199),
        rounds=(165, 139, 89, 82),
        openml=OpenmlTable(54),
        page="149/statlog+vehicle+silhouettes",
        content="5cb415db7eb2f9a7ba6f0dc5a612a391620d713eb89ae789a28c1577eeb97ff2",
    ),
    table(
        "dna",
        ("King, Ross and Noordewier, M. and Towell, G. and Shavlik, J.", "Statlog DNA", 1992, "OpenML"),
        ("ei", "ie", "n"),
        counts=(767, 765, 1654),
        rounds=(163, 122, 54, 86),
        openml=OpenmlTable(40670, {"1": "ei", "2": "ie", "3": "n"}),
        content="9a8c180df826c7e9945851c76867b8c5a6250d2d5c338edc2b339de90a53615d",
    ),
    table(
        "shuttle",
        ("Catlett, Jason", "Statlog (Shuttle)", 1992, REPOSITORY),
        ("Bypass", "Fpv.Open", "High", "Rad.Flow"),
        counts=(3267, 171, 8903, 45_586),
        rounds=(117, 47, 46, 79),
        openml=OpenmlTable(
            40685, {"1": "Rad.Flow", "3": "Fpv.Open", "4": "High", "5": "Bypass"}, left_out=("2", "6", "7")
        ),
        page="148/statlog+shuttle",
        content="99b883b8a650e7c97cf5851be504c7e6b3e68a8df5107c5fc0914b8e6ab9dbbe",
        part="5,995 of 57,927 rows",
    ),
    table(
        "adult",
        ("Becker, Barry and Kohavi, Ronny", "Adult", 1996, REPOSITORY),
        ("<=50K", ">50K"),
        counts=(37_155, 11_687),
        rounds=(127, 101, 48, 33),
        openml=OpenmlTable(1590),
        page="2/adult",
        content="137dde5b1a6433d8bbc18dfcd44aa5e69d6e2a0977a471c1b66fb6005a38d9fb",
        part="6,000 of 48,842 rows",
    ),
    table(
        "phoneme",
        ("Alinat, Pierre", "Phoneme (nasal and oral vowels), ESPRIT project ROARS", 1993, "OpenML"),
        ("0", "1"),
        counts=(3818, 1586),
        rounds=(284, 251, 61, 48),
        openml=OpenmlTable(1489, {"1": "0", "2": "1"}),
        content="0649403390fcb906251de1b07d5ba10a734254e178b64329b12cf4ca06e61f7b",
    ),
    table(
        "german",
        ("Hofmann, Hans", "Statlog (German Credit Data)", 1994, REPOSITORY),
        ("1", "2"),  # good and bad credit
        counts=(700, 300),
        rounds=(90, 85, 75, 10),
        openml=OpenmlTable(31, {"good": "1", "bad": "2"}),
        page="144/statlog+german+credit+data",
        content="1fa3807a19fd9fec08387d6285e860ecc4cc77d62f70f2175d7501fca23214f9",
    ),
    table(
        "winequality",
        ("Cortez, Paulo and Cerdeira, A. and Almeida, F. and others", "Wine Quality (white)", 2009, REPOSITORY),
        tuple("3456789"),
        counts=(20, 163, 1457, 2198, 880, 175, 5),
        rounds=(185, 154, 72, 106),
        openml=OpenmlTable(40498, {str(place): str(place + 2) for place in range(1, 8)}),
        page="186/wine+quality",
        content="42488c21b1a0f7e0e6d5b5f5222197c7d21dae8635b0d6eaa2a034ef7dcc3548",
    ),
    table(
        "oilspill",
        ("Kubat, Miroslav and Holte, Robert and Matwin, Stan", "Oil Spills in Radar Images", 1998, "OpenML"),
        ("0", "1"),
        counts=(896, 41),
        rounds=(81, 64, 31, 2),
        openml=OpenmlTable(311, {"-1": "0"}),
        content="203dbb1ef035525a2eb7661b6c8c7d82bc2bdfb8b2c404f2d6865be5fc60a717",
    ),
    table(
        "spambase",
        ("Hopkins, Mark and Reeber, Erik and Forman, George and Suermondt, Jaap", "Spambase", 1999, REPOSITORY),
        ("0", "1"),
        counts=(2788, 1813),
        rounds=(204, 176, 85, 50),
        openml=OpenmlTable(44),
        page="94/spambase",
        content="e802e01cc3ccfa843c7303e6733bcf96f7d0d9420a7117a58ca78594f566dbe6",
    ),
    table(
        "nursery",
        ("Rajkovic, Vladislav", "Nursery", 1997, REPOSITORY),
        ("not_recom", "priority", "spec_prior", "very_recom"),
        counts=(4320, 4266, 4044, 328),
        rounds=(748, 228, 105, 161),
        openml=OpenmlTable(26, left_out=("recommend",)),
        page="76/nursery",
        content="be6e8ff83f8e7c00de1c4d2b7e8922ca2c0876cf7bb34ffd46ecf5dcc85accc7",
        part="6,000 of 12,958 rows",
    ),
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
