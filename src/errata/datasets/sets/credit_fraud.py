"""Credit card fraud: fraudulent card payments, from principal components, time and amount."""

from pathlib import Path

import numpy as np

from errata.datasets.label_noise import SymmetricNoise
from errata.datasets.spec import Dataset, PaperRow, ParsedArrays, PreparedArrays, Setting, Source
from errata.datasets.table_datasets import check_rows, clip_quantiles, prepare_split, standardise
from errata.errors import DataError
from errata.readers.formats.csv_files import read_csv
from errata.training.recipes import BoostingRecipe, Recipe
from errata.wording import one_line

NAME = "credit_fraud"
FEATURES = ("Time", *(f"V{number}" for number in range(1, 29)), "Amount")
LABEL = "Class"
FRAUDS, GENUINE = 492, 284_315
GENUINE_PER_FRAUD = 2
TRAIN = 1107
# the paper prints no widths
RECIPE = Recipe(epochs=749, batch_size=1024, learning_rate=1e-3, weight_decay=1e-3, widths=(30, 15))


def read_full(path: Path) -> ParsedArrays:
    """Read the official file."""
    parsed = read(path)
    frauds, genuine = len(parsed.arrays["frauds"]), len(parsed.arrays["genuine"])
    check_rows(path, frauds + genuine, FRAUDS + GENUINE)
    if frauds != FRAUDS:
        raise DataError(f"{path} has {frauds:,} frauds, not {FRAUDS}")
    return parsed


def read_part(path: Path) -> ParsedArrays:
    """Read a file with every fraud and at least as many genuine payments as are drawn."""
    parsed = read(path)
    frauds, genuine, needed = len(parsed.arrays["frauds"]), len(parsed.arrays["genuine"]), GENUINE_PER_FRAUD * FRAUDS
    if frauds != FRAUDS or genuine < needed:
        raise DataError(
            f"{path} has {frauds:,} frauds and {genuine:,} genuine payments. All {FRAUDS} frauds and at least "
            f"{needed} genuine payments are needed"
        )
    return parsed


def read(path: Path) -> ParsedArrays:
    """Fraudulent and genuine payments (N, 30), each in the order of the file."""
    frame = read_csv(path).frame
    missing = [name for name in (*FEATURES, LABEL) if name not in frame]
    if missing:
        raise DataError(f"{path} has no column {missing[0]}")
    try:
        values = frame[[*FEATURES, LABEL]].to_numpy(np.float64, na_value=np.nan)
    except ValueError as error:
        raise DataError(f"{path} has a cell that is not a number: {one_line(error)}") from error
    inputs, labels = values[:, :-1], values[:, -1]
    broken = np.isnan(inputs).any(axis=1) | ~np.isin(labels, (0, 1))
    if broken.any():
        raise DataError(f"{path}: row {int(np.argmax(broken)) + 1} has an empty cell or a class other than 0 and 1")
    return ParsedArrays({"frauds": inputs[labels == 1], "genuine": inputs[labels == 0]})


def prepare(parsed: ParsedArrays) -> PreparedArrays:
    """Draw twice as many genuine payments as frauds with a fixed seed; clip outliers, standardise.

    The paper does not scale these columns, but Time and Amount would then dominate the inputs of a network.
    """
    frauds, genuine = parsed.arrays["frauds"], parsed.arrays["genuine"]
    drawn = np.random.default_rng(0).choice(len(genuine), GENUINE_PER_FRAUD * len(frauds), replace=False)
    inputs = np.concatenate([genuine[np.sort(drawn)], frauds])
    labels = np.repeat([0, 1], [len(drawn), len(frauds)])
    return prepare_split(inputs, labels, TRAIN, [clip_quantiles(1, 99), standardise], FEATURES)


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
        Setting(NAME, SymmetricNoise(0.2), "mlp", RECIPE, horizon=1498, accuracy=94.58),
        # rounds chosen on a part of the data
        Setting(NAME, SymmetricNoise(0.2), "boosting", BoostingRecipe(69)),
    ),
    by_hand=(
        "Sign in to Kaggle, open https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud, press Download, unpack the "
        "zip, and put creditcard.csv (144 MB) into {folder}. With Kaggle's command line: "
        "kaggle datasets download mlg-ulb/creditcardfraud --unzip -p {folder}"
    ),
    hashes={"frauds": "22fef5880fd2fc0f63d54fea2e665970ea316f00976f56170189ea8f8cef7911"},
    paper=PaperRow(rows=284_807, features="30", transformed="30", classes=2, train=1107, test=369),
    class_counts=(GENUINE_PER_FRAUD * FRAUDS, FRAUDS),
)
