"""A column of an Arrow table with other labels, of the same type as before."""

from typing import TYPE_CHECKING, Any

from errata.errors import InputError
from errata.review.applying.edits import Edits

if TYPE_CHECKING:
    import pyarrow as pa


def new_labels(edits: Edits, type_: "pa.DataType", where: str) -> "pa.Array":
    """The classes that are new, as the type of the column; `where` names it in messages."""
    import pyarrow as pa

    try:
        return pa.array(edits.fresh, type=type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        shown = ", ".join(map(repr, edits.fresh))
        raise InputError(f"{where} is of type {type_}, and cannot hold the new label {shown}") from error


def relabelled(column: "pa.ChunkedArray", edits: Edits, new: "pa.Array") -> "pa.ChunkedArray":
    """The column (N,), in which a row that changes takes its label from another row, or from the `new` ones."""
    import pyarrow as pa

    longer: Any = pa.chunked_array([*column.chunks, new], type=column.type).unify_dictionaries()
    return longer.take(pa.array(edits.taken(len(column))))
