"""`errata find --looks 2` on tables: wrong labels missed by an MLP after one and two passes, and by the usual model.

ERRATA_DATA=... python benchmarks/second_pass.py [--seeds 3]

The training parts of the benchmark's tables, with symmetric noise. FNR is the share of the errors that are not among
the first n samples of the ranking, n being the number of errors. The usual model is boosting or an MLP, whichever
predicts held-out labels better; boosting has no second pass.
"""

import argparse
from dataclasses import replace

import errata
from errata.datasets.loading import load_setting
from errata.finding.find import rank_run
from errata.finding.find_options import FindOptions
from errata.finding.model_training import train_model
from errata.readers import open_data
from errata.terminal import NoProgress

TABLES = ("cardiotocography", "digits", "satellite", "mushroom")
RATES = (0.2, 0.05, 0.01)
MOST = 4_000  # samples of a table


def main() -> None:
    """Print one line per table, noise and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for name in TABLES:
        table = load_setting(f"{name}-symmetric-20").data
        inputs, true = table.train_inputs[:MOST], table.train_labels[:MOST]
        for rate in RATES:
            for seed in range(1, options.seeds + 1):
                noisy = errata.noise.symmetric(true, rate, seed=seed)
                data = open_data(inputs, noisy.labels)
                run = train_model(data, FindOptions("mlp", looks=2, seed=seed), None, NoProgress())
                usual = train_model(data, FindOptions(seed=seed), None, NoProgress())
                ranked = {
                    "MLP, one pass": rank_run(replace(run, look_again=None), 0.0),
                    "MLP, two passes": rank_run(run, 0.0),
                    "usual model": rank_run(usual, 0.0),
                }
                missed = {
                    title: errata.metrics.fnr(one.ranking.sort_values("id")["score"].to_numpy(), noisy.truth)
                    for title, one in ranked.items()
                }
                words = ", ".join(f"{title} {share:.1%}" for title, share in missed.items())
                passes = ranked["MLP, two passes"].summary["passes"]
                errors = f"{noisy.truth.sum()} errors, {passes} passes, {usual.model}"
                print(f"{name}, {rate:.0%} wrong, seed {seed}, {errors}: {words}", flush=True)


if __name__ == "__main__":
    main()
