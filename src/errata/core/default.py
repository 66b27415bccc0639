"""How errata ranks a run if no method is named: the rule that chooses the default method.

Notation: p(e, i) is the softmax of the logits of sample i at epoch e, a vector over K classes; y is the given label.
"Inputs" (N, D) are scaled columns of a table or embeddings; "features" (N, D) are activations of the trained model.

Choose the method:

1. Inputs are known: `Unmixed-kNN-EarlyProb-LM`.
2. Otherwise, features are known and have not memorised the labels (errata.core.memorising): `Unmixed-kNN-RampProb-LM`.
3. Otherwise, samples were recorded in-sample and late epochs have memorised labels (errata.core.memorising):
   `Unmixed-EarlyProb-LM`. Out-of-sample predictions come from models that were not trained on the sample's label.
4. Otherwise: `Unmixed-MeanProb-LM`.

If only running sums of the epochs were kept, epochs cannot be left out afterwards: rule 1 uses `MeanProb` instead of
`EarlyProb`, and rule 3 does not apply. Rule 2 is skipped if the sums for `RampProb` were not kept, and assumes that
nothing was memorised if those for `MeanProb` were not kept. Methods of out-of-sample runs have `(OOS)` in their name.

Score each sample; a name is read from right to left, except for the measure:

5. Aggregation (errata.core.aggregations): average p(e, i) over epochs to one vector p(i). MeanProb: all epochs count
   the same. RampProb: weights 1, 2, 3, ...; the later epochs of an image model know more. EarlyProb: only the epochs
   before the model starts to memorise (errata.core.early).
6. kNN (errata.core.smoothing): blend log p(i) with the labels of the 10 nearest inputs, or with the mean
   probabilities of the 50 samples with the nearest features.
7. Unmixed (errata.core.unmixing): from the probabilities of given labels to those of true classes, q(i), by an estimate
   of how often samples of one class get the label of another.
8. LM (errata.core.measures): the score is the largest log q of another class minus the log q of y. The higher, the more
   suspicious; the class with the largest q is the suggested label.
"""

from collections.abc import Callable, Collection

from errata.core.memorising import Memorisation
from errata.core.methods import Gathering, Method, parse, with_gathering
from errata.core.neighbourhood import SpaceName

DEFAULT = "default"
"""The name that stands for the method that `choose_default` returns for a run. Case does not matter."""

WITH_INPUTS = "Unmixed-kNN-EarlyProb-LM"
WITH_INPUTS_FROM_SUMS = "Unmixed-kNN-MeanProb-LM"
WITH_FEATURES = "Unmixed-kNN-RampProb-LM"
WITHOUT_LATE_EPOCHS = "Unmixed-EarlyProb-LM"
OTHERWISE = "Unmixed-MeanProb-LM"

DEFAULTS_FROM_SUMS = (OTHERWISE, WITH_INPUTS_FROM_SUMS, WITH_FEATURES)
"""The defaults that running sums can compute, and what the rule needs to choose between them."""


def is_default(name: object) -> bool:
    """Whether a method is named "default", in any case."""
    return isinstance(name, str) and name.strip().lower() == DEFAULT


def parse_or_default(name: str | Method | None) -> Method | None:
    """The method of that name, or None for the default, which is known only once there is a run."""
    return None if name is None or is_default(name) else parse(name)


def choose_default(
    spaces: Collection[SpaceName],
    gathering: Gathering,
    *,
    logits_stored: bool,
    can_score: Callable[[Method], bool],
    memorisation: Callable[[], Memorisation],
) -> Method:
    """The method that ranks a run, by rules 1 to 4.

    spaces: where neighbours are known. gathering: how the epochs were recorded. logits_stored: False if only running
    sums were kept. can_score: whether these are enough for a method. memorisation: computes which parts of the run have
    memorised labels; it reads the run, so it is called only if the choice depends on it.
    """

    def gathered(name: str) -> Method:
        return with_gathering(parse(name), gathering)

    if "inputs" in spaces:
        return gathered(WITH_INPUTS if logits_stored else WITH_INPUTS_FROM_SUMS)
    with_features = gathered(WITH_FEATURES)
    features_usable = "features" in spaces and can_score(with_features)
    late_epochs_matter = logits_stored and gathering == "in-sample"
    if not features_usable and not late_epochs_matter:
        return gathered(OTHERWISE)
    memorised = memorisation()
    if features_usable and not memorised.features:
        return with_features
    if late_epochs_matter and memorised.late_epochs:
        return gathered(WITHOUT_LATE_EPOCHS)
    return gathered(OTHERWISE)


def own_methods() -> list[Method]:
    """The methods that the benchmark runs beside the paper's: every default, and neighbours without unmixing."""
    not_unmixed = ("kNN-MeanProb-LM", "kNN-RampProb-LM")
    names = (*not_unmixed, OTHERWISE, WITHOUT_LATE_EPOCHS, WITH_INPUTS_FROM_SUMS, WITH_FEATURES, WITH_INPUTS)
    return [parse(name) for name in names]
