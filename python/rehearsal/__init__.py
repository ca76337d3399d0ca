"""Rehearsal predicts what training a neural network costs on a cluster, and searches the best way to do it.

>>> import rehearsal
>>> answer = rehearsal.estimate("zoo:resnet50", platform="dgx-a100", batch=2048)
>>> print(f"{answer.plan}: a step takes {answer.step_seconds.value:.3f} s")  # doctest: +ELLIPSIS
dp=64: a step takes 0.0... s

Every function is a command of `rehearse`, every keyword one of its options, and every number the one that it prints.
"""
from rehearsal.api import call, collective, estimate, explain, inspect, jobs, report, search, simulate, validate
from rehearsal.errors import (BadInput, EnvironmentFailure, InternalError, Interrupted, Refusal, RehearsalError, RehearsalWarning,
                              UsageError)
from rehearsal.models import export
from rehearsal.results import (AnswerComparison, BudgetAnswer, Collectives, Estimate, Explanation, Inspection, Quantity, Result, Schedules,
                               SearchResult, Simulation, TargetAnswer, Validation)

__all__ = [
    "AnswerComparison", "BadInput", "BudgetAnswer", "Collectives", "EnvironmentFailure", "Estimate", "Explanation", "Inspection", "InternalError",
    "Interrupted", "Quantity", "Refusal", "RehearsalError", "RehearsalWarning", "Result", "Schedules", "SearchResult", "Simulation", "TargetAnswer",
    "UsageError", "Validation", "call", "collective", "estimate", "explain", "export", "inspect", "jobs", "report", "search", "simulate",
    "validate",
]
