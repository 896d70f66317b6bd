"""The training loop: draw a batch, step down the slope, write a checkpoint now and then.

What a step draws depends on the seed and on the number of the step alone. So a training that was
stopped and goes on from a checkpoint ends with the same weights as one that was not.
"""

import json
import math
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from tinyattn.model import Transformer
from tinyattn.progress import progress
from tinyattn.shapes import ShapeError, describe
from tinyattn.weights import read_weights, write_weights

WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
Draw = Callable[[torch.Generator], Tensor]
Measure = Callable[[Transformer], float]


@dataclass
class History:
    """What was measured along the way: the steps, and for each name a value at each of them.

    Examples:
        >>> from tinyattn import History
        >>> history = History()
        >>> history.note(0, {"loss": 4.5})
        >>> history.note(10, {"loss": 2.5})
        >>> history
        History(steps=[0, 10], values={'loss': [4.5, 2.5]})
    """

    steps: list[int] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)

    def note(self, step: int, measured: Mapping[str, float]) -> None:
        """Add one measurement of everything."""
        self.steps.append(step)
        for name, value in measured.items():
            self.values.setdefault(name, []).append(value)

    def steepest(self, name: str, share: float = 0.5) -> tuple[int, int]:
        """The shortest stretch of steps in which this much of the whole fall happens.

        Raises:
            KeyError: If nothing of that name was measured, naming what was.
            ValueError: If the values do not fall, or are not one for each step.

        Examples:
            >>> from tinyattn import History
            >>> History([0, 10, 20, 30], {"loss": [4.0, 3.5, 1.0, 0.5]}).steepest("loss")
            (10, 20)
        """
        if name not in self.values:
            raise KeyError(f"steepest: no {name!r}; measured are {', '.join(self.values)}")
        series = self.values[name]
        if not series or len(series) != len(self.steps) or not all(map(math.isfinite, series)):
            raise ValueError(
                f"steepest: {name!r} has {len(series)} values for {len(self.steps)} steps: give a "
                f"finite one for each, and at least one"
            )
        wanted = share * (series[0] - min(series))
        pairs = [
            (self.steps[j] - self.steps[i], series[j] - series[i], i, j)
            for i in range(len(series))
            for j in range(i + 1, len(series))
            if series[i] - series[j] >= wanted
        ]
        if not wanted or not pairs:
            raise ValueError(f"steepest: {name!r} does not fall from {series[0]:g} on")
        _, _, i, j = min(pairs)
        return self.steps[i], self.steps[j]


@dataclass(frozen=True)
class Schedule:
    """How large the steps are, and how many.

    The rate rises over ``warm_up`` steps and falls along a line to a fiftieth at the end.

    Args:
        steps: How many steps.
        rate: The largest the rate would be.
        warm_up: Over how many steps it rises.
        decay: How much smaller each weight gets in a step of rate 1.

    Raises:
        ValueError: If there is no step, or a number is negative or not finite.

    Examples:
        >>> from tinyattn import Schedule
        >>> [round(Schedule(100).at(step), 4) for step in (0, 50, 100)]
        [0.0002, 0.0051, 0.0002]
    """

    steps: int
    rate: float = 0.01
    warm_up: int = 50
    decay: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("rate", 0), ("warm_up", 0), ("decay", 0)):
            value, whole = getattr(self, name), name in ("steps", "warm_up")
            kind = int if whole else (int, float)
            if isinstance(value, bool) or not isinstance(value, kind):
                raise TypeError(f"Schedule: {name} = {value!r}: give a {'whole ' * whole}number")
            if not least <= value < math.inf:
                raise ValueError(
                    f"Schedule: {name} = {value}: give a finite number, {least} or more"
                )

    def at(self, step: int) -> float:
        """The rate of one step, counted from 0."""
        rise = min(1.0, (step + 1) / self.warm_up) if self.warm_up else 1.0
        return self.rate * rise * (1 - 0.98 * step / self.steps)


