"""What the functions return: the fields that are always there, with types, and beside them the whole JSON document of the command."""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Optional, TypeVar

R = TypeVar("R", bound="Result")


@dataclass(frozen=True)
class Quantity:
    """What is predicted, and its 90 % interval.

    >>> step = Quantity(0.1, 0.08, 0.13)
    >>> float(step), str(step)
    (0.1, '0.1 [0.08, 0.13]')
    """

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        return f"{self.value:.6g} [{self.low:.6g}, {self.high:.6g}]"


def is_quantity(value: object) -> bool:
    return isinstance(value, dict) and {"value", "low", "high"} <= value.keys()


def flat(document: dict, before: str = "") -> dict[str, Any]:
    """One row of a table: nested keys are joined by underscores, lists of objects are left out.

    >>> flat({"step_seconds": {"value": 2.0, "low": 1.0, "high": 3.0}, "evidence": {"exact": 0.5}, "stages": [{"stage": 0}]})
    {'step_seconds': 2.0, 'step_seconds_low': 1.0, 'step_seconds_high': 3.0, 'evidence_exact': 0.5}
    """
    row: dict[str, Any] = {}
    for key, value in document.items():
        name = before + key
        if is_quantity(value):
            row[name] = value["value"]
            row.update(flat({k: v for k, v in value.items() if k != "value"}, name + "_"))
        elif isinstance(value, dict):
            row.update(flat(value, name + "_"))
        elif not (isinstance(value, list) and any(isinstance(each, dict) for each in value)):
            row[name] = value
    return row


@dataclass(frozen=True)
class Result:
    """What all results can do."""

    document: dict[str, Any] = field(repr=False)
    warnings: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls: type[R], document: dict[str, Any], warnings: tuple[str, ...] = ()) -> R:
        """The fields that this class names, taken from the document; those that it lacks keep their defaults."""
        known = {f.name: f for f in dataclasses.fields(cls) if f.name not in ("document", "warnings")}
        values = {name: cls._typed(name, document[name]) for name in known if name in document}
        return cls(document=document, warnings=warnings, **values)

    @classmethod
    def _typed(cls, name: str, value: Any) -> Any:
        return Quantity(value["value"], value["low"], value["high"]) if is_quantity(value) else value

    def __getitem__(self, key: str) -> Any:
        """A key of the document as it is, such as `result["goodput"]`."""
        return self.document[key]

    def to_dict(self) -> dict[str, Any]:
        """The document that `rehearse … --format json` prints."""
        return self.document

    def rows(self) -> list[dict[str, Any]]:
        """Rows of a table: `pandas.DataFrame(result.rows())`."""
        return [flat(self.document)]


@dataclass(frozen=True)
class Estimate(Result):
    """What a training costs under one plan. Keys that depend on the question (`goodput`, `input`, `vary`) are in the document."""

    plan: str
    ranks: int
    step_seconds: Quantity
    total_seconds: Quantity
    samples_per_second: Quantity
    memory_bytes: Quantity
    out_of_memory_chance: float
    energy_joules: Quantity
    cost_dollars: Quantity
    carbon_kg: Quantity
    mfu: float
    bottleneck: str
    breakdown: dict[str, float]
    evidence: dict[str, float]
    fidelity: str
    tokens_per_second: Optional[Quantity] = None  # where samples have tokens
    platform: str = ""
    model: str = ""  # of a search's plans the search's, as batch and framework
    batch: int = 0
    framework: str = ""
    new_to_us: list[str] = field(default_factory=list)  # what no published run has had

    def rows(self) -> list[dict[str, Any]]:
        """One row; with `vary` one for every value."""
        return [flat(row) for row in self.document["vary"]] if "vary" in self.document else super().rows()


@dataclass(frozen=True)
class BudgetAnswer(Result):
    """What a budget buys: of one model (`training`), or the best of several sizes (`sizes`, with `flat`: how little it matters)."""

    model: str
    platform: str
    batch: int
    framework: str
    law: str
    budget: dict[str, float]
    sure: str
    laws: list[dict[str, Any]]
    best: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    sizes: list[dict[str, Any]] = field(default_factory=list)
    flat: str = ""

    def rows(self) -> list[dict[str, Any]]:
        """One row a size; of one model one."""
        return [flat(size) for size in self.sizes or [self.training]]


