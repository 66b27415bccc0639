"""`errata certify`, and the part of `errata apply` that rests on random checks."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from errata.cli.app import app
from errata.cli.find_command import OUT as FOUND
from errata.errors import InputError
from errata.terminal import print_table
from errata.wording import counted, percent

if TYPE_CHECKING:
    from errata.review.decisions import Decisions


@app.command()
def certify(
    found: Annotated[Path, typer.Argument(help="The output folder of `errata find`.")] = FOUND,
    decisions: Annotated[
        list[Path] | None,
        typer.Option(
            help="The decisions.csv of the review; repeat it for several. Default: the verdicts of `errata review`."
        ),
    ] = None,
    recall: Annotated[str, typer.Option(help="The share of the wrong labels to find.")] = "95%",
    confidence: Annotated[str, typer.Option(help="How certain the statements are.")] = "95%",
    draw: Annotated[
        int | None, typer.Option(help="Draw N more random samples to judge, into random-part.csv in FOUND.", min=1)
    ] = None,
    first: Annotated[
        int | None, typer.Option(help="With --draw: only from the first K of the ranking, for `apply`.", min=1)
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(help="The database of `errata review`: postgresql://user@host/name. Default: that in FOUND."),
    ] = None,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="The number of random checks was fixed before: sharper, for one look only.")
    ] = False,
) -> None:
    """Say how many labels are wrong, and whether enough of them are found, from verdicts on random samples."""
    from errata.review.certificates import certify as certify_review
    from errata.review.certificates import review_database

    if first is not None and draw is None:
        raise InputError("--first works only with --draw")
    if draw is not None:
        if not decisions and (database or review_database(found)):
            raise InputError(
                f"{found} has the database of errata review, which draws random samples itself: all of them are random "
                f"with --random-every 1. To draw here, write its verdicts to a file (errata review {found} --export "
                "decisions.csv) and pass that with --decisions"
            )
        _draw(found, decisions or [], draw, first)
        return
    shares = as_share("--recall", recall), as_share("--confidence", confidence)
    print(certify_review(found, decisions or None, *shares, fixed=fixed, database=database))


def _draw(folder: Path, decisions: list[Path], count: int, first: int | None) -> None:
    """Draw samples, add them to random-part.csv and list them."""
    from errata.finding.found import Found
    from errata.review.certificates import as_decisions
    from errata.review.random_draws import FILE, draw_more, review_steps, write_steps

    found = Found.open(folder)
    known = set(map(str, found.ranking["id"].tolist()))
    judged = [decision.id for decision in as_decisions(decisions)]
    if not known.issuperset(judged):
        raise InputError("the decisions name samples that the ranking does not have: they belong to other data")
    table = write_steps(folder, found, draw_more(found, review_steps(folder, found, judged), judged, count, first))
    print_table(
        table.tail(count)[["id", "label", "suggested"]], f"{counted(count, 'random sample')} to judge, in this order"
    )
    print(
        f"Wrote them to {folder / FILE}. Judge all of them, also easy ones: search their ids in {folder}/report.html."
    )
    print(f"Then: errata certify {folder} --decisions decisions.csv")


def safe_decisions(paths: list[Path] | None, limit: float, folder: Path, database: str | None) -> "Decisions":
    """The decisions and the suggestions that may be accepted unseen; says how many these are."""
    from errata.finding.found import Found
    from errata.review.certificates import as_decisions, review_database, server_review, with_safe_suggestions
    from errata.review.random_draws import ReviewStep, review_steps

    if paths and database:
        raise InputError("pass either --decisions or --database, not both")
    address = None if paths else database or review_database(folder)
    if not paths and address is None:
        raise InputError(
            "--at-most-wrong needs the verdicts on random samples. Pass them with --decisions FILE, or with --database "
            "postgresql://user@host/name for those of errata review."
        )
    found = Found.open(folder)
    if address is not None:
        review = server_review(found, address)
        if review.left_out:
            print(review.left_out)
        ids, judged = list(map(str, found.ranking["id"].tolist())), review.decisions
        in_order = zip(review.verdicts.rows.tolist(), review.verdicts.at_random.tolist(), strict=True)
        steps = [ReviewStep(ids[row], chosen=not at_random) for row, at_random in in_order]
    else:
        judged = as_decisions(paths)
        steps = review_steps(folder, found, [decision.id for decision in judged])
    decisions, safe = with_safe_suggestions(found, judged, steps, limit, str(folder))
    print(
        f"accepted unseen: the suggested labels of {counted(safe.changed, 'sample')} among the first {safe.length:,}. "
        f"At most {percent(limit)} of these are wrong, with {percent(safe.confidence)} confidence "
        f"({safe.wrong_changes:,} of {counted(safe.checks, 'random check')} found a wrong suggestion)."
    )
    return decisions


def as_share(option: str, text: str, *, ends: bool = False) -> float:
    """A share between 0 and 1 from `5%`, `5 %` or `0.05`. ends: whether it may be 0 or 1."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*(%?)", text.strip())
    share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not (0 < share < 1 or (ends and share in (0, 1))):
        limits = ", from 0% to 100%" if ends else ""
        raise InputError(f"{option} must be a share such as 5% or 0.05{limits}, not {text!r}")
    return share
