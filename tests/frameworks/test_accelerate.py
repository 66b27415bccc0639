"""A plain loop with Accelerate in two processes on the CPU records one run: the script of docs/training-loop.md."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import errata

pytest.importorskip("accelerate", reason="accelerate is not installed")

GUIDE = Path(__file__).parents[2] / "docs" / "training-loop.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
WITNESS = """
numbers = [np.column_stack([np.full(len(ids), epoch), ids, logits]) for epoch, ids, logits in seen]
np.save(f"rank{accelerator.process_index}.npy", np.concatenate(numbers))
"""


def test_the_loop_of_the_guide_records_what_both_processes_saw(run_script, tmp_path, monkeypatch):
    """The ranks share the samples; those that the loader repeats to fill the last batches count once."""
    monkeypatch.setenv("ACCELERATE_USE_CPU", "1")
    (script,) = (block for block in BLOCKS if "Accelerator()" in block)
    update = "rec.update(ids, logits)"
    assert script.count(update) == 1
    watched = script.replace(update, f"{update}; seen.append((epoch, ids.numpy(), logits.detach().numpy()))")
    file = tmp_path / "train_accelerate.py"
    file.write_text(f"import numpy as np\nseen = []\n{watched}{WITNESS}", encoding="utf-8")
    printed = run_script(file, launcher=TORCHRUN)
    assert printed.count("label  suggested") == 1, "only the main process prints"
    dynamics = errata.Dynamics.open(tmp_path / "runs" / "digits-accelerate")
    labels = load_digits(return_X_y=True)[1]
    assert [shard.name for shard in dynamics.shards] == ["part-00000", "part-00001"]
    np.testing.assert_array_equal(dynamics.labels, labels)
    expected = np.full((5, len(labels), 10), np.nan)
    seen = [np.load(tmp_path / f"rank{rank}.npy") for rank in (0, 1)]
    assert min(map(len, seen)) > 5 * len(labels) // 3, "both processes trained"
    assert sum(map(len, seen)) > 5 * len(labels), "some samples were repeated"
    for row in np.concatenate([seen[1][::-1], seen[0][::-1]]):  # of repeated ones, the first of the lowest rank counts
        expected[int(row[0]), int(row[1])] = row[2:]
    np.testing.assert_array_equal(dynamics.in_memory().logits, expected.astype(np.float32))
