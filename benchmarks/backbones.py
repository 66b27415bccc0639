"""Frozen features of a pretrained backbone: wrong labels missed among few images, and seconds for photographs.

ERRATA_DATA=... python benchmarks/backbones.py errors [--backbone lite0] [--sides 128 160 224] [--seeds 3]
ERRATA_DATA=... python benchmarks/backbones.py passes [--backbone lite0] [--seeds 3] [--always]
ERRATA_DATA=... python benchmarks/backbones.py fine-tuned [--sizes 500] [--looks 2] [--seeds 1]
python benchmarks/backbones.py photographs [--backbone lite0] [--images 2000]

errors: images of CIFAR-10, symmetric noise, mean FNR over seeds; each seed has other images and other wrong labels.
ImageNet, on which the backbones were trained, contains the classes of CIFAR-10.
passes: the same images, and each 2,000 of them in four parts of 500, with seven kinds of noise; what `errata find`
misses after one and after two passes, trained on the features; variants of its method, after one pass; and cleanlab on
five folds of a logistic regression on the same features. With --always, the second pass is trained even if few labels
seem to be wrong.
fine-tuned: the same images and symmetric noise; the backbone is fine-tuned by `errata find --model fine-tuned`, and its
run is ranked as `errata find` does, with held-out predictions, and as `errata bench` does, with neighbours in features.
photographs: JPEG files of 256 × 256 pixels are generated, then decoded, and features and a head are computed.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import errata
from errata.core.default import WITH_FEATURES
from errata.core.neighbours import nearest
from errata.datasets.loading import load_setting
from errata.dynamics import ranking
from errata.dynamics.ranking import RunAnalysis, analyse, noise_rates, with_second_pass
from errata.finding.candidates import candidates_for
from errata.finding.find import rank_run
from errata.finding.find_options import FindOptions
from errata.finding.frozen_features import frozen_features
from errata.finding.model_training import train_model
from errata.finding.pretrained import FixedFeatures, unit_rows
from errata.readers import UserData, open_data
from errata.terminal import NoProgress
from errata.training.backbones import Backbone, open_backbone
from errata.training.recipes import Recipe
from errata.training.second_pass import second_pass, second_recipe
from generated_images import picture, save

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
CLASSES, FOLDS = 10, 5
SIZES, RATES = (2000, 500), (0.2, 0.05)
NOISES = {
    "20 % wrong": partial(errata.noise.symmetric, rate=0.2),
    "5 % wrong": partial(errata.noise.symmetric, rate=0.05),
    "1 % wrong": partial(errata.noise.symmetric, rate=0.01),
    "30 % pairflip": partial(errata.noise.pairflip, rate=0.3),
    "2 % wrong": partial(errata.noise.symmetric, rate=0.02),
    "10 % wrong": partial(errata.noise.symmetric, rate=0.1),
    "5 % pairflip": partial(errata.noise.pairflip, rate=0.05),
}
SYMMETRIC = ("20 % wrong", "5 % wrong", "1 % wrong")
FIRST_NOISE_SEED = 100
VARIANTS = {
    "a = 0": "Unmixed-HeldOut(a=0)-EarlyProb-LM",
    "a = 0.2": "Unmixed-HeldOut(a=0.2)-EarlyProb-LM",
    "a = 0.7": "Unmixed-HeldOut(a=0.7)-EarlyProb-LM",
    "a = 1": "Unmixed-HeldOut(a=1)-EarlyProb-LM",
    "not unmixed": "HeldOut-EarlyProb-LM",
}
SIDE = 256


def neighbour_votes(features: NDArray[np.float32], labels: Labels, k: int) -> Floats:
    """Log-probabilities (N, K): labels of the k nearest by cosine, without the sample itself; one vote is for all."""
    near = labels[nearest(features, k, "cosine").index]
    votes = (near[:, :, None] == np.arange(CLASSES)).sum(axis=1)
    return np.log((votes + 1 / CLASSES) / (k + 1))


def unit(features: NDArray[np.float32]) -> Floats:
    """Centred features (N, D) of length 1."""
    centred = features - features.mean(axis=0)
    return centred / np.linalg.norm(centred, axis=1, keepdims=True)


def scaled(features: NDArray[np.float32]) -> Floats:
    """Features (N, D) of mean 0 and deviation 1, divided by the root of D."""
    return (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-6) / np.sqrt(features.shape[1])


def held_out(features: Floats, labels: Labels) -> Floats:
    """Log-probabilities (N, K) of a logistic regression that did not see the sample."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold

    logits = np.zeros((len(labels), CLASSES))
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(features, labels):
        model = LogisticRegression(max_iter=200).fit(features[train], labels[train])
        logits[test] = np.log(np.maximum(model.predict_proba(features[test]), 1e-12))
    return logits


