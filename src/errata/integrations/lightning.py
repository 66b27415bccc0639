"""Record a Lightning training: `Trainer(callbacks=[LightningRecorder(labels=y)])`."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module, util
from pathlib import Path
from typing import Any, Unpack

from errata.core.checks import is_tensor
from errata.errors import InputError
from errata.integrations.base import BatchOptions, BatchRecorder

# The framework has two package names with one Callback class each. Use the one that is imported, else installed.
_NAMES = ("lightning.pytorch", "pytorch_lightning")
_lightning = import_module(
    next((name for name in _NAMES if name in sys.modules), _NAMES[0] if util.find_spec("lightning") else _NAMES[1])
)
Callback: Any = _lightning.Callback


class LightningRecorder(BatchRecorder, Callback):  # type: ignore[misc]
    """A callback that records the logits of the training pass.

    labels (N,): the given labels, of any type.
    id_in_batch: where a batch holds the ids of its samples: a key, a position, or a function of the batch. By default
    "id" for a dictionary, else the last part, as in (inputs, labels, ids).
    module: the part of the LightningModule whose output is the logits ("model.head"), by default the whole. It is not
    used if `training_step` returns {"loss": ..., "logits": ...}.
    `BatchOptions` lists the other options; with resume=True, the folder is continued where the training resumes from a
    checkpoint.

    >>> import lightning, torch
    >>> from errata.integrations import LightningRecorder
    >>> class Network(lightning.LightningModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = torch.nn.Linear(4, 3)
    ...     def forward(self, inputs):
    ...         return self.layer(inputs)
    ...     def training_step(self, batch, batch_idx):
    ...         inputs, labels, ids = batch
    ...         return torch.nn.functional.cross_entropy(self(inputs), labels)
    ...     def configure_optimizers(self):
    ...         return torch.optim.Adam(self.parameters())
    >>> labels = torch.arange(60) % 3
    >>> data = torch.utils.data.TensorDataset(torch.rand(60, 4), labels, torch.arange(60))
    >>> recorder = LightningRecorder(labels=labels)
    >>> quiet = {f"enable_{name}": False for name in ("progress_bar", "model_summary", "checkpointing")}
    >>> trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", callbacks=[recorder], logger=False, **quiet)
    >>> trainer.fit(Network(), torch.utils.data.DataLoader(data, 20))
    >>> recorder.finish()
    Dynamics(3 epochs, 60 samples, 3 classes)
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        labels: Any,
        id_in_batch: str | int | Callable[[Any], Any] | None = None,
        module: str = "",
        **options: Unpack[BatchOptions],
    ) -> None:
        super().__init__(path, f"lightning {_lightning.__version__}", labels, options)
        self._id_in_batch, self._module = id_in_batch, module
        self._hook: Any = None
        self._outputs: list[Any] | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._hook = pl_module.get_submodule(self._module).register_forward_hook(self._on_forward)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._begin_epoch(trainer.current_epoch)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Outputs from now on belong to the training pass."""
        self._outputs = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        module_outputs, self._outputs = self._outputs or [], None
        logits = _logits(outputs) if isinstance(outputs, Mapping) else None
        if logits is None:
            logits = self._only(module_outputs)
        try:
            self._record(_ids(batch, self._id_in_batch), logits)
        except InputError as error:
            error.add_note("ids are the last part of a batch, or its 'id'; id_in_batch= takes them from elsewhere")
            raise

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Also called if max_steps or max_time ends the training within an epoch."""
        self._end_epoch(complete=trainer.is_last_batch)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.on_train_end(trainer, pl_module)

    def _on_forward(self, module: Any, args: Any, output: Any) -> None:
        """Collect logits. Under DDP the hook also receives the loss of `training_step`, which is not collected."""
        logits = _logits(output)
        if self._outputs is not None and logits is not None:
            self._outputs.append(logits.detach())

    def _only(self, outputs: list[Any]) -> Any:
        if len(outputs) == 1:
            return outputs[0]
        part = f"its part {self._module!r}" if self._module else "the LightningModule"
        raise InputError(
            f"{part} gave logits {len(outputs)} times in a training_step, not once; "
            'return {"loss": loss, "logits": logits} from it, or name the part that gives them with module='
        )


def _logits(output: Any) -> Any | None:
    """The logits in the output of a module or a step, if there are any."""
    if isinstance(output, Mapping):
        return output.get("logits")
    return output if is_tensor(output) and output.ndim == 2 else None


def _ids(batch: Any, where: str | int | Callable[[Any], Any] | None) -> Any:
    """The ids in a batch; without `where`, only what must be ids is taken for them."""
    if callable(where):
        return where(batch)
    if where is None and isinstance(batch, Mapping):
        where = "id"
    if where is None:
        parts = len(batch) if isinstance(batch, Sequence) else 1
        if parts < 3 and not (parts == 2 and isinstance(batch[0], Sequence)):
            raise InputError(
                "a batch has no sample ids; wrap the dataset as StackDataset(dataset, range(len(dataset))), "
                "or yield (inputs, labels, ids)"
            )
        where = -1
    try:
        return batch[where]
    except (KeyError, IndexError, TypeError):
        content = ", ".join(map(str, batch)) if isinstance(batch, Mapping) else f"{type(batch).__name__}"
        raise InputError(f"a batch has no {where!r} to take ids from; it has {content}") from None
