"""Labs: percent scripts which the build runs, shown as ordinary pages.

mkdocs-jupyter says which files are labs and how they are executed. What it would show is
another engine's HTML: 590 KB of styles, no math, links and admonitions left as typed. So
the executed cells become Markdown here, fences and all, and MkDocs renders that page like
every other.

What a run gave is kept in ``.cache`` until the lab, the package or what runs them changes, so
that a build in which none of them did trains nothing again.
"""

import contextlib
import hashlib
import logging
import os
import re
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import store
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files

log = logging.getLogger("mkdocs.hooks.labs")

ANSI = re.compile(r"\x1b\[[0-9;]*m")
KERNEL = {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}
LOADED = Path(__file__).read_bytes()  # while a site is served, the file may change and this not
WRITTEN_OUTPUT = re.compile(r"\A\s*```output\n.*?\n```[ \t]*\n?", re.DOTALL)


# Labs run one after another, beside the rendering of the other pages.
worker = ThreadPoolExecutor(max_workers=1)
runs: dict[str, Future[Any]] = {}


def on_files(files: Any, config: Any) -> Any:
    runs.clear()
    plugin = config.plugins["mkdocs-jupyter"]
    cache = Path(config.config_file_path).parent / ".cache" / "labs"
    for file in files:
        if plugin.should_include(file):
            lab = Path(file.abs_src_path)
            runs[file.src_uri] = worker.submit(kept_or_executed, lab, plugin.config, cache)
    # Last in line, so that no page waits for a lab.
    return Files(sorted(files, key=lambda file: file.src_uri in runs))


def on_pre_page(page: Any, config: Any, files: Any) -> Any:
    """Give a lab back the ordinary ``render`` which mkdocs-jupyter replaced."""
    if page.file.src_uri in runs:
        page.__dict__.pop("render", None)
    return page


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    name = page.file.src_uri
    if name not in runs:
        return markdown
    from nbclient.exceptions import CellExecutionError

    try:
        return as_markdown(runs[name].result(), name)
    except CellExecutionError as error:
        failed = f"{name}: a cell of this lab failed: {error.ename}: {error.evalue}"
        raise PluginError(ANSI.sub("", f"{failed}\n{error.traceback}")) from None


def kept_or_executed(path: Path, options: Any, cache: Path) -> Any:
    """The lab's notebook as it was last run, if nothing that decides what it gives has changed."""
    import nbformat

    kept = cache / f"{path.stem}-{made_of(path, options)}.lab"
    text = store.recall(kept)
    if text is not None:
        return nbformat.reads(text.decode(), as_version=4)
    notebook = executed(str(path), options)
    with contextlib.suppress(OSError):
        for earlier in cache.glob(f"{path.stem}-{'?' * 16}.lab"):
            earlier.unlink(missing_ok=True)
    store.keep(kept, nbformat.writes(notebook).encode())
    return notebook


def made_of(path: Path, options: Any) -> str:
    """Short for all that decides what a lab gives: its text, the package, and what runs them."""
    spec = find_spec("tinyattn")
    package = Path(spec.origin).parent if spec and spec.origin else None
    files = sorted(package.rglob("*")) if package else []
    said = hashlib.sha256(repr((sys.version, version("torch"), KERNEL, dict(options))).encode())
    said.update(LOADED)
    for file in [path, *files]:
        if file.is_file() and "__pycache__" not in file.parts:
            said.update(f"\n{file.name} {file.stat().st_size}\n".encode() + file.read_bytes())
    return said.hexdigest()[:16]


def executed(path: str, options: Any) -> Any:
    """The lab's notebook after a run from top to bottom, by the settings of mkdocs-jupyter."""
    import jupytext
    from mkdocs_jupyter.nbconvert2 import get_nbconvert_app
    from nbconvert.preprocessors import ExecutePreprocessor

    for variable, value in KERNEL.items():
        os.environ.setdefault(variable, value)
    app = get_nbconvert_app(
        execute=options["execute"],
        kernel_name=options["kernel_name"],
        allow_errors=options["allow_errors"],
    )
    run = ExecutePreprocessor(config=app.config, extra_arguments=["--log-level=ERROR"])
    notebook = jupytext.read(path)
    run.preprocess(notebook, {"metadata": {"path": os.path.dirname(path)}})
    return notebook


def as_markdown(notebook: Any, name: str) -> str:
    parts: list[str] = []
    shown = False
    for cell in notebook.cells:
        if cell.cell_type == "code":
            parts.append(fence("python", cell.source))
            results = [result(output, name) for output in cell.outputs]
            text = "".join(r for kind, r in results if kind == "text")
            if text:
                parts.append(fence("output", text.rstrip("\n")))
            parts += [r for kind, r in results if kind == "picture"]
            shown = bool(text)
        else:
            # A result written in the script, for whoever reads it there, is the one just run.
            parts.append(WRITTEN_OUTPUT.sub("", cell.source) if shown else cell.source)
            shown = False
    return "\n\n".join(parts)


def result(output: Any, name: str) -> tuple[str, str]:
    if output.output_type == "stream":
        if output.name == "stderr":
            log.warning("%s: a cell writes to stderr: %s", name, output.text.strip()[:200])
            return "nothing", ""
        return "text", output.text
    if output.output_type == "error":
        return "text", f"{output.ename}: {output.evalue}\n"
    data = output.data
    if "image/svg+xml" in data:
        # One line of raw HTML; the picture hook finds it by its role and dresses it.
        svg = re.sub(r"\s*\n\s*", " ", data["image/svg+xml"].strip())
        return "picture", f'<div class="lab-picture">{svg}</div>'
    return "text", data.get("text/plain", "") + "\n"


def fence(language: str, text: str) -> str:
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks}{language}\n{text}\n{ticks}"
