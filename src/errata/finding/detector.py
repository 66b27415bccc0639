"""ErrataDetector: `errata.find` as a scikit-learn estimator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator  # noqa: TID253  # the base class is needed at import
from sklearn.utils.metaestimators import available_if  # noqa: TID253  # and so is the decorator

from errata.core.checks import as_numpy
from errata.errors import InputError
from errata.readers.label_encoding import as_series, is_missing

if TYPE_CHECKING:
    import pandas as pd

    from errata.finding.candidates import ModelName
    from errata.finding.found import Found


Treatment = Literal["drop", "down-weight"]


def _estimator_has(name: str) -> Callable[["ErrataDetector"], bool]:
    return lambda detector: hasattr(detector.estimator, name)


class ErrataDetector(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Finds the samples of (X, y) whose labels are probably wrong.

    After fit: scores_ (N,), higher is more suspicious; flags_ (N,), True for the estimated errors; suggested_ (N,), the
    suggested labels; p_wrong_ (N,); kept_ (N,), True for samples without a flag and for the least suspicious of each
    class; sample_weight_ (N,), see `treatment`; ranking_, the table of all samples with their row as id; classes_;
    found_, the result of `errata.find`.

    model, backbone, ignore, folds, looks, device: as for `errata.find`.
    random_state: a seed, None for 0, or a RandomState.
    estimator: a classifier, or a pipeline that ends in one, to train on the samples that are left; estimator_ is the
    trained copy, and predict, predict_proba, decision_function and score are its methods.
    treatment: "drop" trains the estimator on the kept samples, and sets sample_weight_ to 0 for the others;
    "down-weight" sets it to 1 - p_wrong_ for all samples, and passes it to the estimator.

    >>> import errata
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> y[0] = 2  # a wrong label
    >>> detector = errata.ErrataDetector(model="mlp").fit(X, y)
    >>> int(detector.scores_.argmax()), bool(detector.flags_[0])
    (0, True)
    """

    def __init__(
        self,
        model: "ModelName" = "auto",
        *,
        backbone: str | Path | None = None,
        ignore: str | Sequence[str] | None = None,
        folds: int | None = None,
        looks: int | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = 0,
        estimator: Any = None,
        treatment: Treatment = "drop",
    ) -> None:
        self.model = model
        self.backbone = backbone
        self.ignore = ignore
        self.folds = folds
        self.looks = looks
        self.device = device
        self.random_state = random_state
        self.estimator = estimator
        self.treatment = treatment

    def fit(self, X: Any, y: Any) -> "ErrataDetector":
        """Train on X, an array (N, D), a data frame, images or text, and the given labels y (N,) of any type.

        >>> import errata
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> errata.ErrataDetector(model="mlp").fit(X, y).scores_.shape
        (150,)
        """
        from errata.finding.find import find

        labels = self._checked(X, y)
        options = {name: getattr(self, name) for name in ("backbone", "ignore", "model", "folds", "looks", "device")}
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
        self.kept_: NDArray[np.bool_] = ~self.flags_
        for number in range(found.data.num_classes):
            members = np.flatnonzero(found.data.labels == number)
            self.kept_[members[np.argmin(self.scores_[members])]] = True
        drop = self.treatment == "drop"
        self.sample_weight_: NDArray[np.float64] = self.kept_.astype(np.float64) if drop else 1 - self.p_wrong_
        if self.estimator is not None:
            self._fit_estimator(X, y)
        return self

    def _fit_estimator(self, X: Any, y: Any) -> None:
        from sklearn.base import clone

        self.estimator_ = clone(self.estimator)
        if self.treatment == "drop":
            self.estimator_.fit(*self._kept(X, y))
        else:
            self.estimator_.fit(X, y, sample_weight=self.sample_weight_)

    def _kept(self, X: Any, y: Any) -> tuple[Any, Any]:
        from sklearn.utils import _safe_indexing, indexable

        rows = np.flatnonzero(self.kept_)
        inputs, labels = (_safe_indexing(values, rows) for values in indexable(X, y))
        return inputs, labels

    def fit_predict(self, X: Any, y: Any) -> NDArray[np.bool_]:
        """Fit, and return flags_ (N,).

        >>> import errata
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> y[0] = 2  # a wrong label
        >>> bool(errata.ErrataDetector(model="mlp").fit_predict(X, y)[0])
        True
        """
        return self.fit(X, y).flags_

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Fit, and return X and y of the kept samples: a first step in pipelines of imbalanced-learn.

        >>> import errata
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> y[0] = 2  # a wrong label
        >>> kept_X, kept_y = errata.ErrataDetector(model="mlp").fit_resample(X, y)
        >>> len(kept_X) == len(kept_y) < 150
        True
        """
        return self.fit(X, y)._kept(X, y)

    @available_if(_estimator_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """The classes (n,) that the estimator predicts.

        >>> import errata
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> detector = errata.ErrataDetector(model="mlp", estimator=DecisionTreeClassifier(random_state=0)).fit(X, y)
        >>> detector.predict(X[:2]).tolist()
        [0, 0]
        """
        return self._trained().predict(X)

    @available_if(_estimator_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """The probabilities (n, K) that the estimator predicts.

        >>> import errata
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> detector = errata.ErrataDetector(model="mlp", estimator=DecisionTreeClassifier(random_state=0)).fit(X, y)
        >>> detector.predict_proba(X[:2]).tolist()
        [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
        """
        return self._trained().predict_proba(X)

    @available_if(_estimator_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """The decision function of the estimator.

        >>> import errata
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = load_iris(return_X_y=True)
        >>> detector = errata.ErrataDetector(model="mlp", estimator=LogisticRegression(max_iter=500)).fit(X, y)
        >>> detector.decision_function(X[:2]).shape
        (2, 3)
        """
        return self._trained().decision_function(X)

    @available_if(_estimator_has("score"))  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any) -> float:
        """The score of the estimator, its accuracy, on given labels.

        >>> import errata
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> detector = errata.ErrataDetector(model="mlp", estimator=DecisionTreeClassifier(random_state=0)).fit(X, y)
        >>> detector.score(X, y) > 0.9
        True
        """
        return float(self._trained().score(X, y))

    def _trained(self) -> Any:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "estimator_")
        return self.estimator_

    def _checked(self, X: Any, y: Any) -> "_Labels":
        """The labels. X and y are checked by scikit-learn as far as it supports their types."""
        from sklearn.utils import assert_all_finite, check_array, check_consistent_length, column_or_1d
        from sklearn.utils.multiclass import check_classification_targets
        from sklearn.utils.validation import has_fit_parameter

        if self.treatment not in get_args(Treatment):
            raise InputError(f"treatment must be 'drop' or 'down-weight', not {self.treatment!r}")
        weighted = self.treatment == "down-weight" and self.estimator is not None
        if weighted and not has_fit_parameter(self.estimator, "sample_weight"):
            raise InputError("fit of the estimator takes no sample_weight: use treatment='drop'")
        if y is None:
            raise InputError("This ErrataDetector estimator requires y to be passed, but the target y is None.")
        labels: NDArray[Any] = column_or_1d(as_numpy(y, "y"), warn=True)
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
        if self.estimator is not None:
            from sklearn.utils import get_tags

            own = get_tags(self.estimator)
            tags.estimator_type, tags.classifier_tags = own.estimator_type, own.classifier_tags
            tags.input_tags.sparse = own.input_tags.sparse
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
