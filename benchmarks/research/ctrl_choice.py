"""What CTRL's choice among its nine configurations depends on: one table per measure for dynamics that were kept.

    errata bench run --as-published --setting cifar10n-worse --gathering in-sample --seeds 1 --keep-dynamics
    cd results/as-published/work/cifar10n-worse-in-sample/seed0
    python ../../../../../benchmarks/research/ctrl_choice.py cifar10n-worse dynamics

One row per configuration (windows, clusters, selected): its FNR, and silhouette S, A and R of two masks. `budget`: as
many samples as there are errors, those with the most votes. `votes`: CTRL's own operating points, of which the one with
the highest S × A × R is shown (LM: the highest S). The title has the paper's FNR.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from errata.bench.evaluation import published
from errata.core import ctrl, metrics
from errata.core.methods import parse
from errata.core.replay import replay_arrays
from errata.datasets.loading import load_setting
from errata.dynamics.store import Dynamics
from errata.terminal import print_table


def choices(dynamics: Dynamics, wrong: ctrl.Mask, measure: str) -> pd.DataFrame:
    """One row per configuration."""
    (rows,) = replay_arrays(dynamics.replayable(), [parse(f"CTRL-{measure}")])
    curves = ctrl.smoothed(rows["curve"], dynamics.labels)
    votes = ctrl.votes(curves, dynamics.labels)
    errors = int(wrong.sum())
    table = []
    for configuration, counted in zip(ctrl.CONFIGURATIONS, votes, strict=True):
        (filled,) = ctrl.select(curves, counted[None], rows["correct"], [errors], configurations=[configuration])
        points = ctrl.operating_points(counted, configuration)
        best = points[
            int(ctrl.selection_scores(curves, points, rows["correct"], alpha=float(measure != "LM")).argmax())
        ]
        row: dict[str, object] = {
            "configuration": f"{configuration.windows},{configuration.clusters},{configuration.selected}",
            "FNR (%)": f"{100 * metrics.fnr(counted.astype(np.float64), wrong):.2f}",
        }
        for name, mask in (("budget", filled.mask), ("votes", best)):
            silhouette, accuracy, ratio = parts(curves, mask, rows["correct"])
            row |= {f"{name}: noisy": f"{mask.mean():.3f}", "S " + name: f"{silhouette:.3f}"}
            row |= {"A " + name: f"{accuracy:.3f}", "R " + name: f"{ratio:.2f}"}
        table.append(row)
    return pd.DataFrame(table)


def parts(curves: ctrl.Floats, mask: ctrl.Mask, correct: ctrl.Mask) -> tuple[float, float, float]:
    """Silhouette, A and R of a mask."""
    last = curves[:, -1]
    silhouette = float(ctrl.silhouettes(curves, mask[None], ctrl.SILHOUETTE_SAMPLES)[0])
    if mask.all() or not mask.any():
        return silhouette, np.nan, np.nan
    return silhouette, float(correct[~mask].mean()), float(last[mask].mean() / last[~mask].mean())


def main() -> None:
    """Print the tables of a setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting")
    parser.add_argument("dynamics", type=Path)
    arguments = parser.parse_args()
    dynamics, labelled = Dynamics.open(arguments.dynamics), load_setting(arguments.setting)
    wrong = labelled.truth[np.asarray(dynamics.ids)] == 1
    paper = published.fnr_at_noise_rate()
    for measure in ("CE", "JS", "LM", "CPD"):
        printed = paper[(paper["setting"] == arguments.setting) & (paper["method"] == f"CTRL-{measure}")]
        title = f"{arguments.setting}, CTRL-{measure}: the paper's FNR is {printed['fnr_percent'].to_list()} %"
        print_table(choices(dynamics, wrong, measure), title)


if __name__ == "__main__":
    main()
