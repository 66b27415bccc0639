"""All methods in one table, with the literature each stands for."""

from typing import TYPE_CHECKING

from errata.core.methods import Composed, all_methods

if TYPE_CHECKING:
    import pandas as pd


def methods() -> "pd.DataFrame":
    """Every method at its defaults, a row each.

    Columns: method, aggregation, measure, gathering, known_from (published detectors it stands for), in_paper, and
    left_out (a sentence on why the paper does not evaluate it).
    """
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "method": method.name,
                "aggregation": method.aggregation.name if isinstance(method, Composed) else "CL",
                "measure": method.measure.name if isinstance(method, Composed) else method.variant,
                "gathering": method.gathering,
                "known_from": ", ".join(method.known_from),
                "in_paper": not method.left_out,
                "left_out": method.left_out,
            }
            for method in all_methods()
        ]
    )
