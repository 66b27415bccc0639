"""Without a terminal, the progress of a training is printed as lines."""

from errata import terminal
from errata.terminal import TrainingBar


def test_without_a_terminal_a_line_is_printed_at_intervals(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    with TrainingBar() as bar:
        bar.total(40)
        bar.begin("trying cnn9", 40)
        for _ in range(8):
            now[0] += terminal.LOG_SECONDS / 4
            bar.advance(1)
    assert capsys.readouterr().err.splitlines() == [  # 40 epochs of 7.5 s take 5 min
        "trying cnn9: 10% in all, about 5 min left",
        "trying cnn9: 20% in all, about 4 min left",
    ]
