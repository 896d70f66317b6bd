"""The documents as sybil collects them: one example for each thing that can be wrong."""

import functools
from collections.abc import Iterator
from pathlib import Path

from sybil import Document, Example, Region, Sybil
from sybil.sybil import SybilCollection

from checker.check import check
from checker.document import Fault, parse
from checker.project import ROOT, Project
from checker.run import run_once


def examples(project: Project, document: Document) -> Iterator[Region]:
    """Parse a document; the first of its examples to be evaluated runs the whole of it."""
    page = parse(document.text, Path(document.path), project)

    @functools.cache
    def found() -> list[Fault]:
        return check(page, run_once(page))

    def evaluate(example: Example) -> str | None:
        mine = [fault for fault in found() if fault.at == example.start]
        return "\n".join(f"{page.name}:{fault.line}: {fault.message}" for fault in mine) or None

    for at in sorted({item.at for item in page.items} | {fault.at for fault in page.faults}):
        yield Region(at, at, evaluator=evaluate)


def sybils(root: Path = ROOT) -> SybilCollection:
    """One for each place that holds documents. ``Document`` reads .py files without import."""
    parsers = [functools.partial(examples, Project.at(root))]
    types: dict[str | None, type[Document]] = {".py": Document}
    return SybilCollection(
        [
            Sybil(parsers, patterns=["*.md"], path=str(root / "docs")),
            Sybil(parsers, patterns=["*.py"], path=str(root / "docs/labs"), document_types=types),
            Sybil(parsers, patterns=["*.py"], path=str(root / "src"), document_types=types),
            Sybil(parsers, patterns=["README.md", "CONTRIBUTING.md"], path=str(root)),
        ]
    )
