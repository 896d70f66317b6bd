"""Terms: each word of the glossary leads there, where a page uses it first.

An entry of ``docs/glossary.md`` is a paragraph that begins in bold; what is bold in it are its
words, and the pages it links to explain them, so those need no link. Words that are also
everyday ones stay bare: the glossary's front matter lists them, ``unlinked: [value]``. And where a
phrase means another thing, ``everyday: [in your head]``, its words are passed over.
"""

import posixpath
import re
from dataclasses import dataclass
from typing import Any

from markdown.extensions.toc import slugify
from mkdocs.utils import get_relative_url
from mkdocs.utils.meta import get_data
from remembered import remembered

SOURCE = "glossary.md"
ENTRY = re.compile(r"^\*\*.*$", re.MULTILINE)
SYNONYM = re.compile(r"^\*\*[^*]+\*\*(?:, `[^`]*`)?, or ([\w -]+):")
# Where no link may stand, or where a word is not read as prose; and any other tag.
CLOSED = re.compile(
    r"(<(a|code|pre|figure|math|table|summary|script|button|label|h[1-6])\b.*?</\2>"
    r'|<p class="admonition-title">.*?</p>|<[^>]*>)',
    re.DOTALL,
)


@dataclass(frozen=True)
class Entry:
    anchor: str
    words: tuple[str, ...]
    explained: frozenset[str]  # the pages that say more


entries: list[Entry] = []
everyday: list[str] = []
page_of_terms: Any = None


def read(text: str) -> list[Entry]:
    body, about = get_data(text)
    everyday[:] = about.get("everyday", [])
    bare = {str(word).lower() for word in about.get("unlinked", [])}
    found = []
    for match in ENTRY.finditer(body):
        said = match[0]
        bold = re.findall(r"\*\*([^*]+)\*\*", said)
        names = [name for words in bold for name in re.split(r", (?:and )?| and ", words)]
        names += SYNONYM.findall(said)
        words = tuple(name for name in names if name.lower() not in bare)
        links = re.findall(r"\]\(([^)#]+)", said)
        anchor = "term-" + slugify(bold[0], "-")
        found.append(Entry(anchor, words, frozenset(map(posixpath.normpath, links))))
    return found


def on_files(files: Any, config: Any) -> Any:
    global page_of_terms
    page_of_terms = files.get_file_from_path(SOURCE)
    entries[:] = read(page_of_terms.content_string) if page_of_terms else []
    return files


def pattern(word: str) -> str:
    """The word, in the plural too, and with a capital where a sentence begins."""
    first, rest = word[0], re.escape(word[1:])
    plural = f"(?:{rest[:-1]}ies|{rest})" if rest.endswith("y") else f"{rest}s?"
    return f"[{first.upper()}{first.lower()}]{plural}"


def spaced(phrase: str) -> str:
    """The phrase, wherever its line is broken."""
    return r"\s+".join(map(re.escape, phrase.split()))


@remembered
def linked(
    content: str, here: str, address: str, entries: tuple[Entry, ...], everyday: tuple[str, ...]
) -> str:
    open_terms = {
        pattern(word): entry
        for entry in entries
        for word in entry.words
        if here not in entry.explained
    }
    if not open_terms:
        return content
    longest = sorted(open_terms, key=len, reverse=True)
    any_term = re.compile(
        r"(?<![\w-])(?:"
        + "|".join([*map(spaced, everyday), *(f"({word})" for word in longest)])
        + r")(?![\w-])"
    )
    done = set[str]()
    bold = False

    def link(match: re.Match[str]) -> str:
        if not match.lastindex:
            return match[0]
        entry = open_terms[longest[match.lastindex - 1]]
        if entry.anchor in done:
            return match[0]
        done.add(entry.anchor)
        # In bold, the page itself says what the word means.
        if bold:
            return match[0]
        return f'<a class="term" href="{address}#{entry.anchor}">{match[0]}</a>'

    parts = CLOSED.split(content)
    # Of each three: between, closed, and the name of what is closed.
    for at, tag in enumerate(["", *parts[1::3]]):
        bold = tag == "<strong>" or (bold and tag != "</strong>")
        parts[3 * at] = any_term.sub(link, parts[3 * at])
    del parts[2::3]
    return "".join(parts)


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    source = page.file.src_uri
    if source == SOURCE:
        anchors = iter([entry.anchor for entry in entries])
        return re.sub("<p><strong>", lambda p: f'<p id="{next(anchors)}"><strong>', content)
    if page_of_terms is None or 'class="language-python' not in content:
        return content
    if source.startswith("reference/"):
        return content
    address = get_relative_url(page_of_terms.url, page.url)
    return linked(content, source, address, tuple(entries), tuple(everyday))
