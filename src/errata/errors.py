"""The ways errata says no: each message is one sentence that names what is wrong and where."""


class ErrataError(Exception):
    """Base of every error errata raises on purpose; the command line prints it without a traceback."""


class InputError(ErrataError, ValueError):
    """An array, a name or an argument that cannot be used."""


class StoreError(ErrataError, OSError):
    """A file or folder that cannot be read or written."""


class DataError(StoreError):
    """A dataset's file that is not what it should be."""


class MissingDataError(DataError):
    """A dataset that is not there."""
