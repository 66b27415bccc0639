"""The hot loops of confident learning, compiled; `confident_learning` says what they are for."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.jit import compiled

NO_CLASS = -1
SUM_TOLERANCE = 1e-3
ROUNDING = 1e-6


@compiled
def rows_by_class(labels: NDArray[Any], starts: NDArray[np.int64], order: NDArray[Any]) -> None:
    """Fill `order` (N,) with the rows of class 0, then of class 1, ..., each ascending; class k begins at starts[k]."""
    place = starts.copy()
    for row in range(len(labels)):
        label = labels[row]
        order[place[label]] = row
        place[label] += 1


@compiled
def compensated_sum(values: NDArray[Any]) -> tuple[float, float]:
    """The sum of `values` as two floats, rounded and remainder: exact to about 100 bits, so in any order of rows."""
    total = 0.0
    remainder = 0.0
    for value in values:
        larger = total + value
        remainder += (total - larger) + value if total >= value else (value - larger) + total
        total = larger
    return total, remainder


@compiled
def read_rows(
    probabilities: NDArray[Any],
    labels: NDArray[Any],
    thresholds: NDArray[np.float64],
    slack: float,
    confident: NDArray[Any],
    disagrees: NDArray[np.bool_],
) -> int:
    """The confident class of every row, and whether its arg max is another class than its label.

    A row with one class at or above that class's threshold takes it, one with several takes its arg max, one with none
    takes NO_CLASS. `slack` is added to the label's probability before the arg max is compared with the label.
    Returns the first row that is no probability distribution, or -1.
    """
    num_classes = probabilities.shape[1]
    for row in range(len(probabilities)):
        total = 0.0
        lowest = probabilities[row, 0]
        highest = probabilities[row, 0]
        arg_max = 0
        reached = 0
        reached_last = NO_CLASS
        for k in range(num_classes):
            probability = probabilities[row, k]
            total += probability
            if probability < lowest:
                lowest = probability
            if probability > highest:
                highest = probability
                arg_max = k
            if probability >= thresholds[k]:
                reached += 1
                reached_last = k
        if not (abs(total - 1) <= SUM_TOLERANCE and lowest >= -ROUNDING and highest <= 1 + ROUNDING):
            return row
        confident[row] = arg_max if reached > 1 else reached_last
        label = labels[row]
        own = probabilities[row, label] + slack
        disagrees[row] = arg_max != label and not (own > highest or (own == highest and label < arg_max))
    return -1


@compiled
def count_pairs(labels: NDArray[Any], confident: NDArray[Any], counts: NDArray[np.int64]) -> None:
    """Add every sample that has a confident class to counts[label, confident class]."""
    for row in range(len(labels)):
        if confident[row] != NO_CLASS:
            counts[labels[row], confident[row]] += 1


@compiled
def nth_largest(values: NDArray[Any], n: int) -> Any:
    """The n-th largest of `values` (n from 1), which are reordered on the way (Hoare's quickselect)."""
    target = n - 1
    left = 0
    right = len(values) - 1
    while left < right:
        middle = (left + right) // 2
        a, b, c = values[left], values[middle], values[right]
        pivot = max(min(a, b), min(max(a, b), c))
        i = left
        j = right
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if target <= j:
            right = j
        elif target >= i:
            left = i
        else:
            break
    return values[target]


@compiled
def flag_largest(
    values: NDArray[Any], count: int, scratch: NDArray[Any], rows: NDArray[Any], flagged: NDArray[np.bool_]
) -> bool:
    """Flag the rows of the `count` largest values, or none and return False where the cut falls between equal values."""
    size = len(values)
    scratch[:size] = values
    cut = nth_largest(scratch[:size], count)
    reaching = 0
    for value in values:
        if value >= cut:
            reaching += 1
    if reaching != count:
        return False
    for i in range(size):
        if values[i] >= cut:
            flagged[rows[i]] = True
    return True


@compiled
def flag_margins(
    probabilities: NDArray[Any],
    label: int,
    budgets: NDArray[np.int64],
    rows: NDArray[Any],
    margins: NDArray[Any],
    scratch: NDArray[Any],
    flagged: NDArray[np.bool_],
    tied: NDArray[np.bool_],
) -> None:
    """For every class j with a budget, flag that many of one class's `rows`: those with the largest margin P_j − P_label.

    A class j where the cut falls between equal margins is left to the caller: tied[j] is set. `margins` and `scratch`
    are working space, and the type of `margins` is the precision of the subtraction.
    """
    size = len(rows)
    for j in range(len(budgets)):
        if j == label or budgets[j] == 0:
            continue
        for i in range(size):
            margins[i] = probabilities[rows[i], j]
            margins[i] -= probabilities[rows[i], label]
        tied[j] = not flag_largest(margins[:size], budgets[j], scratch, rows, flagged)
