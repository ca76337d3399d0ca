"""The words of the command as functions."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union, overload

from rehearsal import options as o
from rehearsal.command import ask
from rehearsal.errors import Interrupted, Refusal
from rehearsal.models import as_argument
from rehearsal.results import (AnswerComparison, BudgetAnswer, Collectives, Estimate, Explanation, Inspection, Schedules, SearchResult,
                               Simulation, TargetAnswer, Validation)

if TYPE_CHECKING:
    from typing import Unpack  # Python 3.11; for type checkers alone

    import torch

#: An ONNX file, "zoo:NAME", "hf:FOLDER/config.json", or a torch.nn.Module with `inputs`.
Model = Union[o.Text, "torch.nn.Module"]
#: What `forward` is called with: one tensor, a tuple of them, or a dict by name.
Inputs = Any


@overload
def estimate(model: Model, *, platform: o.Text, budget: o.Several, inputs: Inputs = None, **options: Any) -> BudgetAnswer: ...
@overload
def estimate(model: Model, *, platform: o.Text, to_loss: o.Number, inputs: Inputs = None, **options: Any) -> TargetAnswer: ...
@overload
def estimate(model: Model, *, platform: o.Text, to_accuracy: Union[o.Number, str], inputs: Inputs = None, **options: Any) -> TargetAnswer: ...
@overload
def estimate(model: Model, *, platform: o.Text, reached: str, inputs: Inputs = None, **options: Any) -> TargetAnswer: ...
@overload
def estimate(model: Model, *, platform: o.Text, inputs: Inputs = None, **options: Unpack[o.EstimateOptions]) -> Estimate: ...
def estimate(model: Model, *, platform: o.Text, inputs: Inputs = None, **options: Any) -> Estimate | BudgetAnswer | TargetAnswer:
    """What training costs on a platform: `rehearse estimate`. With `budget` what so much compute, money, time or energy buys; with
    `to_loss`, `to_accuracy` or `reached` what larger batches save and cost on the way to a target.

    >>> answer = estimate("zoo:resnet50", platform="dgx-a100", batch=2048)
    >>> answer.plan, answer.ranks, answer.bottleneck
    ('dp=64', 64, 'compute')
    >>> answer.step_seconds.low < answer.step_seconds.value < answer.step_seconds.high
    True
    >>> [row["plan"] for row in estimate("zoo:resnet50", platform="dgx-a100", batch=2048, vary={"dp": [16, 32]}).rows()]
    ['dp=16', 'dp=32']
    >>> spent = estimate("zoo:gpt2", platform="dgx-a100", nodes=1, batch=256, dtype="bf16", optimizer="adamw", plan="dp=8", budget="1e19FLOP")
    >>> round(spent.training["tokens"]["value"] / 1e9), spent.law
    (12, 'besiroglu')
    """
    with as_argument(model, inputs, options) as (argument, given):
        answer = ask("estimate", [argument], {"platform": platform, **given})
    if "refused" in answer.document:  # though values of `vary` are not: they are in its document
        raise Refusal(answer.document["refused"], answer.document)
    kind = BudgetAnswer if given.get("budget") else TargetAnswer if "batches" in answer.document else Estimate
    return kind.of(answer.document, answer.warnings)


def search(model: Model, *, platform: Union[o.Text, Sequence[o.Text]], inputs: Inputs = None, **options: Unpack[o.SearchOptions]) -> SearchResult:
    """The plans that cost least: `rehearse search`. Several platforms are a choice of hardware.

    Ctrl-C raises Interrupted, whose `result` is the best that was found by then.

    >>> found = search("zoo:resnet50", platform="dgx-a100", batch=2048, budget="500plans", confirm=0, top=2)
    >>> len(found.plans), found.best.step_seconds.value <= found.plans[1].step_seconds.value
    (2, True)
    """
    with as_argument(model, inputs, options) as (argument, given):
        try:
            answer = ask("search", [argument], {"platform": platform, **given})
        except Interrupted as stopped:
            raise Interrupted(stopped.result and SearchResult.of(stopped.result)) from None
    return SearchResult.of(answer.document, answer.warnings)


def simulate(model: Model, *, platform: o.Text, inputs: Inputs = None, **options: Unpack[o.SimulateOptions]) -> Simulation:
    """Plays a plan on a modelled cluster: `rehearse simulate`. `fidelity` "folded" and "full" need the simulator, "closed" does not.

    >>> simulate("zoo:resnet18", platform="dgx-a100", plan={"dp": 8}, batch=64, fidelity="closed").bottleneck
    'compute'
    """
    with as_argument(model, inputs, options) as (argument, given):
        answer = ask("simulate", [argument], {"platform": platform, **given})
    return Simulation.of(answer.document, answer.warnings)


def jobs(file: o.Text, *, platform: o.Text, **options: Unpack[o.JobsOptions]) -> Schedules:
    """Several trainings on one cluster, who runs when and how long each waits: `rehearse jobs`.

    >>> jobs("jobs.json", platform="dgx-a100")
    Traceback (most recent call last):
    ...
    rehearsal.errors.BadInput: jobs.json: cannot be opened: No such file or directory
    """
    answer = ask("jobs", [file], {"platform": platform, **options})
    return Schedules.of(answer.document, answer.warnings)


def explain(plan: Union[o.Text, Mapping[str, object]], *, model: Union[Model, None] = None, inputs: Inputs = None,
            **options: Unpack[o.ExplainOptions]) -> Explanation:
    """What a plan makes every stage do and send: `rehearse explain`.

    >>> why = explain("dp=8", model="zoo:resnet18", platform="dgx-a100", batch=64)
    >>> [(axis["axis"], axis["degree"]) for axis in why.axes]
    [('dp', 8)]
    """
    with as_argument(model, inputs, options) as (argument, given):
        answer = ask("explain", [o.text_of(plan)], {"model": argument, **given})
    return Explanation.of(answer.maybe or {"text": answer.text}, answer.warnings)


def inspect(model: Model, *, inputs: Inputs = None, **options: Unpack[o.InspectOptions]) -> Inspection:
    """What a model is, and what an exporter did to it: `rehearse inspect`.

    >>> inspect("zoo:resnet18", batch=4).parameters
    11689512
    """
    with as_argument(model, inputs, options) as (argument, given):
        answer = ask("inspect", [argument], given)
    return Inspection.of(answer.document, answer.warnings)


def collective(*, platform: o.Text, **options: Unpack[o.CollectiveOptions]) -> Collectives:
    """How long a collective takes, by algorithm and size: `rehearse collective`.

    >>> {row["message_bytes"] for row in collective(platform="dgx-a100", sizes=["1MB", "64MB"]).rows()} == {1e6, 64e6}
    True
    """
    answer = ask("collective", [], {"platform": platform, **options})
    return Collectives.of(answer.document, answer.warnings)


@overload
def validate(*, against: o.Text, **options: Any) -> AnswerComparison: ...
@overload
def validate(**options: Unpack[o.ValidateOptions]) -> Validation: ...
def validate(**options: Any) -> Validation | AnswerComparison:
    """Predictions beside published runs: `rehearse validate`. With `against` another predictor's answers beside ours.

    >>> found = validate(family="collective")
    >>> found.all["answered"] == len(found.rows()) == 9
    True
    >>> validate(against="theirs.jsonl")
    Traceback (most recent call last):
    ...
    rehearsal.errors.BadInput: theirs.jsonl: cannot be read; a file of answers, one JSON object a line
    """
    answer = ask("validate", [], options)
    *records, last = answer.lines
    result = AnswerComparison if "against" in options else Validation
    return result.of({**last["summary"], "records": records}, answer.warnings)


def report(*traces: o.Text, **options: Unpack[o.ReportOptions]) -> dict[str, Any]:
    """Traces as one page: `rehearse report`. Returns what was written.

    >>> report("trace.json", output="page.html")
    Traceback (most recent call last):
    ...
    rehearsal.errors.BadInput: trace.json: cannot be read
    """
    return ask("report", traces, options).document


def call(command: str, *arguments: o.Text, **options: Any) -> dict[str, Any]:
    """Any command that answers with JSON, such as `compare`, `learn`, `zoo` or `platform`.

    >>> call("platform", "show", "dgx-a100")["name"]
    'dgx-a100'
    """
    return ask(command, arguments, options).document