def train(
    model: Transformer,
    draw: Draw,
    schedule: Schedule,
    *,
    seed: int = 0,
    measures: Mapping[str, Measure] | None = None,
    every: int = 50,
    folder: str | Path | None = None,
    keep_every: int | None = None,
    show_progress: bool = True,
) -> History:
    """Train a model in place on the next token of every position, and say how it went.

    Ctrl-C finishes the step, writes a checkpoint if there is a folder, and then stops. Called
    again with the same folder, the training goes on from the last checkpoint.

    Args:
        model: What learns. Its weights change.
        draw: Makes the rows of one step, [batch pos], with the generator it is given.
        schedule: How many steps, and how large.
        seed: Decides what is drawn, together with the step.
        measures: What to measure along the way, by name. The loss of the step is always there.
        every: Measure every so many steps, at step 0, and at the end.
        folder: Where checkpoints are kept; nothing is written, if left out.
        keep_every: Write a checkpoint every so many steps; ten in all, if left out.
        show_progress: Show a bar where standard error is a terminal.

    Returns:
        What was measured, from the first step on, across interruptions.

    Raises:
        TypeError: If ``draw`` gives no rows of whole numbers.
        ValueError: If the rows do not fit the model, before anything is trained; if nothing can
            be, since gradients are off or every weight is frozen; if the folder
            holds a training of another kind, or a measure is called "loss".
        KeyboardInterrupt: After Ctrl-C, once nothing can be lost any more.
        FloatingPointError: If the loss is no number any more, saying at which step.

    Examples:
        >>> from tinyattn import Config, Schedule, Transformer, repeats, train
        >>> model = Transformer(Config(8, 4, n_heads=2, n_layers=1, d_vocab=9, n_ctx=12))
        >>> def draw(generator):
        ...     return repeats(4, 12, 9, periods=(2, 5), generator=generator)[0]
        ...
        >>> history = train(model, draw, Schedule(20), every=10)
        >>> history.steps, history.values["loss"][-1] < history.values["loss"][0]
        ([0, 10, 20], True)

    Source: Loshchilov and Hutter (2019), algorithm 2 (AdamW).
    """
    if every < 1 or (keep_every is not None and keep_every < 1):
        raise ValueError(
            f"train: every = {every} and keep_every = {keep_every}: count steps from 1 on"
        )
    if "loss" in (measures or {}):
        raise ValueError("train: the loss is always measured: give the measure 'loss' another name")
    if not torch.is_grad_enabled():
        raise ValueError("train: gradients are switched off: call it outside of torch.no_grad()")
    if not any(weight.requires_grad for weight in model.parameters()):
        raise ValueError("train: every weight of the model is frozen: model.requires_grad_(True)")
    _refuse(model, draw(_generator(seed, 0)))
    optimizer = torch.optim.AdamW(
        model.parameters(), schedule.rate, betas=(0.9, 0.98), weight_decay=schedule.decay
    )
    kind = json.dumps(
        {"config": asdict(model.config), "schedule": asdict(schedule), "seed": seed}, sort_keys=True
    )
    path = Path(folder) if folder is not None else None
    history, start = (History(), 0) if path is None else _resume(path, model, optimizer, kind)
    keep_every = keep_every or math.ceil(schedule.steps / 10)
    device, measures = model.W_E.device, measures or {}
    with _interruptions() as stopped:
        steps = progress(
            range(start, schedule.steps), schedule.steps - start, "train", show=show_progress
        )
        for step in steps:
            rows = draw(_generator(seed, step)).to(device)
            loss = next_token_loss(model, rows).mean()
            value = loss.item()
            if step % every == 0:
                _note(history, step, value, model, measures)
            if not math.isfinite(value):
                raise FloatingPointError(
                    f"train: the loss is {value} at step {step}: lower the rate, {schedule.rate}"
                )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = schedule.at(step)
            optimizer.step()
            done = step + 1
            if done == schedule.steps:
                with torch.no_grad():
                    loss = next_token_loss(model, draw(_generator(seed, done)).to(device)).mean()
                _note(history, done, loss.item(), model, measures)
            if path and (done % keep_every == 0 or done == schedule.steps or stopped.is_set()):
                _write(path, done, model, optimizer, history, kind)
            if stopped.is_set():
                raise KeyboardInterrupt(f"stopped after step {done} of {schedule.steps}")
    return history


