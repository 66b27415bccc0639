"""Long work is not silent where there is no terminal to draw a bar on."""

from errata.cli import shown
from errata.cli.shown import TrainingBar


def test_without_a_terminal_a_line_is_printed_now_and_then(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    with TrainingBar() as bar:
        bar.total(40)
        bar.begin("trying cnn9", 40)
        for _ in range(8):
            now[0] += shown.LOG_SECONDS / 4
            bar.advance(1)
    assert capsys.readouterr().err.splitlines() == [
        "trying cnn9: 4 of 40 epochs in all",
        "trying cnn9: 8 of 40 epochs in all",
    ]
