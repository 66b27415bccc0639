"""Memory of the table of ids that every recorder holds, in bytes per sample: python benchmarks/id_table.py."""

import tracemalloc

import numpy as np

from errata.dynamics.ids import SampleIds

SAMPLES = 1_000_000


def main() -> None:
    numbers = np.random.default_rng(0).permutation(SAMPLES) + 10**9
    text = [f"img_{name}.png" for name in numbers]
    for kind, ids in (("numbers", numbers), ("text such as img_1000000000.png", text)):
        tracemalloc.start()
        table = SampleIds(ids, SAMPLES)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(f"{kind}: {size / len(table.values):.0f} bytes per sample")


if __name__ == "__main__":
    main()
