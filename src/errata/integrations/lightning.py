"""Record a Lightning training: `Trainer(callbacks=[LightningRecorder(labels=y)])`."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module, util
from pathlib import Path
from typing import Any, Unpack

from errata.core.checks import is_tensor
from errata.errors import InputError
from errata.integrations.batches import BatchOptions, BatchRecorder

# One framework under two names, with a Callback each: the name in use counts, and then the one that is installed.
_NAMES = ("lightning.pytorch", "pytorch_lightning")
_lightning = import_module(
    next((name for name in _NAMES if name in sys.modules), _NAMES[0] if util.find_spec("lightning") else _NAMES[1])
)
Callback: Any = _lightning.Callback


class LightningRecorder(BatchRecorder, Callback):  # type: ignore[misc]
    """A callback that keeps the logits of the training pass.

    labels (N,): the given labels, of any type. classes: the names of the model's columns in their order, by default
    the labels sorted.
    A batch has to say which samples are in it: as its last part, as in (inputs, labels, ids), under "id" in a
    dictionary, or wherever `id_in_batch` says: a key, a position, or a function of the batch.
    Logits are what `training_step` returns as {"loss": ..., "logits": ...}, or else what `module` gave in it: the
    LightningModule itself, unless another is named ("model.head").
    Other options are those of `errata.Recorder`; resume=True goes on with the folder where a checkpoint goes on.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        labels: Any,
        classes: Sequence[Any] | None = None,
        id_in_batch: str | int | Callable[[Any], Any] | None = None,
        module: str = "",
        **options: Unpack[BatchOptions],
    ) -> None:
        super().__init__(path, f"lightning {_lightning.__version__}", labels, classes, options)
        self._id_in_batch, self._module = id_in_batch, module
        self._hook: Any = None
        self._seen: list[Any] | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning; listens to the module that gives the logits."""
        self._hook = pl_module.get_submodule(self._module).register_forward_hook(self._listen)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning."""
        self._begin_epoch(trainer.current_epoch)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Called by Lightning; from here on outputs are those of the training pass."""
        self._seen = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Called by Lightning with what `training_step` returned."""
        seen, self._seen = self._seen or [], None
        logits = _logits(outputs) if isinstance(outputs, Mapping) else None
        if logits is None:
            logits = self._only(seen)
        try:
            self._keep(_ids(batch, self._id_in_batch), logits)
        except InputError as error:
            error.add_note("ids are the last part of a batch, or its 'id'; id_in_batch= takes them from elsewhere")
            raise

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning, also where max_steps or max_time ends the training within an epoch."""
        self._end_epoch(whole=trainer.is_last_batch)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning; leaves the model as it was."""
        self._stop_listening()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Called by Lightning; leaves the model as it was."""
        self._stop_listening()

    def _stop_listening(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _listen(self, module: Any, args: Any, output: Any) -> None:
        """Under DDP the outputs of `training_step` come past as well: a loss, which is no logits."""
        logits = _logits(output)
        if self._seen is not None and logits is not None:
            self._seen.append(logits.detach())

    def _only(self, seen: list[Any]) -> Any:
        if len(seen) == 1:
            return seen[0]
        of = f"its part {self._module!r}" if self._module else "the LightningModule"
        raise InputError(
            f"{of} gave logits {len(seen)} times in a training_step, not once; "
            'return {"loss": loss, "logits": logits} from it, or name the part that gives them with module='
        )


def _logits(output: Any) -> Any | None:
    """The logits in what a module or a step returned, if there are any."""
    if isinstance(output, Mapping):
        return output.get("logits")
    return output if is_tensor(output) and output.ndim == 2 else None


def _ids(batch: Any, where: str | int | Callable[[Any], Any] | None) -> Any:
    """The ids in a batch; where nothing says where they are, nothing but ids may be taken for them."""
    if callable(where):
        return where(batch)
    if where is None and isinstance(batch, Mapping):
        where = "id"
    if where is None:
        parts = len(batch) if isinstance(batch, Sequence) else 1
        if parts < 3 and not (parts == 2 and isinstance(batch[0], Sequence)):
            raise InputError(
                "a batch does not say which samples are in it; wrap the dataset as "
                "StackDataset(dataset, range(len(dataset))), or yield (inputs, labels, ids)"
            )
        where = -1
    try:
        return batch[where]
    except (KeyError, IndexError, TypeError):
        there = ", ".join(map(str, batch)) if isinstance(batch, Mapping) else f"{type(batch).__name__}"
        raise InputError(f"a batch has no {where!r} to take ids from; it has {there}") from None
