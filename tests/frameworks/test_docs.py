"""Runs the Python of docs/integrations.md unchanged: before, after, before, after ..."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_block_runs(number, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS[number], {"__name__": "__main__"})
    after = number % 2 == 1
    assert ("suggested" in capsys.readouterr().out) == after
    assert ("errata" in BLOCKS[number]) == after
