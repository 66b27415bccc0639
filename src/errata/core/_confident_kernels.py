"""Compiled loops of `confident_learning`."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.jit import compiled

NO_CLASS = -1
ROUNDING = 1e-6  # rounding errors of probabilities outside 0..1
SUM_TOLERANCE = 1e-3
SAMPLED_VALUES = 1024


@compiled
def compensated_sum(values: NDArray[Any]) -> tuple[float, float]:
    """The sum of `values` as a float and a remainder: exact to about 100 bits, so independent of their order."""
    total = 0.0
    remainder = 0.0
    for number in values:
        value = np.float64(number)
        larger = total + value
        remainder += (total - larger) + value if total >= value else (value - larger) + total
        total = larger
    return total, remainder


def exact_sum(values: NDArray[Any]) -> Fraction | float:
    """The sum of `values` as a fraction, independent of their order and of parts; a float if it is not finite."""
    total, remainder = compensated_sum(values)
    return Fraction(total) + Fraction(remainder) if np.isfinite(total) else total


@compiled
def confident_classes(
    probabilities: NDArray[Any],
    labels: NDArray[Any],
    thresholds: NDArray[np.float64],
    slack: float,
    confident: NDArray[Any],
    disagrees: NDArray[np.bool_],
) -> int:
    """Write the confident class of every row, and whether its arg max is not its label.

    The confident class is the one class that reaches its threshold, the arg max of the row if several do, and NO_CLASS
    if none does.
    `slack` is added to the label's probability before it is compared with the largest probability.
    Returns the first row that is not a probability distribution, or -1.
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
            total += np.float64(probability)
            if probability < lowest:
                lowest = probability
            if probability > highest:
                highest = probability
                arg_max = k
            if probability >= thresholds[k]:
                reached += 1
                reached_last = k
        in_range = np.float64(lowest) >= -ROUNDING and np.float64(highest) <= 1 + ROUNDING
        if not (in_range and abs(total - 1) <= SUM_TOLERANCE):
            return row
        confident[row] = arg_max if reached > 1 else reached_last
        label = labels[row]
        own = probabilities[row, label] + slack
        disagrees[row] = arg_max != label and not (own > highest or (own == highest and label < arg_max))
    return -1


@compiled
def sift_down(heap: NDArray[Any], position: int) -> None:
    """Restore the min-heap below `position`."""
    size = len(heap)
    value = heap[position]
    child = 2 * position + 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[position] = heap[child]
        position = child
        child = 2 * position + 1
    heap[position] = value


@compiled
def least_of_largest(values: NDArray[Any], n: int) -> Any:
    """The n-th largest of `values` (n from 1), with a heap of the n largest so far."""
    heap = values[:n].copy()
    for position in range(n // 2 - 1, -1, -1):
        sift_down(heap, position)
    for value in values[n:]:
        if value > heap[0]:
            heap[0] = value
            sift_down(heap, 0)
    return heap[0]


@compiled
def nth_largest(values: NDArray[Any], n: int) -> Any:
    """The n-th largest of `values` (n from 1); for many values, a subsample first rules out the small ones."""
    step = len(values) // SAMPLED_VALUES
    expected = n / max(step, 1)
    rank = int(expected + 3 * np.sqrt(expected)) + 4
    if step < 2 or rank >= SAMPLED_VALUES:
        return least_of_largest(values, n)
    bound = least_of_largest(values[::step].copy(), rank)
    candidates = values[values >= bound]
    return least_of_largest(candidates if len(candidates) >= n else values, n)


@compiled
def flag_largest(values: NDArray[Any], count: int, rows: NDArray[Any], flagged: NDArray[np.bool_]) -> bool:
    """Flag the rows of the `count` largest values; returns False and flags none if the cut is between equal values."""
    cut = nth_largest(values, count)
    reaching = 0
    for value in values:
        if value >= cut:
            reaching += 1
    if reaching != count:
        return False
    for i in range(len(values)):
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
    flagged: NDArray[np.bool_],
    tied: NDArray[np.bool_],
) -> None:
    """For every class j, flag the budgets[j] rows with the largest margin P_j − P_label among `rows` of one class.

    If the cut is between equal margins, sets tied[j] and leaves class j to the caller. `margins` is a buffer of the
    size of `rows`; its type is the precision of the subtraction.
    """
    for j in range(len(budgets)):
        if j == label or budgets[j] == 0:
            continue
        for i in range(len(rows)):
            margins[i] = probabilities[rows[i], j]
            margins[i] -= probabilities[rows[i], label]
        tied[j] = not flag_largest(margins, budgets[j], rows, flagged)
