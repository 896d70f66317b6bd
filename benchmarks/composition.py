"""All composition scores of a model, and the eigenvalues of its full OV circuits, side by side.

Random weights at the shape of GPT-2 small, unless told otherwise. Each method runs in a process of
its own, so that its peak memory is its own: what the process took at most, beyond what it held
with the weights made. The scores of all methods are compared.

    python benchmarks/composition.py
    python benchmarks/composition.py --methods low-rank transformer-lens
"""

import argparse
import importlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tinyattn.circuits import compositions, copying, full_ov, ov_circuit, qk_circuit

Weights = tuple[Tensor, Tensor, Tensor, Tensor]


def weights(args: argparse.Namespace) -> Weights:
    """W_Q, W_K, W_V and W_O of every head, normal and independent."""
    generator = torch.Generator().manual_seed(args.seed)
    shape = (args.layers, args.heads, args.d_model, args.d_head)
    W_Q, W_K, W_V, W_O = (torch.randn(shape, generator=generator) for _ in range(4))
    return W_Q, W_K, W_V, W_O.mT.contiguous()


def low_rank(W: Weights) -> Tensor:
    W_Q, W_K, W_V, W_O = W
    return compositions(ov_circuit(W_V, W_O), qk_circuit(W_Q, W_K), "K")


def dense(W: Weights, earlier: int | None = None) -> Tensor:
    """Every circuit multiplied out, every pair of an earlier and a later head multiplied.

    Every pair costs the same, so a few earlier heads of each layer tell the cost of a pair.
    """
    W_Q, W_K, W_V, W_O = W
    layers, heads = W_Q.shape[:2]
    ov, read = W_V[:, :earlier] @ W_O[:, :earlier], W_K @ W_Q.mT
    norm = torch.linalg.matrix_norm
    ov_norm, read_norm = norm(ov), norm(read)
    scores = torch.zeros(layers, heads, layers, heads)
    for i in range(layers):
        for j in range(i + 1, layers):
            for g in range(ov.shape[1]):
                found = norm(ov[i, g] @ read[j]) / ov_norm[i, g] / read_norm[j]
                scores[i, g, j] = found
    return scores


def transformer_lens(W: Weights) -> Tensor:
    """What its ``all_composition_scores("K")`` does once it has gathered the weights."""
    from transformer_lens import FactoredMatrix
    from transformer_lens.utilities.matrix import composition_scores

    W_Q, W_K, W_V, W_O = W
    scores = composition_scores(FactoredMatrix(W_V, W_O), FactoredMatrix(W_Q, W_K.mT).T)
    layer = torch.arange(len(W_Q))
    return scores * (layer[:, None, None, None] < layer[None, None, :, None])


PAIRS: dict[str, Callable[[Weights], Tensor]] = {
    "low-rank": low_rank,
    "dense": dense,
    "transformer-lens": transformer_lens,
}


def embeddings(args: argparse.Namespace) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(args.seed + 1)
    W_E, W_U = (torch.randn(args.vocab, args.d_model, generator=generator) for _ in range(2))
    return W_E, W_U.T


def one_full_ov(W: Weights, W_E: Tensor, W_U: Tensor) -> Tensor:
    """Eigenvalues of one head's full OV circuit, tokens × tokens, which is never formed."""
    return full_ov(W_E, ov_circuit(W[2][0, 0], W[3][0, 0]), W_U).eigenvalues()


def every_full_ov(W: Weights, W_E: Tensor, W_U: Tensor) -> Tensor:
    """The copying score of every head over all tokens, by way of W_U @ W_E."""
    return copying(ov_circuit(W[2], W[3]) @ (W_U @ W_E))


def transformer_lens_full_ov(W: Weights, W_E: Tensor, W_U: Tensor) -> Tensor:
    from transformer_lens import FactoredMatrix

    return (W_E @ FactoredMatrix(W[2][0, 0], W[3][0, 0]) @ W_U).eigenvalues


TOKENS: dict[str, Callable[[Weights, Tensor, Tensor], Tensor]] = {
    "full-ov-one-head": one_full_ov,
    "full-ov-one-head-transformer-lens": transformer_lens_full_ov,
    "full-ov-copying-all-heads": every_full_ov,
}
NEEDS_TRANSFORMER_LENS = {"transformer-lens", "full-ov-one-head-transformer-lens"}


def inputs(args: argparse.Namespace, method: str) -> tuple[Any, ...]:
    return (weights(args), *embeddings(args)) if method in TOKENS else (weights(args),)


def peak() -> float:
    """The most memory this process has held so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(args: argparse.Namespace) -> None:
    """Time one method in this process and print what was seen as JSON."""
    torch.set_num_threads(args.threads)
    if args.run in NEEDS_TRANSFORMER_LENS:
        importlib.import_module("transformer_lens")  # its import is not what is timed
    method: Callable[..., Tensor] = PAIRS[args.run] if args.run in PAIRS else TOKENS[args.run]
    small = argparse.Namespace(layers=2, heads=1, d_model=8, d_head=2, vocab=9, seed=0)
    method(*inputs(small, args.run))  # the first call of a checked function is slow
    given = inputs(args, args.run)
    if args.run == "dense":
        given = (*given, args.dense_heads)
    held, wall, cpu = peak(), time.perf_counter(), time.process_time()
    result = method(*given)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    found = result.flatten().tolist() if args.run in PAIRS else None
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak() - held, "scores": found}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--d-model", type=int, default=768)
    parser.add_argument("--d-head", type=int, default=64)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--dense-heads",
        type=int,
        help="how many earlier heads of each layer the dense method does; all, if left out",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", choices=[*PAIRS, *TOKENS], default=None)
    parser.add_argument("--run", choices=[*PAIRS, *TOKENS], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        run(args)
        return

    found: dict[str, Tensor] = {}
    print(f"{'method':<36}{'wall s':>9}{'CPU s':>9}{'peak MB':>9}{'pairs':>9}{'CPU ms a pair':>15}")
    for name in args.methods or [*PAIRS, *TOKENS]:
        done = subprocess.run(
            [sys.executable, *sys.argv, "--run", name], capture_output=True, text=True
        )
        if done.returncode and name in NEEDS_TRANSFORMER_LENS and "No module" in done.stderr:
            print(f"{name:<36}  left out: install transformer-lens to compare with it")
            continue
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr}")
        seen = json.loads(done.stdout.splitlines()[-1])
        line = f"{name:<36}{seen['wall']:>9.2f}{seen['cpu']:>9.2f}{seen['peak']:>9.0f}"
        if seen["scores"] is not None:
            found[name] = torch.tensor(seen["scores"])
            count = int((found[name] > 0).sum())
            line += f"{count:>9}{1000 * seen['cpu'] / count:>15.3f}"
        print(line, flush=True)
    for name, scores in found.items():
        pairs = scores[scores > 0]
        print(f"{name}: {len(pairs)} pairs, {pairs.min():.4f} to {pairs.max():.4f}")
        for other, theirs in found.items():
            if other != name:
                both = (scores > 0) & (theirs > 0)
                apart = (scores / theirs - 1)[both].abs().max()
                print(f"  furthest from {other}, of {int(both.sum())} pairs: {apart:.1e} of it")


if __name__ == "__main__":
    main()