def next_token_loss(model: Transformer, rows: Tensor) -> Tensor:
    """The loss in nats of every next token: [batch pos − 1], each entry for the token after it."""
    logits, wanted = model(rows[:, :-1]), rows[:, 1:]
    losses = functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none")
    return losses.view_as(wanted)


def checkpoints(folder: str | Path) -> dict[int, Path]:
    """The checkpoints in a folder by their step, the earliest first."""
    found = {int(path.stem.split("-")[1]): path for path in Path(folder).glob("step-*.safetensors")}
    return dict(sorted(found.items()))


def load_checkpoint(model: Transformer, path: str | Path) -> None:
    """Put the weights of a checkpoint into a model of the same config."""
    state, _ = read_weights(path)
    names = model.state_dict()
    model.load_state_dict({name: state[f"weight.{name}"] for name in names})


def _refuse(model: Transformer, rows: Tensor) -> None:
    """Say what cannot work before it starts."""
    if not isinstance(rows, Tensor) or rows.ndim != 2 or rows.dtype not in WHOLE:
        what = describe(rows) if isinstance(rows, Tensor) else f"a {type(rows).__name__}"
        raise ShapeError(f"train: draw gives {what}, but must give whole numbers [batch, pos]")
    config, length = model.config, rows.shape[-1] - 1
    if length < 1 or not len(rows):
        raise ValueError(
            f"train: rows are {describe(rows)}: give one or more, each of two tokens or more"
        )
    if length > config.n_ctx:
        raise ValueError(
            f"train: rows of {length + 1} tokens give the model {length} to read, but it has "
            f"n_ctx = {config.n_ctx} positions: make rows of {config.n_ctx + 1} or fewer"
        )
    if int(rows.max()) >= config.d_vocab or int(rows.min()) < 0:
        raise ValueError(
            f"train: rows hold tokens {int(rows.min())} to {int(rows.max())}, but the model has "
            f"d_vocab = {config.d_vocab}: tokens are 0 to {config.d_vocab - 1}"
        )


def _generator(seed: int, step: int) -> torch.Generator:
    return torch.Generator().manual_seed(1_000_003 * (seed + 1) + step)


def _note(
    history: History,
    step: int,
    loss: float,
    model: Transformer,
    measures: Mapping[str, Measure],
) -> None:
    with torch.no_grad():
        history.note(step, {"loss": loss, **{n: float(m(model)) for n, m in measures.items()}})


def _write(
    folder: Path,
    step: int,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    history: History,
    kind: str,
) -> None:
    """Keep weights, the optimiser's memory and the history in one file."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"weight.{name}": weight for name, weight in model.state_dict().items()}
    for name, weight in model.named_parameters():
        for what in ("exp_avg", "exp_avg_sq"):
            tensors[f"{what}.{name}"] = optimizer.state[weight][what]
    notes = {"kind": kind, "history": json.dumps(asdict(history))}
    write_weights(folder / f"step-{step:05}.safetensors", tensors, notes)


def _resume(
    folder: Path, model: Transformer, optimizer: torch.optim.Optimizer, kind: str
) -> tuple[History, int]:
    """Take up the last checkpoint of a folder, if there is one."""
    found = checkpoints(folder)
    if not found:
        return History(), 0
    step, path = list(found.items())[-1]
    state, notes = read_weights(path)
    if notes.get("kind") != kind:
        raise ValueError(
            f"train: {path} is from another training ({notes.get('kind')}): choose another folder"
        )
    load_checkpoint(model, path)
    for name, weight in model.named_parameters():
        optimizer.state[weight] = {
            "step": torch.tensor(float(step)),
            **{what: state[f"{what}.{name}"].to(weight) for what in ("exp_avg", "exp_avg_sq")},
        }
    return History(**json.loads(notes["history"])), step


@contextmanager
def _interruptions() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into a flag, so that no step is left half done; a second one stops."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: object) -> None:
        stopped.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)
