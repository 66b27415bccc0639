"""Credit card fraud: fraudulent card payments, from principal components, time and amount."""

from pathlib import Path

import numpy as np

from errata.datasets import table_datasets as tables
from errata.datasets.spec import Dataset, PaperRow, ParsedArrays, PreparedArrays, Source
from errata.errors import DataError
from errata.readers.file_access import file_errors
from errata.readers.formats.csv_files import read_csv
from errata.training.recipes import Recipe

NAME = "credit_fraud"
FEATURES = ("Time", *(f"V{number}" for number in range(1, 29)), "Amount")
LABEL = "Class"
OFFICIAL, PART = "creditcard.csv", "creditcard_subset.csv.gz"
PART_REMARK = "a part of the official file: every fraud, but only some of the genuine payments to draw from"
FRAUDS, GENUINE = 492, 284_315
GENUINE_PER_FRAUD = 2
TRAIN = 1107
# the paper prints no widths
RECIPE = Recipe(epochs=749, batch_size=1024, learning_rate=1e-3, weight_decay=1e-3, widths=(30, 15))


def read(path: Path) -> ParsedArrays:
    """Fraudulent and genuine payments (N, 30), each in the order of the file."""
    frame = read_csv(path).frame
    missing = [name for name in (*FEATURES, LABEL) if name not in frame]
    if missing:
        raise DataError(f"{path} has no column {missing[0]}")
    with file_errors(path, "has a cell that is not a number"):
        values = frame[[*FEATURES, LABEL]].to_numpy(np.float64, na_value=np.nan)
    inputs, labels = values[:, :-1], values[:, -1]
    broken = np.isnan(inputs).any(axis=1) | ~np.isin(labels, (0, 1))
    if broken.any():
        raise DataError(f"{path}: row {int(np.argmax(broken)) + 1} has an empty cell or a class other than 0 and 1")
    frauds, genuine, needed = inputs[labels == 1], inputs[labels == 0], GENUINE_PER_FRAUD * FRAUDS
    if path.name == OFFICIAL:
        tables.check_rows(path, len(inputs), FRAUDS + GENUINE)
    if len(frauds) != FRAUDS or len(genuine) < needed:
        raise DataError(
            f"{path} has {len(frauds):,} frauds and {len(genuine):,} genuine payments. All {FRAUDS} frauds and at "
            f"least {needed} genuine payments are needed"
        )
    return ParsedArrays({"frauds": frauds, "genuine": genuine})


def prepare(parsed: ParsedArrays) -> PreparedArrays:
    """Draw twice as many genuine payments as frauds with a fixed seed; clip outliers, standardise.

    The paper does not scale these columns, but Time and Amount would then dominate the inputs of a network.
    """
    frauds, genuine = parsed.arrays["frauds"], parsed.arrays["genuine"]
    drawn = np.random.default_rng(0).choice(len(genuine), GENUINE_PER_FRAUD * len(frauds), replace=False)
    inputs = np.concatenate([genuine[np.sort(drawn)], frauds])
    labels = np.repeat([0, 1], [len(drawn), len(frauds)])
    return tables.prepare_split(inputs, labels, TRAIN, [tables.clip_quantiles(1, 99), tables.standardise])


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
    sources=(Source((OFFICIAL,), read), Source((PART,), read, complete=False, remark=PART_REMARK)),
    prepare=prepare,
    # rounds chosen on a part of the data
    settings=tables.table_settings(NAME, RECIPE, horizon=1498, accuracy=94.58, rounds=69),
    by_hand=(
        "Sign in to Kaggle, open https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud, press Download, unpack the "
        "zip, and put creditcard.csv (144 MB) into {folder}. With Kaggle's command line: "
        "kaggle datasets download mlg-ulb/creditcardfraud --unzip -p {folder}"
    ),
    hashes={"frauds": "22fef5880fd2fc0f63d54fea2e665970ea316f00976f56170189ea8f8cef7911"},
    paper=PaperRow(rows=284_807, features="30", transformed="30", classes=2, train=1107, test=369),
    class_counts=(GENUINE_PER_FRAUD * FRAUDS, FRAUDS),
)
