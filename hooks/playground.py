"""The playground: weights of two models as scripts, so that they load from a file as well.

A page may fetch nothing from a file, but it may always load a script. The bytes of the half
precision weights are split: the high ones, which hold sign and exponent, become one letter each,
which compresses; the low ones are as good as random and become base64. Nothing is rounded.
"""

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

PAGE = "playground.md"
MODELS = ["text-2l", "induction-2l"]

# Letters that stand in a script's string as they are, and behind them some for rare bytes.
PLAIN = "".join(chr(n) for n in range(0x20, 0x7F) if chr(n) not in "\"'\\<&")
LETTERS = PLAIN + "".join(chr(n) for n in range(0x100, 0x100 + 256 - len(PLAIN)))


def split(numbers: bytes) -> dict[str, Any]:
    """Half precision numbers, low byte first, as text: ``tinyattn.unpack`` puts them together."""
    high, low = numbers[1::2], numbers[0::2]
    common = [byte for byte, _ in Counter(high).most_common()]
    letters = LETTERS[: len(common)]
    return {
        "letters": letters,
        "bytes": common,
        "high": high.decode("latin-1").translate(dict(zip(common, letters, strict=True))),
        "low": base64.b64encode(low).decode("ascii"),
    }


def packed(path: Path) -> dict[str, Any]:
    """A safetensors file of half precision as text, with the names and shapes of its tensors."""
    stored = path.read_bytes()
    start = 8 + int.from_bytes(stored[:8], "little")
    header = json.loads(stored[8:start])
    header.pop("__metadata__")
    tensors = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
    if any(entry["dtype"] != "F16" for _, entry in tensors):
        raise ValueError(f"{path.name}: the playground takes weights in half precision")
    return {"shapes": [[name, entry["shape"]] for name, entry in tensors], **split(stored[start:])}


def script(name: str, models: Path) -> str:
    """The script that hands one model to the page, and its vocabulary if it has one."""
    data = packed(models / f"{name}.safetensors")
    if name.startswith("text"):
        words = json.loads((models / "text-vocabulary.json").read_text(encoding="ascii"))
        characters = words["tokens"][1 : len(words["tokens"]) - len(words["merges"])]
        data |= {"characters": characters, "merges": words["merges"]}
    written = json.dumps(data, separators=(",", ":"))
    return f"tinyattn.packed[{json.dumps(name)}] = {written};\n"


def on_files(files: Any, config: Any) -> Any:
    """The weights lie beside the scripts, made anew by each build that has the page."""
    if files.get_file_from_path(PAGE):
        models = Path(config.config_file_path).parent / "src" / "tinyattn" / "models"
        for name in MODELS:
            address = f"assets/live/weights/{name}.js"
            files.append(File.generated(config, address, content=script(name, models)))
    return files


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """In the page's own content, so that a visit by the theme's navigation finds it too."""
    if page.file.src_uri != PAGE:
        return content
    style = get_relative_url("assets/live/playground.css", page.url)
    return f'<link rel="stylesheet" href="{style}">\n{content}'


@event_priority(-100)  # the search has taken its sections by then
def on_page_context(context: Any, page: Any, config: Any, nav: Any) -> Any:
    """The page's address holds what is shown, so no list of contents may write its own there."""
    if page.file.src_uri == PAGE:
        page.toc.items.clear()
    return context
