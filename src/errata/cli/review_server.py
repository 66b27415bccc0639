"""`errata review`: a server on which several people review the samples of one result."""

import getpass
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from errata.cli.app import app
from errata.cli.certify_command import as_share
from errata.cli.find_command import OUT as FOUND
from errata.core.random_part import EVERY
from errata.errors import InputError
from errata.extras import require
from errata.wording import counted, percent

if TYPE_CHECKING:
    from errata.review.server.review_session import ReviewSession

PORT = 8765
DEFAULTS = {"overlap": "0.0", "random-every": str(EVERY)}
NAME = re.compile(r"[\w.@-](?:[\w .@-]{0,38}[\w.@-])?")


@app.command()
def review(
    found: Annotated[Path, typer.Argument(help="The output folder of `errata find`.")] = FOUND,
    reviewer: Annotated[
        list[str] | None,
        typer.Option(help="The name of a reviewer, who gets a link. Repeat it. Default: those of the last start."),
    ] = None,
    overlap: Annotated[
        str | None,
        typer.Option(
            help="The share of samples that two reviewers judge: 10% or 0.1. Default: that of the last start, or 0%."
        ),
    ] = None,
    random_every: Annotated[
        int | None,
        typer.Option(
            help=f"Draw one in N samples of the queue at random; 1: all. Default: that of the last start, or {EVERY}.",
            min=1,
        ),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(help="postgresql://user@host/name. Default: the file review.sqlite next to the results."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on. Default: this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 chooses a free one.", min=0, max=65535)] = PORT,
    tls_cert: Annotated[Path | None, typer.Option(help="The certificate (PEM) for https.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The private key (PEM) for https.")] = None,
    behind_proxy: Annotated[
        str | None, typer.Option(help="The public address of a proxy that does https: https://labels.example.org.")
    ] = None,
    new_links: Annotated[
        bool, typer.Option("--new-links", help="Replace the links of all reviewers; the old ones end.")
    ] = False,
    retrain: Annotated[
        bool,
        typer.Option("--retrain", help="Let the first reviewer train again on all verified labels, with a button."),
    ] = False,
    load: Annotated[
        list[Path] | None,
        typer.Option("--import", help="A decisions.csv of any reviewers to take over. Repeat it for several."),
    ] = None,
    export_to: Annotated[
        Path | None, typer.Option("--export", help="Write all decisions to this file, and do not start the server.")
    ] = None,
) -> None:
    """Serve the review page to several people, each with a link of their own. Every verdict is stored at once."""
    for module, package in (("starlette", "starlette"), ("uvicorn", "uvicorn"), ("sqlalchemy", "SQLAlchemy")):
        require(module, package, "review", "errata review")
    from errata.review.server import DATABASE
    from errata.review.server.database import ReviewDatabase
    from errata.review.server.review_samples import ReviewSamples
    from errata.review.server.review_session import ReviewSession
    from errata.review.server.serving import ServerAddress, links, listen, serve

    names = _names(reviewer or [])
    given = {
        "overlap": None if overlap is None else str(as_share("--overlap", overlap, ends=True)),
        "random-every": None if random_every is None else str(random_every),
    }
    address = ServerAddress(host, port, tls_cert, tls_key, behind_proxy)
    if not address.is_loopback:
        print(f"errata: warning: everyone who reaches {host} can try the links", file=sys.stderr)
    samples = ReviewSamples(found)
    if retrain and samples.data is None:
        raise InputError("`retrain=` needs the data that were ranked, which are not at their path or have changed")
    storage = ReviewDatabase(database or found / DATABASE)
    try:
        names = names or list(storage.tokens([])) or [_own_name()]
        tokens = storage.tokens(names, renew=new_links)
        options, changes = _kept(storage.settings(), given)
        session = ReviewSession(samples, storage, names, float(options["overlap"]), int(options["random-every"]))
        _import(session, load or [], names[0])
        if export_to is not None:
            _export(session, export_to)
            return
        with listen(address) as listener:
            print(f"{counted(len(samples.ids), 'sample')} of {found}; verdicts are stored in {storage.name}")
            storage.remember(options)
            print(*changes, _in_words(options), sep="\n")
            for name, link in links(address, listener, tokens).items():
                print(f"{name}: {link}")
            print("Each link is personal. Stop the server with Ctrl-C.", flush=True)
            serve(session, tokens, address, listener, retrain)
    finally:
        storage.close()


def _kept(last: dict[str, str], given: dict[str, str | None]) -> tuple[dict[str, str], list[str]]:
    """The options of this start: as given, or else those of the last start. And a sentence for each change."""
    options = {name: value or last.get(name, DEFAULTS[name]) for name, value in given.items()}
    changed = [name for name, value in options.items() if last.get(name, value) != value]
    return options, [
        f"Changed: --{name} is {options[name]}, and was {last[name]} at the last start." for name in changed
    ]


def _in_words(options: dict[str, str]) -> str:
    twice, every = percent(float(options["overlap"])), int(options["random-every"])
    drawn = "All samples are" if every == 1 else f"One in {every:,} samples is"
    return f"{drawn} drawn at random; two reviewers judge {twice} of the samples (--random-every, --overlap)."


def _names(given: list[str]) -> list[str]:
    for name in given:
        if not NAME.fullmatch(name):
            raise InputError(f"the name of a reviewer must be 1 to 40 letters, digits, spaces or . @ - _, not {name!r}")
    if len(set(given)) < len(given):
        raise InputError("each --reviewer needs a name of their own")
    return given


def _own_name() -> str:
    """The name of the user of this machine, or `reviewer`."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        return "reviewer"
    return name if NAME.fullmatch(name) else "reviewer"


def _import(session: "ReviewSession", files: list[Path], reviewer: str) -> None:
    from errata.review.decisions import read_rows
    from errata.review.server.decision_files import import_decisions

    operator = f"command line: {_own_name()}"  # no reviewer has a name with a colon
    for file in files:
        result, _ = import_decisions(session, read_rows(file), reviewer, uploader=operator, of_all=True)
        print(f"{file}: {result}")


def _export(session: "ReviewSession", target: Path) -> None:
    from errata.dynamics.files import replace_atomically
    from errata.review.server.decision_files import decisions_csv

    text = decisions_csv(session)
    replace_atomically(target, lambda file: file.write(text.encode("utf-8", "backslashreplace")))
    print(f"wrote {target}. {session.state.left_out()}".strip())
