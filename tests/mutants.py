"""Break the package in one place at a time, and see that both tests and pages notice.

    python tests/mutants.py [words of a name]

Each mutant is a fault that a real project had. It is planted in a copy of the package; the law
tests must fail on it, and so must at least one page. A survivor means that something is not tested.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAWS = [f"tests/test_{name}.py" for name in ("laws", "twins", "cases", "head")]
PAGES = ["docs/attention", "docs/stream", "docs/worklog.md"]

MUTANTS = [
    ("drop the scale", "attention", "(q / math.sqrt(d_head)) @ k.mT", "q @ k.mT"),
    (
        "scale by the root of something else",
        "attention",
        "d_head = q.shape[-1]\n",
        "d_head = 2 * q.shape[-1]\n",
    ),
    ("softmax over the queries", "attention", ".softmax(dim=-1).masked", ".softmax(dim=-2).masked"),
    ("mask one off", "attention", "diagonal=key - query)", "diagonal=key - query - 1)"),
    ("mask shows one token of the future", "attention", "diagonal=key - query)", "diagonal=1)"),
    (
        "mask after the softmax",
        "attention",
        "return seen.masked_fill(blind, 0.0).softmax(dim=-1).masked_fill(blind, 0.0)",
        "A = scores.softmax(dim=-1)\n    return A if mask is None else A * mask",
    ),
    ("-1e4 for -inf", "attention", "masked_fill(~mask, -math.inf)", "masked_fill(~mask, -1e4)"),
    (
        "the mask's result is thrown away",
        "attention",
        "else mask_scores(scores, mask)",
        "else scores",
    ),
    (
        "the mask turned round",
        "attention",
        "masked_fill(~mask, -math.inf)",
        "masked_fill(mask, -math.inf)",
    ),
    (
        "view instead of cut and swap, in split",
        "head",
        "t.unflatten(-1, (n_heads, d_model // n_heads)).transpose(-3, -2)",
        "t.reshape(*t.shape[:-2], n_heads, t.shape[-2], d_model // n_heads)",
    ),
    (
        "reshape without the swap, in merge",
        "head",
        "t.transpose(-3, -2).flatten(-2)",
        "t.reshape(*t.shape[:-3], t.shape[-2], t.shape[-3] * t.shape[-1])",
    ),
    ("W_V for W_K", "head", "_read(read, head.W_K, head.b_K)", "_read(read, head.W_V, head.b_K)"),
    ("W_K for W_V", "head", "_read(read, head.W_V, head.b_V)", "_read(read, head.W_K, head.b_V)"),
    ("values from the readers", "head", "v = _read(read,", "v = _read(x,"),
    (
        "the wrong group of keys",
        "head",
        "t.repeat_interleave(head.group, dim=-3)",
        "t.repeat(*[1] * (t.ndim - 3), head.group, 1, 1)",
    ),
    (
        "the past comes last",
        "head",
        "torch.cat([old, new], dim=-2)",
        "torch.cat([new, old], dim=-2)",
    ),
    (
        "the ledger forgets the first write",
        "stream",
        "torch.stack(self.writes).sum(dim=0)",
        "torch.stack(self.writes[1:] or self.writes).sum(dim=0)",
    ),
]


def survives(tests: list[str], source: Path) -> bool:
    """Whether a selection of tests passes with another copy of the package."""
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_WAIT_POLICY": "passive"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout + done.stderr)
    return done.returncode == 0


def main(only: str = "") -> int:
    survivors = tried = 0
    for name, module, old, new in (mutant for mutant in MUTANTS if only in mutant[0]):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "src" / "tinyattn", Path(folder) / "tinyattn")
            path = Path(folder) / "tinyattn" / f"{module}.py"
            source = path.read_text()
            if source.count(old) != 1:
                raise SystemExit(f"{name}: {module}.py has this {source.count(old)} times: {old}")
            path.write_text(source.replace(old, new))
            alive = [
                kind
                for kind, tests in (("tests", LAWS), ("pages", PAGES))
                if survives(tests, Path(folder))
            ]
        tried += 1
        survivors += bool(alive)
        print(f"{name}: {'not seen by ' + ' and '.join(alive) if alive else 'seen'}", flush=True)
    print(f"{tried - survivors} passed, {survivors} failed")
    return min(survivors, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
