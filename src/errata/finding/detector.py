"""ErrataDetector: `find` as an estimator of scikit-learn."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator  # noqa: TID253  # a base class is needed when the class is made

from errata.errors import InputError
from errata.readers.label_encoding import as_series, is_missing

if TYPE_CHECKING:
    import pandas as pd

    from errata.finding.candidates import ModelName
    from errata.finding.found import Found


class ErrataDetector(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Finds the samples of (X, y) whose labels are probably wrong.

    After fit: scores_ (N,), higher = more suspicious; flags_ (N,), whether a sample is among the estimated errors;
    suggested_ (N,), the label the model would give; p_wrong_ (N,); ranking_, the table of all samples with their row as
    id; classes_; found_, everything `errata.find` says.

    model, embed, folds, device: as for `errata.find`. random_state: a seed, None for 0, or numpy's generator of them.
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
        """Train on X, numbers (N, D), a data frame, images or text, and the given labels y (N,) of any type."""
        from errata.finding.find import find

        labels = self._checked(X, y)
        found = find(
            X,
            labels.given,
            embed=self.embed,
            model=self.model,
            folds=self.folds,
            device=self.device,
            seed=self._seed(),
        )
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
        """The flags (N,) of fit."""
        return self.fit(X, y).flags_

    def _checked(self, X: Any, y: Any) -> "_Labels":
        """The labels; what scikit-learn knows how to check is checked as it does."""
        from sklearn.utils import assert_all_finite, check_array, check_consistent_length, column_or_1d
        from sklearn.utils.multiclass import check_classification_targets

        if y is None:
            raise InputError("This ErrataDetector estimator requires y to be passed, but the target y is None.")
        labels: NDArray[Any] = column_or_1d(y, warn=True)
        kept = _Labels.of(y, labels)
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
        return kept

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
    """Labels (N,) as they were given, and the type of arrays of them; None leaves it to numpy."""

    given: Any
    dtype: np.dtype[Any] | None

    @classmethod
    def of(cls, y: Any, array: NDArray[Any]) -> "_Labels":
        """Labels of which scikit-learn makes an array, where that does not change them."""
        from pandas.api.types import infer_dtype, is_extension_array_dtype

        of_several_types = isinstance(y, list | tuple) and array.dtype.kind == "U" and infer_dtype(y) != "string"
        changed = of_several_types or (is_extension_array_dtype(y) and array.dtype.kind == "f")
        given = as_series(y if changed else array, "y")
        if is_missing(given).any():
            raise InputError("y has rows without a label; leave them out of X and y")
        if changed:
            return cls(given, np.dtype(object) if of_several_types else None)
        return cls(array, array.dtype)

    def array_of(self, labels: Sequence[Any]) -> NDArray[Any]:
        """Some of these labels as an array of their type."""
        if self.dtype != object:
            return np.asarray(labels, dtype=self.dtype)
        objects = np.empty(len(labels), dtype=object)
        objects[:] = labels
        return objects


def _is_plain(inputs: Any) -> bool:
    """Whether scikit-learn knows how to check them: arrays of numbers, dense or sparse, and lists of them."""
    if hasattr(inputs, "tocsr"):
        return True
    if hasattr(inputs, "columns"):
        return False
    return np.asarray(inputs).dtype.kind in "biufc" if isinstance(inputs, list | np.ndarray) else False
