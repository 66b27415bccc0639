"""The errors of errata. Each message is one sentence: what is wrong, where, and what to do."""


class ErrataError(Exception):
    """The base class of all errors that errata raises; the command line prints them without a traceback."""


class InputError(ErrataError, ValueError):
    """An array, a name or an argument is not valid."""


class StoreError(ErrataError, OSError):
    """A file or folder cannot be read or written."""


class DataError(StoreError):
    """A file of a dataset is damaged or has unexpected contents."""


class MissingDataError(DataError):
    """A dataset was not found."""
