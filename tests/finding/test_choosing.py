"""When one model is clearly better than another on the part held out."""

import pytest

from errata.finding.choosing import clear_difference


@pytest.mark.parametrize(("samples", "share"), [(150, 0.02), (10_000, 0.02), (40_000, 0.01)])
def test_the_more_samples_are_held_out_the_smaller_a_clear_difference(samples, share):
    assert clear_difference(samples) == pytest.approx(share)


def test_trials_are_made_on_no_more_than_a_part_of_very_many_samples():
    assert clear_difference(1_000_000) == clear_difference(50_000) == pytest.approx(0.02 / 5**0.5)
