"""`errata advise`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from errata.cli.app import app
from errata.errors import InputError
from errata.terminal import print_table, write_table

if TYPE_CHECKING:
    import pandas as pd

    from errata.advising import Advice
    from errata.advising.memorising import Memorising
    from errata.dynamics.store import Dynamics

ENDINGS = (".csv", ".md", ".json")


@app.command()
def advise(
    source: Annotated[
        Path,
        typer.Argument(help="A dynamics folder, the folder that `errata find` wrote, or a .npz of logits and labels."),
    ],
    budget: Annotated[
        int | None,
        typer.Option(help="How many samples will be inspected; else as many as labels are estimated wrong.", min=1),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option("--methods", "--method", help="A method to compare with the default; may be repeated."),
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option(help="decisions.csv of labels somebody has looked at, best a random sample (--draw)."),
    ] = None,
    draw: Annotated[
        int | None, typer.Option(help="Write so many samples to audit, drawn at random, to --out; no more.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw, or of the resamples of an audit.", min=0)] = 0,
    top: Annotated[int, typer.Option(help="How many methods to print.", min=0)] = 20,
    out: Annotated[Path | None, typer.Option(help="Write the table here: .csv or .md, or all as .json.")] = None,
) -> None:
    """Compare methods on one run without knowing the truth, and say which to trust; an audit chooses a window too."""
    from errata.advising import advise as advised

    if draw is not None:
        _draw(_read(source), source, draw, seed, out)
        return
    if out is not None:
        _check_out(out, ENDINGS)
    dynamics = _read(source)
    advice = advised(dynamics, methods=methods, budget=budget, audit=audit, seed=seed)
    if out is not None:
        _write(advice, out)
    _show(advice, top)
    if advice.window is not None:
        start, end = advice.window
        print(f"then: errata rank {dynamics.path or source} --method '{advice.method}' --window {start} {end}")
    if out is not None:
        print(f"wrote {out}")


def _read(source: Path) -> "Dynamics":
    from errata.dynamics.files import MANIFEST
    from errata.dynamics.reading import read_npz
    from errata.dynamics.store import Dynamics
    from errata.finding.found import DYNAMICS

    if source.suffix == ".npz":
        return read_npz(source)
    found = source / DYNAMICS
    return Dynamics.open(found if (found / MANIFEST).is_file() else source)


def _draw(dynamics: "Dynamics", source: Path, count: int, seed: int, out: Path | None) -> None:
    from errata.advising import draw

    target = Path("to_audit.csv") if out is None else out
    _check_out(target, (".csv",))
    if target.exists():
        raise InputError(f"{target} is there already, and may hold judgements; name another file with --out")
    table = draw(dynamics, count, seed=seed)
    write_table(table, target)
    print(
        f"wrote {len(table):,} samples in random order to {target}: look at each and turn `skip` into `keep` (the "
        "label is right), `accept` (new_label is right) or `relabel` (write the right one into new_label)"
    )
    print(f"then: errata advise {source} --audit {target}")


def _check_out(out: Path, endings: tuple[str, ...]) -> None:
    if out.suffix not in endings:
        raise InputError(f"{out} must end in {' or '.join(endings)}")
    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} does not exist")


def _write(advice: "Advice", out: Path) -> None:
    from errata.dynamics.files import replace_atomically

    if out.suffix == ".csv":
        write_table(advice.table, out)
        return
    text = json.dumps(advice.as_dict(), indent=1) if out.suffix == ".json" else _markdown(advice)
    replace_atomically(out, lambda file: file.write(f"{text}\n".encode()))


def _markdown(advice: "Advice") -> str:
    lines = ["| method | agreement | stability |", "|---|---:|---:|"]
    lines += [f"| {' | '.join(row)} |" for row in _as_text(advice.table).itertuples(index=False)]
    return "\n".join([*lines, "", advice.verdict, *advice.notes])


def _as_text(table: "pd.DataFrame") -> "pd.DataFrame":
    import pandas as pd

    shares = {
        name: ["–" if pd.isna(share) else f"{share:.1%}" for share in table[name]]
        for name in ("agreement", "stability")
    }
    return table.assign(**shares)


def _show(advice: "Advice", top: int) -> None:
    if top:
        title = f"agreement with most methods, and between the two halves of the run, on the first {advice.budget:,}"
        print_table(_as_text(advice.table.head(top)), title)
    if advice.memorising is not None:
        print(_memorised(advice.memorising))
    if advice.tuned is not None:
        shown = advice.tuned.table.assign(
            **{name: [f"{share:.1%}" for share in advice.tuned.table[name]] for name in ("whole_fnr", "best_fnr")}
        )
        print_table(shown, "share of the audited errors missed, over the whole run and over the best window")
    for note in advice.notes:
        print(note)
    print(advice.verdict)


def _memorised(signs: "Memorising") -> str:
    since = f" (half of these from epoch {signs.suspects_epoch} on)" if signs.suspects_learned > 0 else ""
    return (
        f"At its last epoch the model predicts {signs.learned:.1%} of the given labels (most of them at epoch "
        f"{signs.best_epoch}: {signs.learned_best:.1%}) and {signs.suspects_learned:.1%} of those it should doubt"
        f"{since}."
    )
