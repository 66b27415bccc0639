"""The default method: how errata ranks a run if no method is named.

Given: logits of E epochs, N samples and K classes, and one label per sample. p(e, i) is the softmax of the logits of
sample i at epoch e. A run may also have *inputs* (N, D), scaled columns of a table or embeddings from another model,
and *features* (N, D), activations of the trained model. It is in-sample if the model was trained on the samples that
it predicts, out-of-sample if each sample was predicted by a model that was not trained on it.

Choose the method (`choose_default`):

1. Inputs, or held-out predictions from them, are known: `Unmixed-HeldOut-EarlyProb-LM`.
2. Otherwise, features are known and have not memorised the labels: `Unmixed-kNN-RampProb-LM`. Features of a pretrained
   model that was not trained on these labels have not. For others, the statistics of errata.core.memorising decide.
3. Otherwise, the run is in-sample and its late epochs have memorised labels (errata.core.memorising):
   `Unmixed-EarlyProb-LM`.
4. Otherwise: `Unmixed-MeanProb-LM`.

If only running sums over the epochs were kept, epochs cannot be left out afterwards: rule 1 uses MeanProb instead of
EarlyProb, and rule 3 does not apply. Rule 2 needs the sums of RampProb. Memorisation is measured from the sums of
RampProb and MeanProb; without those of MeanProb, rule 2 assumes that the features have not memorised the labels.

Score each sample. First the aggregation is applied, then HeldOut or kNN, then Unmixed, then the measure LM:

5. EarlyProb, RampProb or MeanProb (errata.core.aggregations): average p(e, i) over the epochs e. The result is p(i).
   MeanProb: equal weights. RampProb: weights 1, 2, 3, ..., because predictions improve with training as long as the
   features have not memorised the labels. EarlyProb: equal weights for the epochs before a cut-off, which is the same
   for all samples (errata.core.early). There are at most eight candidates for it. If h of step 6 predicts the given
   labels clearly better than their frequencies do, the cut-off is the candidate whose average agrees best with h.
   Otherwise, it is the last candidate before the model starts to memorise, or the end of the run.
6. HeldOut (errata.core.held_out), with inputs: log p'(i) = a log p(i) + (1 - a) log h(i). a is 0.7 if `find` measured
   that the model of the run predicts unseen labels better than h, otherwise 0.4. `find` does not measure it for models
   of frozen features of images: h has the same kinds of models. h(i) is predicted from the inputs by
   models that have not seen the label of sample i: logistic regression, a random forest, a small network and nearest
   neighbours; for inputs that are mostly zeros, such as words, logistic regression, naive Bayes and nearest neighbours
   (errata.core.held_out_models). They are pooled with the weights that predict the given labels best
   (errata.core.pooling). There is no h, and p' = p, with fewer than 10 samples, with a single class, and for mostly
   zero inputs of more than 20,000 samples and 50 classes with a negative number, which no model suits.
   kNN (errata.core.smoothing), with features only: log p'(i) = 0.5 log p(i) + 0.5 log n(i). n(i) is the mean of p over
   the 50 nearest samples by cosine distance. With fewer samples there are fewer neighbours; with more than 300,000 the
   search is approximate, unless there is a GPU (errata.core.neighbours).
   With neither, p' = p.
7. Unmixed (errata.core.unmixing): p'(i) predicts given labels; compute q(i), the probabilities of true classes, from
   p' = q T by two rounds of expectation maximisation. T (K, K) holds how often samples of each class get each label.
   With h, T is estimated from the labels of typical samples. These are, of the samples for which h predicts class j,
   the tenth with the highest h of j. Let e_j be the share of wrong labels in class j, and U_ji the share of label i
   among them. Two hypotheses are each accepted if their Bayes factor is at least 100:
   - e differs between classes. Prior: each e_j is uniform between 0 and 1. Otherwise one uniform e for all classes.
   - U is not uniform. Prior: each row has the Dirichlet distribution with parameters 1 / (K - 1). Otherwise all
     U_ji = 1 / (K - 1).
   T_jj = 1 - e_j and T_ji = e_j U_ji, with the posterior means of e and U. T is 0.8 times this, plus 0.2 times the same
   with both hypotheses rejected, because typical samples also overlap. After both rounds, the given label is used
   as evidence: q_j(i) is multiplied by T at [j, label], and divided by sum(T²) / sum(T), which is the mean of T over
   labels drawn by T. The sums are over the diagonal if j is the label, otherwise over all other entries.
   Without h, count the labels of the samples whose probability of a class is at least the mean of this probability
   over the samples with that label; a sample for which this holds for several classes counts for its most probable
   class (errata.core.confident_learning). These probabilities are n(i), or p(i) without n(i). Add 1 to each count, and
   divide each row by its sum. If N < K², q = p'.
8. LM (errata.core.measures): score = the largest log q of another class - the log q of the given label. Higher is more
   suspicious. The class with the largest q is the suggested label.
9. errata.dynamics.ranking sorts by the score, highest first; of equal scores, a hash of the id decides. It also turns
   the score into `p_wrong`, which keeps the order.
"""

