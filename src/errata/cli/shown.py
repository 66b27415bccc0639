"""What several commands print alike."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def intervals(rates: "pd.DataFrame") -> list[str]:
    """A text a row: low to high, in percent."""
    return [f"{low:.1%} to {high:.1%}" for low, high in zip(rates["low"], rates["high"], strict=True)]
