"""Modules of PyTorch, Hugging Face's among them, exported so that they train (docs/models.md). PyTorch is imported only here."""
from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Iterator

from rehearsal.errors import BadInput, RehearsalWarning, UsageError
from rehearsal.options import Text

if TYPE_CHECKING:
    import torch

LEAST_BATCH = 2  # exporters take a dimension of 1 for one that is always 1


def is_module(model: object) -> bool:
    """A torch.nn.Module; whoever has one has imported torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


@contextmanager
def as_argument(model: object, inputs: Any, options: Mapping[str, Any]) -> Iterator[tuple[object, Mapping[str, Any]]]:
    """The MODEL of a command line and its options: a module is exported into a file that is gone afterwards."""
    if not is_module(model):
        if not (model is None or isinstance(model, (str, os.PathLike))):
            raise UsageError(f"model: {type(model).__name__} is neither a name, a file nor a torch.nn.Module")
        if inputs is not None:
            raise UsageError("inputs: are for a torch.nn.Module; an ONNX file has its own")
        yield model, options
        return
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        path = os.path.join(folder, type(model).__name__ + ".onnx")
        learned = export(model, inputs, path)
        given = {**learned, **{k: v for k, v in options.items() if v is not None}}
        if learned.get("freeze") and options.get("freeze"):
            wanted = options["freeze"]
            given["freeze"] = learned["freeze"] + (list(wanted) if isinstance(wanted, (list, tuple)) else [wanted])
        yield path, given


def export(module: "torch.nn.Module", inputs: Any, path: Text) -> dict[str, Any]:
    """Writes a module as ONNX so that it trains: in training mode, nothing folded, its batch open.

    `inputs` is what `forward` is called with, a tensor, a tuple or a dict by name, batch first. Returns the options with which the file is
    what the module is: the batch of `inputs`, and the parameters that do not require a gradient as `freeze`.

    >>> import torch                                                            # doctest: +SKIP
    >>> rehearsal.export(torch.nn.Linear(4, 2), torch.zeros(8, 4), "line.onnx")  # doctest: +SKIP
    {'batch': 8}
    """
    import torch

    named = by_name(module, inputs)
    batch = batch_of(named)
    enlarged = {name: at_least_two(value) for name, value in named.items()}
    with ExitStack() as stack:
        stack.enter_context(training_mode(module))
        stack.enter_context(hugging_face_settings(module))
        stack.enter_context(quiet_exporter())
        # The exporter of today needs torch 2.5 and onnxscript.
        today = importlib.util.find_spec("onnxscript") is not None and release_of(torch) >= (2, 5)
        try:
            (export_of_today if today else export_of_old)(module, enlarged, path)
        except Exception as problem:  # whatever the exporter throws
            raise BadInput(f"{type(module).__name__}: PyTorch cannot export it: {first_line(problem)}") from problem
    if not today:
        warnings.warn("exported by PyTorch's older exporter, which leaves no trace of what is detached: install onnxscript and torch 2.5 or later",
                      RehearsalWarning, stacklevel=4)
    frozen = [literal(name) for name, parameter in module.named_parameters() if not parameter.requires_grad]
    return {"batch": batch, **({"freeze": frozen} if frozen else {})}


def first_line(problem: Exception) -> str:
    return next((line for line in str(problem).splitlines() if line.strip()), type(problem).__name__)


def release_of(torch: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def by_name(module: "torch.nn.Module", inputs: Any) -> dict[str, Any]:
    """Inputs by the names of `forward`'s arguments."""
    if inputs is None:
        raise UsageError("inputs: a torch.nn.Module needs what its forward is called with, such as inputs=torch.zeros(8, 3, 224, 224)")
    if isinstance(inputs, Mapping):
        return dict(inputs)
    values = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    try:
        return dict(inspect.signature(module.forward).bind(*values).arguments)
    except TypeError as problem:
        raise UsageError(f"inputs: forward of {type(module).__name__}: {problem}") from problem


def batch_of(named: Mapping[str, Any]) -> int:
    """The first dimension, which all inputs share."""
    import torch

    strange = [name for name, value in named.items() if not torch.is_tensor(value) or value.dim() == 0]
    if strange:
        raise BadInput(f"inputs: {', '.join(strange)}: every input must be a tensor whose first dimension is the batch")
    sizes = {name: value.shape[0] for name, value in named.items()}
    if len(set(sizes.values())) != 1:
        raise BadInput(f"inputs: batches differ: {', '.join(f'{name} has {size}' for name, size in sizes.items())}")
    return next(iter(sizes.values()))


def at_least_two(value: "torch.Tensor") -> "torch.Tensor":
    return value if value.shape[0] >= LEAST_BATCH else value.repeat(LEAST_BATCH, *[1] * (value.dim() - 1))


@contextmanager
def training_mode(module: "torch.nn.Module") -> Iterator[None]:
    """Every part in training mode, and as it was afterwards."""
    before = [(part, part.training) for part in module.modules()]
    module.train()
    try:
        yield
    finally:
        for part, mode in before:
            part.training = mode


@contextmanager
def hugging_face_settings(module: "torch.nn.Module") -> Iterator[None]:
    """A cache cannot be exported, and attention is recognised as its nodes."""
    config = getattr(module, "config", None)
    wanted = {"use_cache": False, "_attn_implementation": "eager", "_experts_implementation": "batched_mm"}
    before = {name: getattr(config, name) for name in wanted if config is not None and hasattr(config, name)}
    try:
        for name in before:
            setattr(config, name, wanted[name])
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)


@contextmanager
def quiet_exporter() -> Iterator[None]:
    """What the exporter says of its own innards is not for whoever asked for a prediction."""
    import logging

    with warnings.catch_warnings(), open(os.devnull, "w", encoding="utf-8") as nowhere:
        warnings.simplefilter("ignore")
        log = logging.getLogger("torch.onnx")
        level, out = log.level, sys.stdout
        log.setLevel(logging.ERROR)
        sys.stdout = nowhere
        try:
            yield
        finally:
            sys.stdout = out
            log.setLevel(level)


def export_of_today(module: "torch.nn.Module", named: Mapping[str, Any], path: Text) -> None:
    import torch

    torch.onnx.export(module, (), os.fspath(path), kwargs=dict(named), dynamo=True, optimize=False, input_names=list(named),
                      dynamic_shapes={name: {0: "batch"} for name in named})


def export_of_old(module: "torch.nn.Module", named: Mapping[str, Any], path: Text) -> None:
    import torch

    torch.onnx.export(module, (dict(named),), os.fspath(path), dynamo=False, opset_version=17,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=list(named),
                      dynamic_axes={name: {0: "batch"} for name in named})


def literal(name: str) -> str:
    """A glob that this name alone fits."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)
