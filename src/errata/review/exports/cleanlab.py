"""What was found, by cleanlab's conventions: class numbers, in the order of the data, low quality for a bad label."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import save_arrays
from errata.dynamics.ids import match_ids, portable_ids
from errata.review.exports.samples import check_target, checked_top
from errata.terminal import write_table

if TYPE_CHECKING:
    import pandas as pd

    from errata.finding.found import Found

TABLE, ARRAYS = "label_issues.csv", "label_issues.npz"


def write_cleanlab(found: "Found", folder: str | Path, *, top: int | None = None) -> Path:
    """Write label_issues.csv and, with the indices of the issues, ids and classes, label_issues.npz."""
    target = Path(folder)
    issues = label_issues(found, top=top)
    check_target(target, {TABLE, ARRAYS})
    arrays: dict[str, NDArray[Any]] = {
        **{str(name): issues[name].to_numpy() for name in issues.columns},
        "ranked_indices": ranked_indices(found, top=top),
        "ids": portable_ids(found.dynamics.ids),
        "classes": np.array([str(found.dynamics.class_name(k)) for k in range(found.dynamics.num_classes)]),
    }
    write_table(issues, target / TABLE)
    save_arrays(target / ARRAYS, arrays)
    return target


def label_issues(found: "Found", *, top: int | None = None) -> "pd.DataFrame":
    """A row a sample, in the order of the data, with the columns of cleanlab's CleanLearning.get_label_issues().

    is_label_issue: whether it is among the `top` most suspicious, by default as many as are estimated to be wrong.
    label_quality: the estimated probability that the label is right. given_label, predicted_label: class numbers.
    """
    import pandas as pd

    dynamics = found.dynamics
    places = _places(found)
    numbers = {str(dynamics.class_name(k)): k for k in reversed(range(dynamics.num_classes))}
    narrow = np.int16 if dynamics.num_classes < np.iinfo(np.int16).max else np.int32
    is_issue, quality = np.zeros(len(places), np.bool_), np.empty(len(places))
    predicted = np.empty(len(places), narrow)
    is_issue[ranked_indices(found, top=top)] = True
    quality[places] = 1 - found.ranking["p_wrong"].to_numpy()
    predicted[places] = [numbers[str(name)] for name in found.ranking["suggested"].tolist()]
    return pd.DataFrame(
        {
            "is_label_issue": is_issue,
            "label_quality": quality,
            "given_label": dynamics.labels.astype(narrow),
            "predicted_label": predicted,
        }
    )


def ranked_indices(found: "Found", *, top: int | None = None) -> NDArray[np.int64]:
    """Where the samples with issues stand in the data, most suspicious first."""
    count = found.expected if top is None else checked_top(top, len(found.ranking))
    return _places(found)[:count]


def _places(found: "Found") -> NDArray[np.int64]:
    return match_ids(found.dynamics.ids, found.ranking["id"].to_numpy())
