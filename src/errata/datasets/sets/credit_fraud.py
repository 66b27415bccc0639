"""Credit card fraud: which card payments were fraudulent, from their principal components, time and amount."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from errata.datasets.settings import Drawn, Setting
from errata.datasets.spec import Content, Dataset, PaperRow, Prepared, Raw, Source
from errata.datasets.steps import clip_quantiles, run_steps, standardise, stratified_split
from errata.datasets.tables import BROKEN, check_rows, table_content
from errata.errors import DataError
from errata.training.recipes import BoostingRecipe, Recipe
from errata.wording import one_line

NAME = "credit_fraud"
FEATURES = ("Time", *(f"V{number}" for number in range(1, 29)), "Amount")
LABEL = "Class"
FRAUDS, GENUINE = 492, 284_315
GENUINE_PER_FRAUD = 2
TRAIN = 1107


def read_full(paths: Sequence[Path]) -> Raw:
    """All payments of the official file."""
    raw = read(paths)
    frauds, genuine = len(raw.arrays["frauds"]), len(raw.arrays["genuine"])
    check_rows(paths[0], frauds + genuine, FRAUDS + GENUINE)
    if frauds != FRAUDS:
        raise DataError(f"{paths[0]} has {frauds:,} frauds, not {FRAUDS}")
    return raw


def read_part(paths: Sequence[Path]) -> Raw:
    """Every fraud, and at least as many of the genuine payments as are drawn."""
    raw = read(paths)
    frauds, genuine, needed = len(raw.arrays["frauds"]), len(raw.arrays["genuine"]), GENUINE_PER_FRAUD * FRAUDS
    if frauds != FRAUDS or genuine < needed:
        raise DataError(
            f"{paths[0]} has {frauds:,} frauds and {genuine:,} genuine payments, where all {FRAUDS} frauds and "
            f"at least {needed} genuine payments are needed"
        )
    return raw


def read(paths: Sequence[Path]) -> Raw:
    """Fraudulent and genuine payments (N, 30), each in the order of the file."""
    import pyarrow as pa
    from pyarrow import csv

    (path,) = paths
    numbers = csv.ConvertOptions(column_types=dict.fromkeys((*FEATURES, LABEL), pa.float64()))
    try:
        table = csv.read_csv(path, convert_options=numbers)
    except BROKEN as error:
        raise DataError(f"{path} cannot be read: {one_line(error)}") from error
    missing = [name for name in (*FEATURES, LABEL) if name not in table.column_names]
    if missing:
        raise DataError(f"{path} has no column {missing[0]}")
    inputs = np.column_stack([table[name].to_numpy() for name in FEATURES])
    labels = table[LABEL].to_numpy()
    broken = np.isnan(inputs).any(axis=1) | ~np.isin(labels, (0, 1))
    if broken.any():
        raise DataError(f"{path}: row {int(np.argmax(broken)) + 1} has an empty cell or a class other than 0 and 1")
    return Raw({"frauds": inputs[labels == 1], "genuine": inputs[labels == 0]})


def prepare(raw: Raw, base: Prepared | None) -> Content:
    """Every fraud and twice as many genuine payments, always the same; outliers clipped, columns scaled.

    The paper scales nothing here, but the seconds in Time would swamp a network.
    """
    frauds, genuine = raw.arrays["frauds"], raw.arrays["genuine"]
    drawn = np.random.default_rng(0).choice(len(genuine), GENUINE_PER_FRAUD * len(frauds), replace=False)
    inputs = np.concatenate([genuine[np.sort(drawn)], frauds])
    labels = np.repeat([0, 1], [len(drawn), len(frauds)])
    train, test = stratified_split(labels, TRAIN)
    train_inputs, test_inputs = run_steps(inputs[train], inputs[test], [clip_quantiles(1, 99), standardise])
    return table_content(train_inputs, labels[train], test_inputs, labels[test], FEATURES)


DATASET = Dataset(
    name=NAME,
    title="Credit Card Fraud Detection",
    source="https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud",
    licence="DbCL 1.0",
    bibtex="""@inproceedings{dal_pozzolo_2015,
  author = {Dal Pozzolo, Andrea and Caelen, Olivier and Johnson, Reid A. and Bontempi, Gianluca},
  title = {Calibrating Probability with Undersampling for Unbalanced Classification},
  booktitle = {IEEE Symposium Series on Computational Intelligence},
  year = {2015},
  doi = {10.1109/SSCI.2015.33}
}""",
    kind="table",
    classes=("genuine", "fraud"),
    sources=(
        Source(("creditcard.csv",), read_full),
        Source(
            ("creditcard_subset.csv.gz",),
            read_part,
            complete=False,
            remark="a part of the official file: every fraud, but only some of the genuine payments to draw from",
        ),
    ),
    prepare=prepare,
    settings=(
        Setting(
            NAME,
            Drawn("symmetric", 0.2),
            "mlp",
            # the widths are ours
            Recipe(epochs=749, batch_size=1024, learning_rate=1e-3, weight_decay=1e-3, widths=(30, 15)),
            horizon=1498,
            accuracy=94.58,
        ),
        Setting(
            NAME, Drawn("symmetric", 0.2), "boosting", BoostingRecipe(69), in_paper=False
        ),  # chosen on a part of the data
    ),
    by_hand=(
        "Sign in to Kaggle, open https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud, press Download, unpack the "
        "zip, and put creditcard.csv (144 MB) in {folder}; or, with Kaggle's command line: "
        "kaggle datasets download mlg-ulb/creditcardfraud --unzip -p {folder}"
    ),
    hashes={
        "frauds": "22fef5880fd2fc0f63d54fea2e665970ea316f00976f56170189ea8f8cef7911",
    },
    paper=PaperRow(rows=284_807, features="30", transformed="30", classes=2, train=1107, test=369),
    class_counts=(GENUINE_PER_FRAUD * FRAUDS, FRAUDS),
)
