"""The options of the commands as keywords: `weight_decay=0.1` is `--weight-decay 0.1`.

`rehearse COMMAND --help` says what each means. A test compares these classes with what the commands list."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypedDict, Union

from rehearsal.errors import UsageError

Text = Union[str, os.PathLike]
Number = Union[int, float]
#: Several values: a list, or one.
Several = Union[Text, Sequence[Text]]
#: KEY=VALUE,...: as text, or as a mapping.
Keys = Union[str, Mapping[str, object]]


class ModelOptions(TypedDict, total=False):
    """How a model is trained."""

    batch: int
    bind: Union[Several, Mapping[str, int]]
    loss: str
    target: str
    freeze: Several
    train: Several
    lora: Union[int, str]
    dropout: Union[bool, str]
    optimizer: str
    lr: Number
    lr_scaling: str
    base_batch: int
    momentum: Number
    nesterov: Union[bool, str]
    betas: Union[str, Sequence[float]]
    trust: Number
    eps: Number
    weight_decay: Number
    clip_norm: Number
    clip_value: Number
    loss_scale: Union[Number, str]
    dtype: str
    seed: int


class InputOptions(TypedDict, total=False):
    """What is trained on, and where it comes from."""

    dataset: Union[int, Keys]
    data: Several
    input: Union[Several, Mapping[str, str]]
    image_size: Union[int, str]
    normalize: str
    data_threads: int
    cache: str


class ExtentOptions(TypedDict, total=False):
    """How long the training is."""

    steps: Number
    epochs: Number
    tokens: Union[Number, str]


class GoodputOptions(TypedDict, total=False):
    """How often devices fail, and what is done about it."""

    failures: Number
    checkpoint_every: Union[int, str]
    checkpoint_wait: str
    restart: str
    replacement: str
    storage: str
    spares: int


class CostOptions(TypedDict, total=False):
    """Figures that stand over the platform's."""

    price: Number
    pue: Number
    carbon: Number


class PlaceOptions(TypedDict, total=False):
    """How much of the platform, and what was measured on it."""

    nodes: int
    devices: int
    machine: Text


class FrameworkOptions(CostOptions, PlaceOptions, total=False):
    """How the job is run."""

    framework: str
    recipe: Keys
    imbalance: Text


class PredictionOptions(ModelOptions, FrameworkOptions, InputOptions, ExtentOptions, GoodputOptions, total=False):
    """What estimate, simulate and search share."""

    jitter: Number
    plan: Union[Text, Mapping[str, object]]


class EstimateOptions(PredictionOptions, total=False):
    """Of `estimate`."""

    fidelity: str
    budget: Several
    sizes: Union[str, Sequence[str]]
    law: str
    to_loss: Number
    to_accuracy: Union[Number, str]
    curves: Several
    reached: str
    batches: Union[str, Sequence[int]]
    devices_follow: bool
    svg: Text
    vary: Union[Several, Mapping[str, object]]
    hours: Text


class SimulateOptions(PredictionOptions, total=False):
    """Of `simulate`."""

    fidelity: str
    trace: Text
    chakra: Text


class SearchOptions(PredictionOptions, total=False):
    """Of `search`."""

    objective: str
    limit: Union[Several, Mapping[str, str]]
    budget: str
    allow: Several
    plans: Text
    confirm: int
    top: int
    output: Text


class ExplainOptions(ModelOptions, InputOptions, FrameworkOptions, total=False):
    """Of `explain`."""

    platform: Text
    layers: bool
    program: bool
    passes: bool
    after: str
    json: Text
    dot: Text
    pnml: Text


class JobsOptions(CostOptions, total=False):
    """Of `jobs`."""

    nodes: int
    policy: Several
    slice: str
    svg: Text
    schema: bool


class InspectOptions(ModelOptions, total=False):
    """Of `inspect`."""

    tensors: bool
    dims: bool
    kernels: bool
    passes: bool
    backend: str
    device: str
    machine: Text


class ValidateOptions(TypedDict, total=False):
    """Of `validate`."""

    measured: Text
    machine: Text
    family: str
    through: str
    answers: Text
    against: Text
    html: Text


class ReportOptions(TypedDict, total=False):
    """Of `report`."""

    search: Text
    output: Text
    chrome: Text
    csv: Text


class CollectiveOptions(PlaceOptions, total=False):
    """Of `collective`."""

    ranks: int
    kind: str
    sizes: Union[str, Sequence[str]]
    release: str
    fidelity: str


#: Those that stand alone; the others that are True or False are on or off.
FLAGS = frozenset({"devices_follow", "layers", "program", "passes", "tensors", "dims", "kernels", "schema"})
#: Those that are given once for every value.
REPEATED = frozenset(
    {"bind", "freeze", "train", "input", "data", "eval", "limit", "vary", "platform", "policy", "budget", "curves"}
)
#: What the package itself says to the command.
RESERVED = frozenset({"format", "help"})


def text_of(value: object) -> str:
    """One value as the command line has it: lists and mappings in the order in which they are written."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return ",".join(f"{key}={text_of(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(each) for each in value)
    return str(value)


def values_of(name: str, value: object) -> list[str]:
    """Every value that the option is given with."""
    if name not in REPEATED:
        return [text_of(value)]
    if isinstance(value, Mapping):
        return [f"{key}={text_of(each)}" for key, each in value.items()]
    return [text_of(each) for each in value] if isinstance(value, (list, tuple)) else [text_of(value)]


def words_of(options: Mapping[str, object]) -> list[str]:
    """The words of the command line that say these options; None says nothing.

    >>> words_of({"plan": {"dp": 8, "zero": 1}, "weight_decay": 0.1, "freeze": ["a*", "b"], "layers": True, "batch": None})
    ['--plan=dp=8,zero=1', '--weight-decay=0.1', '--freeze=a*', '--freeze=b', '--layers']
    """
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if name in RESERVED:
            raise UsageError(f"{name} is no keyword: results are objects, and rehearse COMMAND --help is for the command line")
        if value is None or (name in FLAGS and value is False):
            continue
        if name in FLAGS and value is True:
            words.append(option)
            continue
        words += [f"{option}={each}" for each in values_of(name, value)]
    return words
