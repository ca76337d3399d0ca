"""Starts `rehearse`, the program that lies in this package, and reads what it answers.

A process of its own, because a long search must end at Ctrl-C with the best it has found, other threads of Python go on meanwhile, and
whatever happens to it leaves the interpreter alone. It prints every number so that it is read back as the same double."""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal.errors import EnvironmentFailure, InternalError, Interrupted, RehearsalWarning, of_status
from rehearsal.options import words_of

PREFIX, WARNING, ERROR = "rehearse: ", "rehearse: warning: ", "rehearse: error: "
SECONDS_TO_END = 10  # after Ctrl-C, before it is ended by force


def is_program(file: str) -> bool:
    with open(file, "rb") as begin:
        return begin.read(4) == b"\x7fELF"


def program() -> str:
    """The program that answers: $REHEARSAL_COMMAND, else the one of this package, else the first `rehearse` of $PATH."""
    named = os.environ.get("REHEARSAL_COMMAND")
    if named:
        return named
    own = Path(__file__).parent / "bin" / "rehearse"
    if own.exists():
        return str(own)
    # In this package's own environment `rehearse` is a few lines of Python that come back here.
    found = shutil.which("rehearse")
    if found and is_program(found):
        return found
    raise EnvironmentFailure("rehearse is neither in this package nor in $PATH: install the wheel, or let $REHEARSAL_COMMAND name the program")


def main() -> None:
    """`rehearse` of the wheel: becomes the program itself."""
    os.execv(program(), ["rehearse", *sys.argv[1:]])


@dataclass(frozen=True)
class Answer:
    """What a command printed."""

    text: str
    warnings: tuple[str, ...] = ()

    @property
    def maybe(self) -> dict[str, Any] | None:
        """The one JSON document, where it is one."""
        try:
            return json.loads(self.text)
        except json.JSONDecodeError:
            return None

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document; raises InternalError where it is none."""
        document = self.maybe
        if document is None:
            raise InternalError(f"rehearse did not answer with a JSON document: {self.text[:100]!r}")
        return document

    @property
    def lines(self) -> list[dict[str, Any]]:
        """A JSON document a line."""
        return [json.loads(line) for line in self.text.splitlines() if line]


def end(process: subprocess.Popen[str]) -> None:
    """By force, with the workers of a simulation."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def ended_early(process: subprocess.Popen[str]) -> str:
    """Asks the program to stop, as Ctrl-C does in a terminal; what it printed."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=SECONDS_TO_END)[0]
    except BaseException:  # too slow, or Ctrl-C once more
        end(process)
        return ""


def said(err: str, kind: str) -> list[str]:
    return [line[len(kind):] for line in err.splitlines() if line.startswith(kind)]


def ask(command: str, arguments: Sequence[object] = (), options: Mapping[str, object] | None = None) -> Answer:
    """Runs `rehearse COMMAND ARGUMENTS OPTIONS --format json`; raises what its exit status says, with its text."""
    words = [program(), command, *(os.fspath(a) if isinstance(a, os.PathLike) else str(a) for a in arguments),
             *words_of(options or {}), "--format=json"]
    try:
        # A session of its own: Ctrl-C in a terminal reaches this process alone, which passes it on once.
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   encoding="utf-8", errors="replace", start_new_session=True)
    except OSError as problem:
        raise EnvironmentFailure(f"{words[0]} cannot be started: {problem.strerror}") from problem
    try:
        out, err = process.communicate()
    except KeyboardInterrupt:
        answer = Answer(ended_early(process))
        raise Interrupted(answer.maybe) from None
    except BaseException:
        end(process)
        raise
    answer = Answer(out, tuple(said(err, WARNING)))
    if process.returncode != 0:
        errors = said(err, ERROR)
        raise of_status(process.returncode, "\n".join(errors) or err.strip(), answer.maybe)
    for sentence in answer.warnings:
        warnings.warn(sentence, RehearsalWarning, stacklevel=3)
    return answer
