"""How a page writes what is checked: regular expressions, and nothing else.

A literal stands directly before its comment::

    0.75<!-- = A[1, 0] -->                      a pin: the expression must give the literal
    0.01<!-- > error -->                        a bound: the literal is above the expression
    0.1<!-- given: Vaswani et al. 2017 -->      no code computes it, this source does
    ![alt](x.svg)<!-- = draw(A) -->             a picture: the expression draws the file

The site's build reads the same expressions, so this module imports nothing heavy.
"""

import re

DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+−]?\d+)?|\.\d+"
SIGNED = rf"[-−+]?(?:{DIGITS})"
SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹½⅓⅔¼¾⅐-⅞Ⅰ-ↈ①-⓿"  # inside a character class, so with ranges
NAME = rf"[^\W\d{SUPERSCRIPT}][^\W{SUPERSCRIPT}]*"
# fmt: off
WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen", "twenty",
)
# fmt: on

AUTHOR = r"[A-Z][^\W\d_]+(?:[-’'][^\W\d_]+)*"
CITATION = (
    rf"{AUTHOR}(?:,\s+{AUTHOR})*(?:,?\s+(?:and|&)\s+{AUTHOR}|\s+et\s+al\.)?"
    r",?\s+\(?(?:19|20)\d\d[a-z]?\)?"
)
_PLACE = r"(?:\d+(?:\.\d+)*|[A-Z](?:\.\d+)+)"
SECTION = (
    r"(?:§§?\s?|(?:[Ss]ections?|[Aa]ppendix|[Ee]quations?|[Ff]igures?|[Tt]ables?|[Cc]hapters?"
    rf"|[Pp]ages?)\s+){_PLACE}(?:(?:,|,?\s+and|\s+to|\s*–)\s*{_PLACE})*"
)

# Inside brackets a literal may be wrapped over two lines, but holds no comment.
_IN = r"(?:(?!<!--)(?:[^()\[\]\n]|\n(?!\s*\n)))*"
_ROUND = rf"\({_IN}(?:[(\[]{_IN}(?:[(\[]{_IN}[)\]]{_IN})*[)\]]{_IN})*\)"
_SQUARE = rf"\[{_IN}(?:[(\[]{_IN}(?:[(\[]{_IN}[)\]]{_IN})*[)\]]{_IN})*\]"
IMAGE = (
    r"!\[(?P<alt>[^\]]*)\]\((?P<target>[^)\s]+)(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'))?\)"
    r"(?:\{[^}\n]*\})?"
)

LITERAL = "|".join(
    (
        r"\*\*(?!\s)[^*\n]+\*\*",  # bold
        r"(?<!\*)\*(?![\s*])[^*\n]+\*",  # italic
        r"``(?!`)[^\n]+?``(?!`)|(?<!`)`(?!`)[^`\n]+`",  # code
        r"\$\$(?:(?!\$\$|<!--).)+\$\$|(?<!\$)\$(?!\$)[^$\n]+\$",  # math
        r"“[^”\n]+”|(?<!\w)\"[^\"\n]+\"",  # quoted
        rf"{_SQUARE}\([^()\s]+\)",  # link
        rf"(?<![\w\])`]){_ROUND}",  # shape, or a phrase in parentheses
        rf"(?<![\w\])`]){_SQUARE}",  # list
        rf"(?<!\w){SECTION}|\b{CITATION}",
        rf"(?<![\w.,])(?:{SIGNED})(?:\s*×\s*(?:{DIGITS}))+",  # 4 × 8
        rf"(?<![\w.,])(?:{SIGNED})(?:,\s(?:{SIGNED}))*,?\sand\s(?:{SIGNED})",  # 2, 5 and 3
        rf"(?<![\w.,])(?:{SIGNED})(?:\s?%)?",
        r"(?<![\w.,)>])[-−+](?:inf\b|∞)|∞",
        r"(?<![\w`*])[^\W\d][\w'’-]*",  # word
    )
)
_PIN = r"<!--\s*(?P<op>[=<>])\s*(?P<expression>[^\s=<>-].*?|-.*?)\s*-->"
_GIVEN = r"<!--\s*given:\s*(?P<source>\S.*?)\s*-->"


def _renamed(pattern: str) -> str:
    """The same pattern for a second place in one expression, where names are taken."""
    return re.sub(r"\?P<(op|expr|alt|target)\w*>", r"?P<\g<1>2>", pattern)


# What prose is made of, tried in this order at each character: first what says a number with
# its comment, then what holds no number, and at last a number that nothing vouches for.
TOKEN = re.compile(
    r"(?:(?=\S)|^)(?:"  # a blank begins nothing, but a line's first may; this alone saves half
    + "|".join(
        (
            rf"(?P<picture>{IMAGE}){_PIN}",
            rf"(?P<literal>{LITERAL})(?:{_renamed(_PIN)}|{_GIVEN})",
            r"(?P<comment><!--.*?(?:-->|\Z))",
            r"(?P<code>(?P<ticks>`+)(?!`)(?:(?!\n\s*\n).)+?(?<!`)(?P=ticks)(?!`))",
            rf"(?P<image>{_renamed(IMAGE)})",
            r"(?P<math>\$\$.+?\$\$|(?<![\\$])\$(?![\s$])[^$\n]+\$)",
            r"(?P<skip>\]\([^)\s]*(?:\s+\"[^\"\n]*\")?\)|https?://[^\s)>]+|</?[A-Za-z][^<>]*>"
            r"|\{:[^}\n]*\}|\{\s*[#.][A-Za-z][^}\n]*\}|\[\^[^\]\s]+\]|&\#?\w+;"
            r"|^[ \t]*\[[^\]\n]+\]:\s*\S+)",
            r"(?P<marker>^[ \t>]*(?:[-*+][ \t]+)*\d{1,2}[.)](?=\s))",
            rf"(?P<section>(?<!\w){SECTION})",
            rf"(?P<citation>\b{CITATION})",
            rf"(?P<name>[A-Z]\w*(?:-\d[\w.]*\w|-\d)(?!\w)|{NAME})",
            rf"(?P<number>{DIGITS}|[{SUPERSCRIPT}]+)",
        )
    )
    + ")",
    re.S | re.M,
)
# What a reader sees of an address, a tag or an attribute list: its title, its description.
SEEN = re.compile(
    r"""\s(?:title|alt|aria-label)\s*=\s*("[^"]*"|'[^']*'|[^\s>}]+)|^\]\([^)]*?\s("[^"]*")\)$"""
)
NUMBER = re.compile(DIGITS)
IN_CODE = re.compile(rf"{NAME}|(?P<number>{DIGITS})")
# In code, strings included: names are none, "\\n3" holds a 3, and a number takes all its signs.
IN_SOURCE = re.compile(
    r"\\.|[^\W\d]\w*|(?P<number>(?:\d[\w.]*|\.\d\w*)(?:(?<=[eE])[-+]\d+)?)", re.S
)
IN_MATH = re.compile(
    rf"(?<=[A-Za-z}})'])_(?:\d|\{{\d+(?:,\s*\d+)*\}})|(?P<number>{DIGITS}|[{SUPERSCRIPT}]+)"
)
