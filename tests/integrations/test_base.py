"""The base class of recorders of batches, without a framework."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax

import errata
from errata.errors import InputError, StoreError
from errata.integrations import DistributedRecorder
from errata.integrations.base import BatchRecorder, log_odds_of, log_of, two_columns

LABELS = np.array([2, 0, 1, 1, 2])


class Shown(BatchRecorder):
    """Records the epochs passed to `show`."""

    def __init__(self, path=None, labels=LABELS, classes=None, **options):
        super().__init__(path, "by hand", labels, {"quiet": True, "classes": classes, **options})

    def show(self, epoch, rows=(0, 1, 2, 3, 4), complete=True):
        self._begin_epoch(epoch)
        self._record_rows(np.array(rows), logits_at(epoch)[list(rows)])
        self._end_epoch(complete=complete)


def logits_at(epoch):
    return np.sin(7 * epoch + np.arange(15, dtype=np.float32)).reshape(5, 3)


@pytest.mark.parametrize("folder", [True, False])
def test_complete_epochs_are_recorded_and_an_interrupted_one_is_left_out(folder, tmp_path):
    recorder = Shown(tmp_path / "run" if folder else None, labels=list("cabbc"), ids=list("vwxyz"))
    recorder.show(0, [3, 1, 0, 4, 2])
    recorder.show(1)
    recorder.show(2, [0, 1], complete=False)
    with pytest.warns(UserWarning, match="epoch 2 was interrupted and is left out"):
        dynamics = recorder.finish(inputs=np.eye(5))
    np.testing.assert_array_equal(dynamics.logits, [logits_at(0), logits_at(1)])
    np.testing.assert_array_equal(dynamics.labels, LABELS)
    assert dynamics.classes == ("a", "b", "c")
    assert dynamics.ids.tolist() == list("vwxyz")
    assert dynamics.settings == {"trainer": "by hand"}
    if folder:
        dynamics.verify()


def test_recording_resumes_where_the_trainer_resumes(tmp_path):
    first = Shown(tmp_path / "run")
    for epoch in range(3):
        first.show(epoch)
    first.finish()
    second = Shown(tmp_path / "run", resume=True)
    for epoch in (1, 2, 3):  # the checkpoint is older than the folder
        second.show(epoch)
    np.testing.assert_array_equal(second.finish().logits, [logits_at(epoch) for epoch in range(4)])
    with pytest.raises(StoreError, match="already holds 4 epochs"):
        Shown(tmp_path / "run").show(0)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(StoreError, match="holds other files"):
        Shown(tmp_path / "other")


def test_a_recorder_records_one_training(tmp_path):
    recorder = Shown()
    with pytest.raises(InputError, match="no batch was recorded"):
        recorder.finish()
    recorder.show(0)
    with pytest.raises(InputError, match="make a new one"):
        recorder.show(0)
    with pytest.raises(InputError, match="3 samples were not recorded in epoch 1"):
        recorder.show(1, [0, 4])
    with pytest.raises(InputError, match="make a new one"):
        recorder.show(2)
    with pytest.raises(InputError, match=r"must have shape \(n, K\)"):
        Shown()._record([0], np.zeros((1, 2, 3)))


@pytest.mark.parametrize("kind", [errata.Recorder, DistributedRecorder])
def test_a_dropped_epoch_leaves_no_trace(kind, tmp_path):
    recorder = kind(tmp_path / "run", labels=LABELS, num_classes=3, quiet=True)
    recorder.drop_epoch()
    for epoch in range(3):
        recorder.update([1, 3], np.ones((2, 3)))
        recorder.drop_epoch()
        recorder.update(range(5), logits_at(epoch))
        recorder.end_epoch()
    recorder.update([2], np.ones((1, 3)))
    recorder.drop_epoch()
    recorder.finish()
    dynamics = errata.Dynamics.open(tmp_path / "run")
    logits = dynamics.logits if kind is errata.Recorder else dynamics.in_memory().logits
    np.testing.assert_array_equal(logits, [logits_at(epoch) for epoch in range(3)])
    dynamics.verify()


def test_running_sums_cannot_drop_an_epoch(tmp_path):
    recorder = Shown(tmp_path / "run", keep="stream")
    recorder.show(0)
    recorder.show(1, [0], complete=False)
    with (
        pytest.warns(UserWarning, match="epoch 1 was interrupted"),
        pytest.raises(InputError, match="running sums cannot discard"),
    ):
        recorder.finish()
    assert errata.Dynamics.open(tmp_path / "run").epochs == 1


FINITE = st.lists(st.floats(-30, 30), min_size=2, max_size=5)


@given(FINITE)
def test_logits_are_recovered_from_probabilities(values):
    logits = np.array([values])
    np.testing.assert_allclose(softmax(log_of(softmax(logits, axis=1)), axis=1), softmax(logits, axis=1), rtol=1e-9)
    np.testing.assert_allclose(log_odds_of(expit(logits)), logits, rtol=1e-9, atol=1e-2)  # 1 - p rounds near 1
    assert np.isfinite(log_of(np.array([0.0, 1.0], dtype=np.float32))).all()
    assert np.isfinite(log_odds_of(np.array([0.0, 1.0], dtype=np.float32))).all()


@given(FINITE)
def test_one_logit_is_that_of_the_second_class(values):
    logits = np.array(values)
    for shape in ((-1,), (-1, 1)):
        pair = two_columns(logits.reshape(shape))
        np.testing.assert_allclose(softmax(pair, axis=1)[:, 1], expit(logits))
    np.testing.assert_array_equal(two_columns(pair), pair)
