"""Runs the Python of docs/boosting.md unchanged."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "boosting.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(3))
def test_every_block_runs(number, tmp_path, monkeypatch, capsys):
    assert len(BLOCKS) == 3
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS[number], {})
    printed = capsys.readouterr().out
    assert "suggested" in printed or "10 classes" in printed
