"""Recorders are imported from `errata.integrations`, and other packages can add theirs."""

import subprocess
import sys

import pytest

import errata.integrations
from errata.dynamics.recorder import Recorder


def test_a_recorder_is_imported_when_it_is_used_and_not_before():
    code = (
        "import sys; import errata.integrations as i; assert 'KerasRecorder' in dir(i) and 'torch' not in sys.modules;"
        "from errata.integrations import LightGBMRecorder as r; print(r.__module__, 'torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["errata.integrations.lightgbm", "False"]


@pytest.mark.parametrize("name", ["DistributedRecorder", "SklearnRecorder", "SklearnStageRecorder", "XGBoostRecorder"])
def test_a_listed_name_is_a_class_of_that_name(name):
    assert name in errata.integrations.__all__
    assert getattr(errata.integrations, name).__name__ == name


def test_a_recorder_of_another_package_appears_beside_the_others(tmp_path, monkeypatch):
    about = tmp_path / "mytrainer-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mytrainer\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[errata.integrations]\nMyRecorder = mytrainer:MyRecorder\n")
    (tmp_path / "mytrainer.py").write_text("from errata import Recorder\n\nclass MyRecorder(Recorder):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "MyRecorder" in dir(errata.integrations)
    assert issubclass(errata.integrations.MyRecorder, Recorder)


def test_an_unknown_name_is_refused_with_those_there_are():
    with pytest.raises(AttributeError, match=r"no attribute 'JaxRecorder'; it has .*KerasRecorder"):
        errata.integrations.JaxRecorder  # noqa: B018