from collections.abc import Callable
from dataclasses import replace

from errata.core.composed_method import ComposedMethod
from errata.core.held_out import WEIGHT_OF_BETTER_RUN, HeldOut
from errata.core.memorising import Memorisation
from errata.core.methods import Gathering, Method, parse
from errata.core.sample_context import SampleContext

BEATS_HELD_OUT = "beats_held_out"
"""The setting of a run that `errata find` measured to predict unseen labels better than held-out predictions."""

FROZEN_FEATURES = "frozen_features"
"""The setting of a run whose features are those of a pretrained model, before it was trained on the labels."""

DEFAULT = "default"
"""The name of the method that `choose_default` returns for a run, and of its column of scores; upper or lower case."""

WITH_INPUTS = "Unmixed-HeldOut-EarlyProb-LM"
WITH_INPUTS_FROM_SUMS = "Unmixed-HeldOut-MeanProb-LM"
WITH_FEATURES = "Unmixed-kNN-RampProb-LM"
MEAN_OF_EARLY_EPOCHS = "Unmixed-EarlyProb-LM"
MEAN_OF_ALL_EPOCHS = "Unmixed-MeanProb-LM"

STANDS_FOR = (
    f"with inputs {WITH_INPUTS}, with features {WITH_FEATURES}, otherwise {MEAN_OF_ALL_EPOCHS}, "
    f"or {MEAN_OF_EARLY_EPOCHS} if the model memorised labels"
)
"""What DEFAULT stands for, in words."""

DEFAULTS_FROM_SUMS = (MEAN_OF_ALL_EPOCHS, WITH_INPUTS_FROM_SUMS, WITH_FEATURES)
"""The defaults that running sums can compute. Their sums are all that `memorising.counts_of_sums` needs."""


def is_default(name: object) -> bool:
    """Whether a method is named "default", in upper or lower case."""
    return isinstance(name, str) and name.strip().lower() == DEFAULT


def parse_or_default(name: str | Method | None) -> Method | None:
    """The method of that name, or None for the default, which is known only once there is a run."""
    return None if name is None or is_default(name) else parse(name)


def choose_default(
    context: SampleContext,
    gathering: Gathering,
    *,
    logits_stored: bool,
    can_score: Callable[[Method], bool],
    memorisation: Callable[[], Memorisation],
    beats_held_out: bool = False,
    frozen_features: bool = False,
) -> Method:
    """The method that ranks a run, by rules 1 to 4.

    context: which of inputs, features and held-out predictions are known. logits_stored: False if only running sums
    were kept. can_score: whether what was kept is enough for a method. memorisation: computes which parts of the run
    have memorised labels; it reads the whole run, so it is called only if the choice depends on it. beats_held_out:
    whether the model of the run was measured to predict unseen labels better than the held-out predictions.
    frozen_features: whether the features have not been trained on the labels.
    """

    def gathered(name: str) -> Method:
        return replace(parse(name), gathering=gathering)

    if context.can_hold_out:
        method = gathered(WITH_INPUTS if logits_stored else WITH_INPUTS_FROM_SUMS)
        return with_weight_of_run(method, WEIGHT_OF_BETTER_RUN) if beats_held_out else method
    with_features = gathered(WITH_FEATURES)
    features_usable = "features" in context.points and can_score(with_features)
    if features_usable and frozen_features:
        return with_features
    late_epochs_matter = logits_stored and gathering == "in-sample"
    if not features_usable and not late_epochs_matter:
        return gathered(MEAN_OF_ALL_EPOCHS)
    memorised = memorisation()
    if features_usable and not memorised.features:
        return with_features
    if late_epochs_matter and memorised.late_epochs:
        return gathered(MEAN_OF_EARLY_EPOCHS)
    return gathered(MEAN_OF_ALL_EPOCHS)


def with_weight_of_run(method: Method, weight: float) -> Method:
    """The method with another weight of the run in HeldOut."""
    assert isinstance(method, ComposedMethod)
    steps = tuple(HeldOut(weight) if isinstance(step, HeldOut) else step for step in method.steps)
    return replace(method, steps=steps)
