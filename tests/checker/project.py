"""What there is to check, and what its pages have said before."""

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
LOCK = "tests/given.toml"
BIBLIOGRAPHY = "docs/bibliography.md"


@dataclass(frozen=True)
class Said:
    """What no code can prove on one page: locked, so that a changed digit shows."""

    given: tuple[tuple[str, str], ...] = ()
    ties: tuple[str, ...] = ()
    code: tuple[str, ...] | None = ()  # the numbers of each example; None where none is watched


@dataclass(frozen=True)
class Project:
    root: Path = ROOT
    lock: dict[str, Said] = field(default_factory=dict)
    cited: frozenset[str] = frozenset()

    @classmethod
    def at(cls, root: Path = ROOT) -> "Project":
        lock, cited = root / LOCK, root / BIBLIOGRAPHY
        return cls(
            root,
            read_lock(lock.read_text("utf-8")) if lock.exists() else {},
            citations(cited.read_text("utf-8")) if cited.exists() else frozenset(),
        )

    def name(self, path: Path) -> str:
        """The path as messages and the lock write it: from the root, with slashes."""
        path = path.resolve()
        return (path.relative_to(self.root) if path.is_relative_to(self.root) else path).as_posix()

    def documents(self) -> list[Path]:
        """Every file that holds examples, in a fixed order."""
        root = self.root
        found = [root / "README.md", root / "CONTRIBUTING.md"]
        found += sorted((root / "docs").rglob("*.md")) + sorted((root / "docs/labs").glob("*.py"))
        found += sorted((root / "src/tinyattn").rglob("*.py"))
        return [path for path in found if path.exists()]


def citations(bibliography: str) -> frozenset[str]:
    """The keys of the entries, ``**Elhage et al. 2021.** …`` or the same as a heading."""
    keys = re.findall(r"^(?:[-*] +)?(?:\*\*|#+ )(.+? \d{4}[a-z]?)\b", bibliography, re.M)
    return frozenset(citation_key(key) for key in keys)


def citation_key(text: str) -> str:
    """One spelling: ``Elhage et al. (2021)`` is ``Elhage et al. 2021``."""
    text = " ".join(re.sub(r"[(),]", " ", text).split())
    return text.replace(" & ", " and ")


def read_lock(text: str) -> dict[str, Said]:
    return {
        page: Said(
            tuple((literal, source) for literal, source in said.get("given", [])),
            tuple(said.get("ties", [])),
            tuple(said.get("code", [])),
        )
        for page, said in tomllib.loads(text).items()
    }


def write_lock(lock: dict[str, Said]) -> str:
    lines = [
        "# What the pages say and no code computes, in the order in which they say it, then the",
        "# numbers of their code, example by example, and what was rounded from a tie.",
        "# `python -m checker` writes this file; review its diff.",
    ]
    for page, said in sorted(lock.items()):
        if said == Said():
            continue
        lines += ["", f"[{_quoted(page)}]"]
        if said.given:
            pairs = (f"    [{_quoted(text)}, {_quoted(source)}]," for text, source in said.given)
            lines += ["given = [", *pairs, "]"]
        if said.code:
            lines += ["code = [", *(f"    {_quoted(numbers)}," for numbers in said.code), "]"]
        if said.ties:
            lines += ["ties = [", *(f"    {_quoted(tie)}," for tie in said.ties), "]"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
