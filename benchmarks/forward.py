"""What a pass costs: logits alone, a run, one layer's patterns, every head's share of a logit.

GPT-2-small shape, random weights, batch 1, one thread. Times are medians of interleaved rounds in
CPU seconds of this process, so that a busy machine disturbs them little. Memory is the peak of the
resident set above what was there before (Linux only).

    python benchmarks/forward.py --pos 128 1024
"""

import argparse
import ctypes
import gc
import importlib.metadata
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ["HF_HUB_OFFLINE"] = "1"

import torch

from tinyattn import from_gpt2, head_attribution, logit_attribution

Task = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pos", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    for name in ("torch", "transformers", "transformer-lens"):
        print(name, installed(name), end=" · ")
    print(platform.machine(), "· one thread")
    hf, lens, ours = models()
    for pos in options.pos:
        tokens = torch.randint(50257, (1, pos), generator=torch.Generator().manual_seed(0))
        tasks = passes(hf, lens, ours, tokens)
        report(pos, measure(tasks, options.rounds))


def models():
    """The same weights three times: Hugging Face, TransformerLens if it is there, and ours."""
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config()
    hf = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="sdpa").eval()
    ours = from_gpt2(hf)
    try:
        from transformer_lens.model_bridge import TransformerBridge
    except ImportError:
        print("transformer-lens is not installed: its rows are missing")
        return hf, None, ours
    with tempfile.TemporaryDirectory() as folder:
        hf.save_pretrained(folder)
        lens = TransformerBridge.boot_transformers(folder, device="cpu")
    return hf, lens, ours


def passes(hf, lens, ours, tokens: torch.Tensor) -> dict[str, Task]:
    """What is timed, under the name it has in the table."""
    run, known = ours.run(tokens), ours.run(tokens, remember=True)
    tasks: dict[str, Task] = {
        "Hugging Face, SDPA, logits": lambda: hf(tokens, use_cache=False).logits,
        "tinyattn, logits": lambda: ours(tokens),
        "tinyattn, run": lambda: ours.run(tokens),
        "tinyattn, one block": lambda: ours.layers[6](run.resid_pre(6), run.scene),
        "tinyattn, one layer's patterns of a run": lambda: run.pattern(6),
        "tinyattn, shares of all heads": lambda: head_attribution(run, 42),
        "tinyattn, shares of all heads, z remembered": lambda: head_attribution(known, 42),
        "tinyattn, shares of all writers, z remembered": lambda: shares(known),
    }
    if lens is not None:
        cache = lens.run_with_cache(tokens)[1]
        tasks["TransformerLens, run_with_cache"] = lambda: lens.run_with_cache(tokens)
        tasks["TransformerLens, shares by stack_head_results"] = lambda: lens_shares(lens, cache)
    return tasks


def shares(run) -> torch.Tensor:
    """The same for every writer: heads, MLPs, embeddings and biases, under their names."""
    return logit_attribution(run, 42, heads=True).values


def lens_shares(lens, cache) -> torch.Tensor:
    """The same in TransformerLens: form every head's write, normalise, then project."""
    parts = cache.stack_head_results(layer=-1)
    return cache.apply_ln_to_stack(parts, layer=-1) @ lens.W_U[:, 42]


def measure(tasks: dict[str, Task], rounds: int) -> dict[str, tuple[float, float]]:
    """Median CPU seconds and peak megabytes of each task; rounds go through all tasks in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(rounds + 1):
        for name, task in tasks.items():
            start = time.process_time()
            task()
            if number:  # the first round warms up
                seconds[name].append(time.process_time() - start)
    return {name: (statistics.median(seconds[name]), peak(task)) for name, task in tasks.items()}


def peak(task: Task) -> float:
    """How many megabytes a task needs above what is resident before it."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # what is free goes back, so that it counts again
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = resident("VmRSS")
    kept = task()
    after = resident("VmHWM")
    del kept
    return (after - before) / 1024


def resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field)))


def report(pos: int, results: dict[str, tuple[float, float]]) -> None:
    base = results["Hugging Face, SDPA, logits"][0]
    print(f"\n| {pos} positions | CPU ms | × Hugging Face | peak MB |\n|---|---|---|---|")
    for name, (seconds, megabytes) in results.items():
        print(f"| {name} | {1000 * seconds:.1f} | {seconds / base:.3f} | {megabytes:.0f} |")


def installed(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


if __name__ == "__main__":
    main()
