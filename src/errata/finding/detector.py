"""ErrataDetector: `errata.find` as a scikit-learn estimator."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator  # noqa: TID253  # the base class is needed at import

from errata.errors import InputError
from errata.readers.label_encoding import as_series, is_missing

if TYPE_CHECKING:
    import pandas as pd

    from errata.finding.candidates import ModelName
    from errata.finding.found import Found


class ErrataDetector(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Finds the samples of (X, y) whose labels are probably wrong.

    After fit: scores_ (N,), higher is more suspicious; flags_ (N,), True for the estimated errors; suggested_ (N,), the
    suggested labels; p_wrong_ (N,); ranking_, the table of all samples with their row as id; classes_; found_, the
    result of `errata.find`.

    model, embed, folds, device: as for `errata.find`. random_state: a seed, None for 0, or a numpy RandomState.
    """

    def __init__(
        self,
        model: "ModelName" = "auto",
        *,
        embed: str | Path | None = None,
        folds: int | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.model = model
        self.embed = embed
        self.folds = folds
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "ErrataDetector":
        """Train on X, an array (N, D), a data frame, images or text, and the given labels y (N,) of any type."""
        from errata.finding.find import find

        labels = self._checked(X, y)
        options = {name: getattr(self, name) for name in ("embed", "model", "folds", "device")}
        rows = np.arange(len(labels.values))  # as ids, since the index of a data frame may repeat in a resampled fold
        found = find(X, labels.values, id=rows, seed=self._seed(), **options)
        assert found.data is not None
        in_order = found.ranking.sort_values("id")
        self.found_: Found = found
        self.ranking_: pd.DataFrame = found.ranking
        self.classes_: NDArray[Any] = labels.array_of(found.data.classes)
        self.scores_: NDArray[np.float64] = in_order["score"].to_numpy()
        self.p_wrong_: NDArray[np.float64] = in_order["p_wrong"].to_numpy()
        self.flags_: NDArray[np.bool_] = (in_order["rank"] <= found.expected).to_numpy()
        self.suggested_: NDArray[Any] = labels.array_of(in_order["suggested"].tolist())
        return self

    def fit_predict(self, X: Any, y: Any) -> NDArray[np.bool_]:
        """Fit, and return flags_ (N,)."""
        return self.fit(X, y).flags_

    def _checked(self, X: Any, y: Any) -> "_Labels":
        """The labels. X and y are checked by scikit-learn as far as it supports their types."""
        from sklearn.utils import assert_all_finite, check_array, check_consistent_length, column_or_1d
        from sklearn.utils.multiclass import check_classification_targets

        if y is None:
            raise InputError("This ErrataDetector estimator requires y to be passed, but the target y is None.")
        labels: NDArray[Any] = column_or_1d(y, warn=True)
        checked = _Labels.of(y, labels)
        if labels.dtype.kind in "biufc":
            assert_all_finite(labels, input_name="y", estimator_name="ErrataDetector")
            check_classification_targets(labels)
        if _is_plain(X):
            X = check_array(X, accept_sparse=True, dtype=None, allow_nd=True)
        check_consistent_length(X, labels)
        if len(getattr(X, "shape", ())) > 1:
            self.n_features_in_ = int(X.shape[1])
        if hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns):
            self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        return checked

    def _seed(self) -> int:
        from sklearn.utils import check_random_state

        if self.random_state is None or isinstance(self.random_state, int | np.integer):
            return int(self.random_state or 0)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags


@dataclass(frozen=True, eq=False)
class _Labels:
    """Labels (N,) and the dtype of arrays of labels; None lets numpy choose it."""

    values: Any
    dtype: np.dtype[Any] | None

    @classmethod
    def of(cls, y: Any, array: NDArray[Any]) -> "_Labels":
        """The array that scikit-learn made of `y`, or `y` itself if the conversion changed the labels."""
        from pandas.api.types import infer_dtype, is_extension_array_dtype

        mixed_types = isinstance(y, list | tuple) and array.dtype.kind == "U" and infer_dtype(y) != "string"
        changed = mixed_types or (is_extension_array_dtype(y) and array.dtype.kind == "f")
        labels = as_series(y if changed else array, "y")
        if is_missing(labels).any():
            raise InputError("y has rows without a label; remove them from X and y")
        if changed:
            return cls(labels, np.dtype(object) if mixed_types else None)
        return cls(array, array.dtype)

    def array_of(self, labels: Sequence[Any]) -> NDArray[Any]:
        """An array of labels with the dtype."""
        if self.dtype != object:
            return np.asarray(labels, dtype=self.dtype)
        objects = np.empty(len(labels), dtype=object)
        objects[:] = labels
        return objects


def _is_plain(inputs: Any) -> bool:
    """True if scikit-learn can check the inputs: dense or sparse arrays of numbers, and lists of numbers."""
    if hasattr(inputs, "tocsr"):
        return True
    if hasattr(inputs, "columns"):
        return False
    return np.asarray(inputs).dtype.kind in "biufc" if isinstance(inputs, list | np.ndarray) else False
