"""`errata methods`, `errata score`, `errata rank`."""

import contextlib
import math
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from errata.cli.app import ExcelSafe, app
from errata.errors import InputError
from errata.terminal import check_out, intervals, print_table, progress_bar, write_table, write_tables
from errata.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from errata.core.methods import Method
    from errata.dynamics.sharded import ShardedDynamics
    from errata.dynamics.store import Dynamics
    from errata.dynamics.top_samples import ScoreSummary

Source = Annotated[
    str,
    typer.Argument(
        help="A dynamics folder, a folder or URL (s3://bucket/run) of shards, a folder that `errata find` wrote, "
        "a .npz file with `logits` and `labels` (optional: `ids`, `classes`, `swa_logits`), or a .npy file of logits "
        "with --labels. Logits are (epochs, samples, classes) or (samples, classes)."
    ),
]
LabelsFile = Annotated[
    Path | None, typer.Option("--labels", help="The .npy file of the labels, for a .npy file of logits.")
]
WindowOption = Annotated[
    tuple[int, int] | None, typer.Option("--window", help="First and last epoch to use, both included, counted from 0.")
]
BudgetOption = Annotated[
    int | None, typer.Option("--budget", help="Number of samples that will be inspected (used by CTRL).")
]
METHOD_HELP = "`default`, or a method such as MeanProb-LM (`errata methods` lists them)."


@app.command()
def methods(
    paper: Annotated[bool, typer.Option("--paper", help="Only the 25 methods that the paper evaluates.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the table to this .csv or .parquet file.")] = None,
) -> None:
    """List every method, the published detectors it equals, and why the paper does not evaluate it."""
    import pandas as pd

    from errata.core.default import DEFAULT, STANDS_FOR
    from errata.core.methods import methods as catalogue

    table = catalogue()
    if paper:
        table = table[table["in_paper"]]
    else:
        default = {"method": DEFAULT, "known_from": "", "in_paper": False, "left_out": STANDS_FOR}
        table = pd.concat([pd.DataFrame([default]), table], ignore_index=True).reindex(columns=table.columns).fillna("")
    if out is not None:
        check_out(out)
        write_table(table, out)
    shown = table[["method", "known_from", "in_paper", "left_out"]]
    shown = shown.assign(in_paper=shown["in_paper"].map({True: "*", False: ""}))
    shown.columns = ["method", "known from", "paper", "why the paper leaves it out"]
    print_table(shown, f"{len(table)} methods; * marks the {int(table['in_paper'].sum())} rows of the paper's tables")


@app.command()
def score(
    source: Source,
    out: Annotated[
        str, typer.Option(help="The .csv or .parquet file for the scores; for shards, also a URL.")
    ] = "scores.csv",
    labels: LabelsFile = None,
    method: Annotated[
        list[str] | None, typer.Option(help=METHOD_HELP + " May be repeated. Without it, all methods of the paper.")
    ] = None,
    window: WindowOption = None,
    budget: BudgetOption = None,
    top: Annotated[
        int | None,
        typer.Option(help="Write only this many samples, the most suspicious first, by one method (`default`).", min=1),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Score shards on a Ray cluster: its address, or `auto` for the one on this machine."),
    ] = None,
    excel_safe: ExcelSafe = False,
) -> None:
    """Score every sample with one or more methods; a higher score is more suspicious."""
    from errata.core.default import DEFAULT, parse_or_default
    from errata.dynamics.scoring import chosen_methods, score_many
    from errata.dynamics.sharded import ShardedDynamics
    from errata.dynamics.top_samples import ScoreSummary

    check_out(out)
    if top is not None:
        method = method or [DEFAULT]
        if len(method) > 1:
            raise InputError(f"--top orders samples by one method, not by {len(method)}; name one")
    for name in method or ():
        parse_or_default(name)
    dynamics = _read(source, labels)
    viewed = dynamics.window(window)
    if isinstance(dynamics, ShardedDynamics):
        _score_shards(dynamics, method, budget, top, ray, out, excel_safe)
        return
    if ray is not None:
        raise InputError(f"--ray scores shards, and {source} has none; leave it out")
    columns = chosen_methods(viewed, method)
    with progress_bar("scoring", dynamics.samples) as advance:
        table = score_many(viewed, columns.values(), budget=budget, progress=advance)
    table = table[[each.name for each in columns.values()]].set_axis(list(columns), axis=1)
    summary = ScoreSummary(top)
    rows = write_tables(summary.written([table.reset_index()]), out, excel_safe=excel_safe)
    _print_written(dynamics, columns, rows, summary, out)
    if method is None and dynamics.swa_logits is None and dynamics.gathering != "out-of-sample":
        print("left out: SWA-CE and SWA-LM, which need swa_logits (the logits of the weight-averaged model)")