def heads(features: NDArray[np.float32], labels: Labels) -> dict[str, Floats]:
    """Log-probabilities (N, K) by the name of the head; a blend is the geometric mean of both."""
    votes = {k: neighbour_votes(features, labels, k) for k in (10, 20, 30, 50)}
    regressions = {"scaled": held_out(scaled(features), labels), "unit": held_out(unit(features), labels)}
    return {
        **{f"kNN {k}": logits for k, logits in votes.items()},
        **{f"regression, {name}": logits for name, logits in regressions.items()},
        **{f"kNN 50 and regression, {name}": (votes[50] + logits) / 2 for name, logits in regressions.items()},
    }


def with_side(backbone: Backbone, side: int, centre: float | None) -> Backbone:
    """The same network for images of another side."""
    return replace(backbone, preprocessing=replace(backbone.preprocessing, side=side, centre=centre))


def errors(backbone: Backbone, seeds: int) -> Iterator[tuple[str, dict[str, float]]]:
    """The mean FNR of each head, by the number of images and the noise."""
    data = load_setting("cifar10-symmetric-20").data
    missed: dict[str, dict[str, list[float]]] = {}
    for seed in range(1, seeds + 1):
        rows = np.random.default_rng(seed).permutation(len(data.train_inputs))[: max(SIZES)]
        pixels, true = data.train_inputs[rows], data.train_labels[rows]
        features = frozen_features(open_data(pixels, true), backbone, "auto", None, NoProgress())
        for size in SIZES:
            for rate in RATES:
                noisy = errata.noise.symmetric(true[:size], rate, seed=seed)
                cell = missed.setdefault(f"{size:,} images, symmetric {rate:.0%}", {})
                for name, logits in heads(features[:size], noisy.labels).items():
                    scores = errata.score(logits[None], noisy.labels, "Last-LM")
                    cell.setdefault(name, []).append(errata.metrics.fnr(scores, noisy.truth))
    for name, cell in missed.items():
        yield name, {head: float(np.mean(values)) for head, values in cell.items()}


def draws(backbone: Backbone, seeds: int) -> Iterator[tuple[int, NDArray[np.uint8], NDArray[np.float32], Labels]]:
    """Number, pixels, features and true labels of each draw: 2,000 images per seed, and the same in parts of 500."""
    data = load_setting("cifar10-symmetric-20").data
    for seed in range(seeds):
        rows = np.random.default_rng(seed + 1).permutation(len(data.train_inputs))[: max(SIZES)]
        pixels, true = data.train_inputs[rows], data.train_labels[rows]
        features = frozen_features(open_data(pixels, true), backbone, "auto", None, NoProgress())
        for size in SIZES:
            parts = max(SIZES) // size
            for part in range(parts):
                some = slice(part * size, (part + 1) * size)
                yield seed * parts + part, pixels[some], features[some], true[some]


def passes(backbone: Backbone, seeds: int) -> Iterator[str]:
    """A line per draw and noise with the FNR after one and two passes and of cleanlab, then the means of all draws."""
    from cleanlab.rank import get_label_quality_scores

    missed: dict[str, list[dict[str, float]]] = {}
    for number, pixels, features, true in draws(backbone, seeds):
        matrix = FixedFeatures(unit_rows(features))
        for noise, make in NOISES.items():
            noisy = make(true, seed=FIRST_NOISE_SEED + number)
            opened = open_data(pixels, noisy.labels)
            embedded = replace(opened, fit_features=matrix, backbone=backbone.name)
            run = train_model(embedded, FindOptions(looks=2), None, NoProgress())
            found = {"one pass": rank_run(replace(run, look_again=None), 0.0), "two passes": rank_run(run, 0.0)}
            joint = noise_rates(run.dynamics).set_index("kind").rate["confident joint"]
            scores = {name: one.ranking.sort_values("id")["score"].to_numpy() for name, one in found.items()}
            scores |= {name: errata.score(run.dynamics, method) for name, method in VARIANTS.items()}
            probabilities = np.exp(held_out(unit(features), noisy.labels))
            scores["cleanlab"] = -get_label_quality_scores(noisy.labels, probabilities)
            fnr = {name: errata.metrics.fnr(values, noisy.truth) for name, values in scores.items()}
            cell = f"{len(true):,} images, {noise}"
            missed.setdefault(cell, []).append(fnr)
            passed = f"{joint:.1%} by the confident joint, {found['two passes'].summary['passes']} passes"
            yield f"{cell}, draw {number}, {noisy.truth.sum()} errors, {passed}: {in_words(fnr)}"
    for cell, every in missed.items():
        means = {name: float(np.mean([fnr[name] for fnr in every])) for name in every[0]}
        yield f"{cell}, mean of {len(every)} draws: {in_words(means)}"


