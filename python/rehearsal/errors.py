"""What can go wrong, by whose fault it is: the text and the exit status are the command's."""
from __future__ import annotations

from typing import Any


class RehearsalError(Exception):
    """Any failure. `status` is what `rehearse` ended with, `document` what it had answered until then, if anything."""

    status = 70

    def __init__(self, text: str, document: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.document = document


class BadInput(RehearsalError, ValueError):
    """A file, key, node or value is wrong; the text names it, and what would be right."""

    status = 1


class UsageError(RehearsalError, TypeError):
    """An option that the command does not have, or one that is missing; the nearest spelling is in the text."""

    status = 2


class Refusal(RehearsalError):
    """The honest no: nothing fits, nothing can be trained, no operator can use the split."""

    status = 3


class EnvironmentFailure(RehearsalError, RuntimeError):
    """Something is missing or failed on this machine: no simulator, a full disk, no `rehearse`."""

    status = 4


class InternalError(RehearsalError):
    """A bug of Rehearsal."""

    status = 70


class Interrupted(KeyboardInterrupt):
    """Ctrl-C. `result` is the best that a search had found by then, else None."""

    status = 75

    def __init__(self, result: Any = None) -> None:
        super().__init__("interrupted")
        self.result = result


class RehearsalWarning(UserWarning):
    """A warning of the command, in its words."""


BY_STATUS: dict[int, type[RehearsalError]] = {kind.status: kind for kind in (BadInput, UsageError, Refusal, EnvironmentFailure, InternalError)}


def of_status(status: int, text: str, document: dict[str, Any] | None) -> RehearsalError:
    """The exception that stands for this exit status; any other status, such as a signal's, is a failure of the environment."""
    if status in BY_STATUS:
        return BY_STATUS[status](text, document)
    return EnvironmentFailure(text or f"rehearse ended with status {status}", document)