def _score_shards(
    dynamics: "ShardedDynamics",
    names: list[str] | None,
    budget: int | None,
    top: int | None,
    ray: str | None,
    out: str,
    excel_safe: bool,
) -> None:
    """Score a run in shards and write the scores, shard by shard where all methods factor."""
    import pandas as pd

    from errata.core.default import is_default
    from errata.core.factoring import factored
    from errata.core.metrics import budget_count
    from errata.dynamics.places import Place
    from errata.dynamics.ray_shards import ray_mapper
    from errata.dynamics.scoring import chosen_methods
    from errata.dynamics.sharded import score_shards, sharded_results
    from errata.dynamics.top_samples import ScoreSummary
    from errata.ray_cluster import RayCluster

    count = None if budget is None else budget_count(budget, dynamics.samples)
    notes: list[str] = []
    with contextlib.ExitStack() as stack:
        mapper = map if ray is None else ray_mapper(stack.enter_context(RayCluster(ray)), dynamics)
        columns = chosen_methods(dynamics, names, mapper)
        without_factors = {
            column for column, method in columns.items() if factored(method, dynamics.known_context) is None
        }
        left_out = without_factors if names is None and ray is not None else set()
        columns = {column: method for column, method in columns.items() if column not in left_out}
        methods = list({method.name: method for method in columns.values()}.values())
        advance = stack.enter_context(progress_bar("scoring", dynamics.samples))
        if ray is None and without_factors:
            scored = iter([(dynamics.ids, sharded_results(dynamics, methods, count))])
        else:
            # The nodes of a cluster reach the place of the run; others may not be able to write there.
            files = None if ray is None else Place(f"{dynamics.shards[0].place.url}/neighbours-{uuid.uuid4().hex}")
            scored = score_shards(dynamics, methods, mapper, count, files=files, say=notes.append)

        def tables() -> "Iterator[pd.DataFrame]":
            for ids, results in scored:
                scores = {column: results[method.name].scores for column, method in columns.items()}
                yield pd.DataFrame({"id": ids} | scores)

        summary = ScoreSummary(top, count_positive=names is not None and list(map(is_default, names)) == [True])
        rows = write_tables(summary.written(tables(), advance), out, excel_safe=excel_safe)
    _print_written(dynamics, columns, rows, summary, out)
    for note in notes:
        print(note)
    if left_out:
        print(f"left out: {', '.join(sorted(left_out))}, which need all samples on one node")


def _print_written(
    dynamics: "Dynamics", columns: "Mapping[str, Method]", rows: int, summary: "ScoreSummary", out: str
) -> None:
    """What was written, the method that "default" stands for, and the share of wrong labels if it was counted."""
    import pandas as pd

    from errata.core.default import DEFAULT

    if summary.lowest is None:
        print(f"{dynamics}: wrote scores of {counted(len(columns), 'method')} for {rows:,} samples to {out}")
    else:
        (column,) = columns
        print(f"{dynamics}: wrote the {rows:,} samples with {column} of {summary.lowest:.4g} or more to {out}")
    if DEFAULT in columns:
        print(f"{DEFAULT} is {columns[DEFAULT].name} here")
    if summary.rate is not None:
        (method,) = columns.values()
        rate = summary.rate
        row = {"estimate": f"sign of {method.name}", "rate": rate.rate, "low": rate.low, "high": rate.high}
        print(_in_words(pd.DataFrame([row | {"how": rate.how}]))[0])


