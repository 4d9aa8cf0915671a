"""Why a transfer fails."""

import builtins
import re


class Error(Exception):
    """A transfer failed; the text says why.

    ``hint`` says what the user can do, ``exit_code`` is that of the command.
    """

    def __init__(self, message: str, hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code


class UsageError(Error, ValueError):
    """An argument makes no sense."""


class ConnectionError(Error, builtins.ConnectionError):
    """The other side does not answer, is busy, or was lost. Another call continues where this one ended."""


class RefusedError(Error):
    """The other side rejects the ticket or the files, or is not the one that made the ticket."""


class ConflictError(Error):
    """Files exist with other content and were not replaced. All others arrived."""


class LeftOutError(Error):
    """Some files were skipped. All others arrived."""


class NotVerifiedError(Error):
    """What arrived is not what was sent."""


_CLASSES = {
    each.__name__: each
    for each in (UsageError, ConnectionError, RefusedError, ConflictError, LeftOutError, NotVerifiedError)
}


def _spoken(text: str) -> str:
    """The same with ``keep_both`` for ``--keep-both``, except in commands, which stand in backticks."""
    parts = text.split("`")
    parts[::2] = [re.sub("--([a-z][a-z-]+)", lambda option: option[1].replace("-", "_"), part) for part in parts[::2]]
    return "`".join(parts)


def failure(name: str, message: str, hint: str, exit_code: int) -> Error:
    """The exception for a failure that Rust reports."""
    return _CLASSES.get(name, Error)(_spoken(message), _spoken(hint), exit_code)
