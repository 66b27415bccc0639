"""The README's Python is run as it stands, block after block in one namespace."""

import re
from pathlib import Path

import pandas as pd

README = Path(__file__).parents[1] / "README.md"


def test_every_python_block_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(block, namespace)
    printed = capsys.readouterr().out
    assert "suggested" in printed
    assert "confident joint" in printed
    assert "data:image/webp" in (tmp_path / "errata-out" / "report.html").read_text(encoding="utf-8")
    first = pd.read_csv(tmp_path / "errata-out" / "ranking.csv").head(90)
    assert (first["id"] % 20 == 0).mean() > 0.8  # the digits that the README mislabels


def test_every_picture_and_link_is_there():
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / target).exists(), target


def test_it_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120