@app.command()
def rank(
    source: Source,
    out: Annotated[Path | None, typer.Option(help="Write the whole ranking to this .csv or .parquet file.")] = None,
    labels: LabelsFile = None,
    method: Annotated[str, typer.Option(help=METHOD_HELP)] = "default",
    window: WindowOption = None,
    budget: BudgetOption = None,
    top: Annotated[int, typer.Option(help="Number of samples to print.", min=0)] = 20,
    excel_safe: ExcelSafe = False,
) -> None:
    """Rank the samples, most suspicious first, with a suggested label, and estimate the share of wrong labels."""
    from errata.core.default import parse_or_default
    from errata.core.rates import NoiseRate
    from errata.dynamics.ranking import analyse, can_compare, noise_rates, ranking_table, rates_table
    from errata.finding.trust import trust_lines

    if out is not None:
        check_out(out)
    requested = parse_or_default(method)
    dynamics = _read(source, labels)
    compare = requested is None and can_compare(dynamics)
    analysis = analyse(dynamics, requested, window=window, budget=budget, compare=compare)
    table = ranking_table(analysis)
    if out is not None:
        write_table(table, out, excel_safe=excel_safe)
    shown = table.head(top).drop(columns=["agree", "mean_loss"], errors="ignore").round(4)
    print_table(shown, f"the {len(shown)} most suspicious of {len(table):,} samples")
    print(f"ranked by {analysis.method.name}")
    rate = None
    try:
        estimates = rates_table(analysis) if analysis.is_default else noise_rates(dynamics, window=window)
    except InputError as error:  # the ranking does not need them
        print(f"the share of wrong labels cannot be estimated here: {error}")
    else:
        for line in _in_words(estimates):
            print(line)
        if not math.isnan(estimates["rate"][0]):
            rate = NoiseRate(estimates["rate"][0], estimates["low"][0], estimates["high"][0], None, "")
    print("how far to trust this:")
    for line in trust_lines(analysis, table, rate, 0 if rate is None else round(rate.rate * len(table))):
        print(f"- {line}")
    if out is not None:
        print(f"wrote {len(table):,} rows to {out}")


def _in_words(estimates: "pd.DataFrame") -> list[str]:
    """One line per estimate of the noise rate."""
    return [
        f"{row['estimate']}: no estimate here, {row['how']}"
        if math.isnan(row["rate"])
        else f"{row['estimate']}: about {row['rate']:.1%} of the labels are wrong ({interval})"
        for row, interval in zip(estimates.to_dict("records"), intervals(estimates), strict=True)
    ]


def _read(name: str, labels: Path | None) -> "Dynamics":
    from errata.dynamics.files import is_url, load_array
    from errata.dynamics.reading import read_npz
    from errata.dynamics.store import Dynamics

    if is_url(name):
        return Dynamics.open(name)
    source = Path(name)
    if labels is not None and source.suffix != ".npy":
        raise InputError(f"--labels is used only with a .npy file of logits; {source} contains labels")
    if source.is_dir():
        return Dynamics.open(source)
    if source.suffix == ".npz":
        return read_npz(source)
    if source.suffix == ".npy":
        if labels is None:
            raise InputError(f"{source} holds logits only; pass --labels with a .npy file of the labels")
        return Dynamics.from_arrays(load_array(source, mapped=True), load_array(labels))
    if not source.exists():
        raise InputError(f"{source} does not exist")
    raise InputError(f"unsupported file type {source.suffix!r} of {source}; supported: dynamics folders, .npz, .npy")