def fine_tuned(backbone: Backbone, sizes: Sequence[int], seeds: int, looks: int) -> Iterator[str]:
    """A line per size, draw and noise with the FNR of the same fine-tuned run, ranked in several ways."""
    data = load_setting("cifar10-symmetric-20").data
    for size, seed in product(sizes, range(seeds)):
        rows = np.random.default_rng(seed + 1).permutation(len(data.train_inputs))[:size]
        pixels, true = data.train_inputs[rows], data.train_labels[rows]
        features = frozen_features(open_data(pixels, true), backbone, "cpu", None, NoProgress())
        matrix = FixedFeatures(unit_rows(features))
        for noise in SYMMETRIC:
            noisy = NOISES[noise](true, seed=FIRST_NOISE_SEED + seed)
            embedded = replace(open_data(pixels, noisy.labels), fit_features=matrix, backbone=backbone.name)
            options = FindOptions(model="fine-tuned", device="cpu", looks=1)
            run = train_model(embedded, options, None, NoProgress(), backbone).dynamics
            with_neighbours = replace(run, inputs=None, held_out=None, features=features)
            first = {"held-out": analyse(run), "neighbours": analyse(with_neighbours, WITH_FEATURES)}
            scores = {f"one pass, {name}": one.result.scores for name, one in first.items()}
            scores["one pass, MeanProb-LM"] = errata.score(run, "MeanProb-LM")
            if looks == 2:
                second = fine_tuned_again(embedded, backbone, first["held-out"])
                ranked = {
                    "held-out": with_second_pass(first["held-out"], replace(second, features=None)),
                    "neighbours in its own features": with_second_pass(first["neighbours"], second),
                    "neighbours in frozen features": with_second_pass(
                        first["neighbours"], replace(second, features=None)
                    ),
                }
                scores |= {f"two passes, {name}": one.result.scores for name, one in ranked.items()}
            fnr = {name: errata.metrics.fnr(values, noisy.truth) for name, values in scores.items()}
            method = first["held-out"].method.name
            yield f"{size:,} images, {noise}, draw {seed}, {noisy.truth.sum()} errors, {method}: {in_words(fnr)}"


def fine_tuned_again(data: UserData, backbone: Backbone, first: RunAnalysis) -> errata.Dynamics:
    """The second pass of `errata find`, which also records the features of its own model."""
    (chosen,) = candidates_for(data, "fine-tuned", 0, "cpu", backbone)
    assert isinstance(chosen.recipe, Recipe)
    assert first.log_probabilities is not None
    recipe = second_recipe(chosen.recipe, data.samples, pretrained=True)
    how = {"seed": 0, "features": True, "device": "cpu"}
    return second_pass(chosen.inputs, data.labels, first.log_probabilities, chosen.model, recipe, **how)


def in_words(missed: dict[str, float]) -> str:
    """`one pass 9.9%, cleanlab 10.5%`."""
    return ", ".join(f"{name} {share:.1%}" for name, share in missed.items())


def photographs(backbone: Backbone, images: int) -> None:
    """Print the seconds of each step for a folder of generated JPEG files."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(images):
            label = number % CLASSES
            save(picture(label, CLASSES, SIDE, SIDE, rng), Path(folder, str(label), f"{number}.jpg"))
        data, opening = timed_call(lambda: open_data(folder))
        features, computing = timed_call(lambda: frozen_features(data, backbone, "auto", None, NoProgress()))
        _, training = timed_call(lambda: heads(features, data.labels))
    print(f"{images:,} photographs of {SIDE} × {SIDE} pixels, {backbone.name} at {backbone.preprocessing.side} pixels")
    print(f"read and checked in {opening}\nfeatures in {computing}\nneighbours and heads in {training}")


def timed_call(function: Callable[[], Any]) -> tuple[Any, str]:
    """The result of a call, and its time: seconds, and seconds of all processors together."""
    started, before = time.perf_counter(), processor_seconds()
    result = function()
    return result, f"{time.perf_counter() - started:.0f} s ({processor_seconds() - before:.0f} s of processor time)"


def processor_seconds() -> float:
    """Of this process and of its finished worker processes."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    """Parse the command line and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["errors", "passes", "fine-tuned", "photographs"])
    parser.add_argument("--backbone", default="lite0")
    parser.add_argument("--sides", type=int, nargs="*", default=[])
    parser.add_argument("--centre", type=float, help="the part of the shorter side that is used; 0: the whole image")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--sizes", type=int, nargs="*", default=[500])
    parser.add_argument("--looks", type=int, choices=[1, 2], default=2)
    parser.add_argument("--always", action="store_true")
    options = parser.parse_args()
    if options.always:
        ranking.FEWEST_WRONG = 0.0
    backbone = open_backbone(options.backbone)
    if options.what == "photographs":
        photographs(backbone, options.images)
        return
    if options.what in ("passes", "fine-tuned"):
        for line in (
            passes(backbone, options.seeds)
            if options.what == "passes"
            else fine_tuned(backbone, options.sizes, options.seeds, options.looks)
        ):
            print(line, flush=True)
        return
    prepare = backbone.preprocessing
    centre = prepare.centre if options.centre is None else options.centre or None
    for side in options.sides or [prepare.side]:
        for name, cell in errors(with_side(backbone, side, centre), options.seeds):
            print(f"{backbone.name} at {side} pixels, {name}: {in_words(cell)}", flush=True)


if __name__ == "__main__":
    main()