@dataclass(frozen=True)
class TargetAnswer(Result):
    """What larger batches save and cost on the way to a target: a row a batch."""

    model: str
    platform: str
    batch: int
    framework: str
    target: str
    rests_on: str
    batches: list[dict[str, Any]]
    critical_batch: Optional[float] = None  # larger than can be seen
    quickest_batch: Optional[int] = None
    cheapest_batch: Optional[int] = None
    least_energy_batch: Optional[int] = None

    def rows(self) -> list[dict[str, Any]]:
        return [flat(row) for row in self.batches]


@dataclass(frozen=True)
class Schedules(Result):
    """Several trainings on one cluster, under one policy after the other."""

    platform: str
    nodes: int
    devices: int
    jobs: list[dict[str, Any]]
    policies: list[dict[str, Any]]
    outcomes: list[dict[str, Any]]

    def rows(self) -> list[dict[str, Any]]:
        """One row a policy and job."""
        return [flat(outcome) for outcome in self.outcomes]


@dataclass(frozen=True)
class Simulation(Estimate):
    """An estimate whose step was played."""

    events: int = 0
    wall_seconds: float = 0.0


@dataclass(frozen=True)
class SearchResult(Result):
    """The best plans first, and what was left out."""

    plans: tuple[Estimate, ...]
    model: str
    batch: int
    objective: str
    searched: int
    pruned: dict[str, int]
    exhausted: bool
    seconds: float
    plans_per_second: float
    refused: list[dict[str, str]] = field(default_factory=list)  # of `plans=FILE`
    more_on_front: int = 0  # of objective="pareto": plans beyond `top`

    @classmethod
    def _typed(cls, name: str, value: Any) -> Any:
        return tuple(Estimate.of(plan) for plan in value) if name == "plans" else super()._typed(name, value)

    @property
    def best(self) -> Estimate:
        return self.plans[0]

    def rows(self) -> list[dict[str, Any]]:
        """One row a plan."""
        return [flat(plan) for plan in self.document["plans"]]


@dataclass(frozen=True)
class Explanation(Result):
    """What a plan makes every stage do and send. `text` has what `program` and `after` print."""

    plan: str = ""
    model: str = ""
    platform: str = ""
    step_seconds: Optional[Quantity] = None
    axes: list[dict[str, Any]] = field(default_factory=list)
    would_help: list[dict[str, Any]] = field(default_factory=list)
    stages: list[dict[str, Any]] = field(default_factory=list)
    text: str = field(default="", repr=False)

    def rows(self) -> list[dict[str, Any]]:
        """One row a layer of every stage."""
        return [{"stage": stage["stage"], **flat(layer)} for stage in self.stages for layer in stage.get("layers", [])]


@dataclass(frozen=True)
class Validation(Result):
    """Predictions of runs that others measured; `document` is the summary."""

    all: dict[str, Any]
    families: list[dict[str, Any]]
    coverage: dict[str, Any]
    records: list[dict[str, Any]] = field(repr=False)

    def rows(self) -> list[dict[str, Any]]:
        """One row a record."""
        return [flat(record) for record in self.records]


@dataclass(frozen=True)
class AnswerComparison(Result):
    """Two sets of predictions of the same records; `document` is the summary."""

    answers: list[dict[str, Any]]  # a score each, over what each answered
    records_that_both_answered: int
    families: list[dict[str, Any]]
    records: list[dict[str, Any]] = field(repr=False)  # those that both answered
    of_these: list[dict[str, Any]] = field(default_factory=list)  # a score each, over those

    def rows(self) -> list[dict[str, Any]]:
        """One row a record that both answered."""
        return [flat(record) for record in self.records]


@dataclass(frozen=True)
class Inspection(Result):
    """What a model is."""

    model: str
    parameters: int
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    operators: dict[str, int]
    untrainable: list[dict[str, Any]]
    damage: list[dict[str, Any]]
    trainable_parameters: int = 0  # this and the next two where the model can be trained
    flops: dict[str, float] = field(default_factory=dict)
    activation_bytes: float = 0.0
    kernels: list[dict[str, Any]] = field(default_factory=list)  # with kernels=True

    def rows(self) -> list[dict[str, Any]]:
        """One row a kind of operator."""
        return [{"operator": name, "nodes": count} for name, count in self.operators.items()]


@dataclass(frozen=True)
class Collectives(Result):
    """How long a collective takes, by algorithm and size."""

    platform: str
    kind: str
    ranks: int
    collectives: list[dict[str, Any]]
    not_possible: list[dict[str, Any]] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """One row a size and algorithm."""
        return [flat(row) for row in self.collectives]
