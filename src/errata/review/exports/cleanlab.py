"""The ranking as cleanlab stores label issues: class numbers, in the order of the data, low quality for a bad label."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import save_arrays
from errata.dynamics.ids import match_ids, portable_ids
from errata.review.exports.export_samples import checked_top, prepare_folder
from errata.terminal import write_table

if TYPE_CHECKING:
    import pandas as pd

    from errata.finding.found import Found

TABLE, ARRAYS = "label_issues.csv", "label_issues.npz"


def write_cleanlab(found: "Found", folder: str | Path, *, top: int | None = None) -> Path:
    """Write label_issues.csv, and label_issues.npz with the indices of the issues, the ids and the classes as well."""
    target = Path(folder)
    issues = label_issues(found, top=top)
    prepare_folder(target, {TABLE, ARRAYS})
    dynamics = found.dynamics
    arrays = {
        **{str(name): issues[name].to_numpy() for name in issues.columns},
        "ranked_indices": ranked_indices(found, top=top),
        "ids": portable_ids(dynamics.ids),
        "classes": np.array([str(dynamics.class_name(number)) for number in range(dynamics.num_classes)]),
    }
    write_table(issues, target / TABLE)
    save_arrays(target / ARRAYS, arrays)
    return target


def label_issues(found: "Found", *, top: int | None = None) -> "pd.DataFrame":
    """One row per sample in the order of the data, with the columns of cleanlab's CleanLearning.get_label_issues().

    is_label_issue: whether the sample is among the `top` most suspicious; default: the estimated number of errors.
    label_quality: the estimated probability that the label is correct. given_label, predicted_label: class numbers.
    """
    import pandas as pd

    dynamics = found.dynamics
    indices = ranked_indices(found, top=len(found.ranking))
    class_numbers = {str(dynamics.class_name(number)): number for number in reversed(range(dynamics.num_classes))}
    dtype = np.int16 if dynamics.num_classes < np.iinfo(np.int16).max else np.int32
    is_issue, quality = np.zeros(len(indices), np.bool_), np.empty(len(indices))
    predicted = np.empty(len(indices), dtype)
    is_issue[ranked_indices(found, top=top)] = True
    quality[indices] = 1 - found.ranking["p_wrong"].to_numpy()
    predicted[indices] = [class_numbers[str(name)] for name in found.ranking["suggested"].tolist()]
    return pd.DataFrame(
        {
            "is_label_issue": is_issue,
            "label_quality": quality,
            "given_label": dynamics.labels.astype(dtype),
            "predicted_label": predicted,
        }
    )


def ranked_indices(found: "Found", *, top: int | None = None) -> NDArray[np.int64]:
    """The row numbers of the issues, most suspicious first."""
    count = found.expected if top is None else checked_top(top, len(found.ranking))
    return match_ids(found.dynamics.ids, found.ranking["id"].to_numpy())[:count]
