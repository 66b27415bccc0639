"""The page of all commands, from the commands themselves."""

from typing import Any

BEGIN = """# Command line

Every command prints this with `--help`. Brackets after the meaning of an option hold its default. Errors are one
sentence on standard error, with exit code 2: [all messages](errors.md). A command that is typed wrongly prints its
usage and the reason in several lines, also with exit code 2.

"""


def page() -> str:
    """The page in Markdown."""
    import typer

    import errata.cli  # registers the commands
    from errata.cli.app import app

    assert errata.cli.main
    return BEGIN + "\n".join(_section("errata", typer.main.get_command(app), 1))


def _section(name: str, command: Any, level: int) -> list[str]:
    """The lines about a command and the commands below it. level 1: `errata` itself, which has no heading."""
    lines = [f"{'#' * level} `{name}`", ""] if level > 1 else []
    lines += [_plain(command.help), ""]
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    if shown:
        lines += ["```text", _usage(name, shown), "```", "", "| argument or option | meaning |", "|---|---|"]
        lines += [f"| {_names(parameter)} | {_meaning(parameter)} |" for parameter in shown]
        lines.append("")
    for below in command.list_commands(None) if hasattr(command, "list_commands") else ():
        lines += _section(f"{name} {below}", command.commands[below], level + 1)
    return lines


def _plain(text: str | None) -> str:
    return " ".join((text or "").replace("\b", "").split())


def _usage(name: str, parameters: list[Any]) -> str:
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    words = [_argument(parameter) if parameter.required else f"[{_argument(parameter)}]" for parameter in arguments]
    options = len(arguments) < len(parameters)
    return " ".join([name, *words, *(["[OPTIONS]"] if options else [])])


def _argument(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name).upper() + (" ..." if parameter.nargs == -1 else "")


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_argument(parameter)}`"
    value = "" if parameter.is_flag else f" {str(parameter.metavar or parameter.name.removesuffix('_column')).upper()}"
    return ", ".join(f"`{name}{value}`" for name in [*parameter.opts, *parameter.secondary_opts])


def _meaning(parameter: Any) -> str:
    text = _plain(parameter.help).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    default = parameter.default
    if parameter.param_type_name == "option" and parameter.required:
        return f"{text} Required."
    if default in (None, False, (), [], "") or callable(default) or getattr(parameter, "is_flag", False):
        return text
    return f"{text} [`{getattr(default, 'value', default)}`]"
