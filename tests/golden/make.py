"""Make the stored sample of rankings that tests/test_golden.py compares with: python tests/golden/make.py.

Run it only when a change is meant to alter rankings, and say so in the changelog.
"""

from pathlib import Path

import numpy as np

import errata

FOLDER = Path(__file__).parent
RUNS = (
    "plain",
    "inputs",
    "features",
    "both",
    "held-out",
    "short",
    "memorising",
    "memorising-features",
    "late-features",
)


def recorded_run(kind):
    """Dynamics of one of RUNS, from the stored logits of a network trained on digits with 20 % wrong labels."""
    name = "memorising" if kind.startswith("memorising") else "learning"
    with np.load(FOLDER / f"{name}.npz") as stored:
        logits, labels = stored["logits"].astype(np.float32), stored["labels"].astype(np.int64)
        inputs, features = stored["inputs"].astype(np.float32), stored["features"].astype(np.float32)
    around = {}
    if kind in ("inputs", "both"):
        around["inputs"] = inputs
        around["held_out"] = np.load(FOLDER / "held_out.npy")
    if kind in ("features", "both", "memorising-features", "late-features"):
        around["features"] = features
    if kind == "late-features":  # as a model that fits all labels in its last quarter
        logits[18:, np.arange(len(labels)), labels] += 12
    if kind == "short":
        logits = logits[-1:]
    gathering = "out-of-sample" if kind == "held-out" else "in-sample"
    return errata.Dynamics.from_arrays(logits, labels, gathering=gathering, **around)


def streamed_run(kind):
    """The same run as running sums."""
    whole = recorded_run(kind)
    recorder = errata.Recorder(labels=whole.labels, num_classes=whole.num_classes, keep="stream", quiet=True)
    for epoch in np.asarray(whole.logits):
        recorder.update(np.arange(len(whole.labels)), epoch)
        recorder.end_epoch()
    around = {} if whole.features is None else {"features": whole.features}
    return recorder.finish(**around)


def tables():
    """Every stored table by name: scores of all methods, the default ranking, what find says, rates."""
    for kind in RUNS:
        run = recorded_run(kind)
        known = errata.methods()
        fits = known[known["gathering"] == run.gathering]["method"]
        missing = ["SWA"]
        if run.inputs is None and run.features is None:
            missing.append("kNN")
        if run.held_out is None:
            missing.append("HeldOut")
        names = fits[~fits.str.contains("|".join(missing))]
        scores = errata.score_many(run, list(names)).reset_index()
        yield f"{kind}-scores", scores.iloc[::4].melt("id", var_name="method", value_name="score")
        yield f"{kind}-rank", errata.rank(run)
        yield f"{kind}-rates", errata.noise_rates(run)[["kind", "rate", "low", "high"]]
        yield f"{kind}-find", errata.find(run).ranking
    for kind in ("plain", "features", "memorising-features"):
        yield f"{kind}-streamed-rank", errata.rank(streamed_run(kind))


def train():
    """Store the logits of two small networks on digits: one that learns, one that ends by memorising the labels."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    images, true = load_digits(return_X_y=True)
    inputs = images[:360] / 16
    rng = np.random.default_rng(0)
    wrong = rng.random(360) < 0.2
    labels = np.where(wrong, (true[:360] + rng.integers(1, 10, 360)) % 10, true[:360])
    for name, width, rate, epochs in (
        ("learning", 32, 1e-3, 24),
        ("memorising", 256, 1e-2, 24),
        ("late", 256, 1e-3, 60),
    ):
        network = MLPClassifier((width,), learning_rate_init=rate, batch_size=16, random_state=0)
        logits = []
        for _ in range(epochs):
            network.partial_fit(inputs, labels, classes=np.arange(10))
            hidden = np.maximum(inputs @ network.coefs_[0] + network.intercepts_[0], 0)
            logits.append(hidden @ network.coefs_[1] + network.intercepts_[1])
        np.savez_compressed(
            FOLDER / f"{name}.npz",
            logits=np.array(logits, dtype=np.float16),
            labels=labels.astype(np.int16),
            inputs=inputs.astype(np.float16),
            features=hidden[:, :32].astype(np.float16),
        )


def hold_out():
    """Store the predictions of labels that are held out: another processor or scikit-learn trains other models."""
    from errata.core.pooling import held_out_pool
    from errata.core.sample_context import SampleContext

    with np.load(FOLDER / "learning.npz") as stored:
        inputs, labels = stored["inputs"].astype(np.float32), stored["labels"].astype(np.int64)
    np.save(FOLDER / "held_out.npy", held_out_pool(labels, 10, SampleContext(inputs=inputs)).astype(np.float32))


def stored_form(table):
    """The table with labels as text, as Parquet wants columns of one type."""
    return table.astype({name: str for name in ("label", "suggested") if name in table})


if __name__ == "__main__":
    import pandas as pd

    if not (FOLDER / "learning.npz").exists():
        train()
    if not (FOLDER / "held_out.npy").exists():
        hold_out()
    stored = [stored_form(table).assign(table=name) for name, table in tables()]
    pd.concat(stored, ignore_index=True).to_parquet(FOLDER / "rankings.parquet", compression="zstd")
