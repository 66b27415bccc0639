"""The errors of errata. Each message is one sentence: what is wrong, where, and what to do."""


class ErrataError(Exception):
    """The base class of all errors that errata raises; the command line prints them without a traceback.

    >>> import errata
    >>> try:
    ...     errata.score([[1.0, 0.0]], [5], "Last-LM")
    ... except errata.ErrataError as error:
    ...     print(type(error).__name__)
    InputError
    """


class InputError(ErrataError, ValueError):
    """An array, a name or an argument is not valid.

    >>> import errata
    >>> errata.score([[1.0, 0.0]], [0], "Lost-LM")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    errata.errors.InputError: unknown method 'Lost-LM'; did you mean 'Last-LM'?...
    """


class StoreError(ErrataError, OSError):
    """A file or folder cannot be read or written.

    >>> import errata
    >>> errata.Dynamics.open("no such folder")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    errata.errors.StoreError: no such folder is not a dynamics folder: it does not exist...
    """


class LockedError(StoreError):
    """Another process is writing the file or folder."""


class DataError(StoreError):
    """A file of a dataset is damaged or has unexpected contents."""


class MissingDataError(DataError):
    """A dataset was not found."""
