"""Builds of small made-up sites: what the hooks do with hard pages, and what stops a build."""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from built import BELOW, ROOT, Page, broken_links, build

PAGE = r"""# Brackets and formulas

C19: q[i], W[q][k] and [C] are no links. It costs \$5, or $5 and $10. `0.75<!-- = A[1] -->` is code.

A pin 0.75<!-- = A[1, 0] > 0 -->, code `(3, 3)`<!-- = A.shape -->, **bold 2**<!-- = n -->,
$4 \times 8$<!-- = shape -->, a source 0.1<!-- given: Vaswani et al. 2017, section 5.4 -->.

## A heading with 3<!-- = n --> and $W_{QK}$

| a | b |
|---|---|
| 0.5<!-- = x | y --> | $\sqrt{d_\text{head}}$ |

!!! note "Title 2<!-- = d["x"] -->"
    Boxed 0.25<!-- = A[1, 1] -->.

    $$\begin{aligned} z &= A V \\ h(x) &= z W_O \end{aligned}$$

$$
\begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}
$$<!-- = I -->

![Two cells.](img/two.svg)<!-- = draw(A) -->

![The same two cells.](img/two.svg)<!-- = draw(A) -->
"""
PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" role="img" \
aria-labelledby="p-t p-d"><title id="p-t">Cells</title><desc id="p-d">1 &lt; 2.</desc>\
<metadata>{&quot;rows&quot;: [&quot;&lt;s&gt;&quot;], &quot;columns&quot;: [&quot;b&quot;], \
&quot;values&quot;: [[0.5]], &quot;reads&quot;: &quot;rows read columns&quot;}</metadata>\
<clipPath id="p-c"><rect width="9" height="9"/></clipPath>\
<rect width="9" height="9" clip-path="url(#p-c)"/></svg>
"""
LAB = '''# %% [markdown]
# # A lab
#
# See [the page](../index.md#a-heading-with-3-and-wqk), $x_0$ and q[i].
#
# ## Set-up
#
# !!! note "A box"
#     With 0.5<!-- = x --> in it.

# %%
print("<b>&")
1 / 4

# %% [markdown]
# ```output
# <b>&
# 0.25
# ```
#
# ## Set-up
#
# The same heading again.

# %%
class Picture:
    def _repr_svg_(self):
        return """<svg xmlns="http://www.w3.org/2000/svg" role="img"><title>Made</title>
        <rect width="9" height="9"/></svg>"""


Picture()

# %%
# only a comment
'''


@dataclass(frozen=True)
class Built:
    folder: Path
    code: int
    said: str
    before: dict[str, bytes]
    after: dict[str, bytes]

    def html(self, page: str) -> str:
        return (self.folder / page / "index.html").read_text(encoding="utf-8")


def small_site(project: Path, files: dict[str, str]) -> Built:
    """The project's own configuration, theme and hooks around other pages."""
    for part in ("hooks", "overrides", "docs/assets", "tests/checker"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, project / part, ignore=ignore)
    fonts = ROOT / ".cache" / "fonts"
    if fonts.is_dir():
        shutil.copytree(fonts, project / ".cache" / "fonts")
    (project / "src").mkdir()
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    settings = re.sub(r"^nav:\n(?:[ #].*\n|\n(?= ))+", "", settings, flags=re.M)
    (project / "mkdocs.yml").write_text(settings, encoding="utf-8")
    for name, text in files.items():
        path = project / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    before = contents(project)
    done = build(project, project / "site", f"http://127.0.0.1/{BELOW}/")
    return Built(project / "site", done.returncode, done.stderr, before, contents(project))


def contents(project: Path) -> dict[str, bytes]:
    """Every file which git would see."""
    unseen = {"site", ".cache", "__pycache__"}
    found = (path for path in project.rglob("*") if path.is_file())
    return {
        str(path): path.read_bytes()
        for path in found
        if not unseen & set(path.relative_to(project).parts)
    }


SITES = {
    "kinds": {"index.md": PAGE, "img/two.svg": PICTURE, "labs/kinds.py": LAB},
    "broken": {
        "index.md": "# Home\n\nA formula $\\nosuch{x}$.\n\n[away](nowhere.md)\n",
        "labs/broken.py": "# %% [markdown]\n# # Broken\n\n# %%\n1 / 0\n",
    },
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    folders = [tmp_path_factory.mktemp(name) for name in SITES]
    with ThreadPoolExecutor(2) as both:
        return dict(zip(SITES, both.map(small_site, folders, SITES.values()), strict=True))


def test_c1_an_error_in_a_lab_stops_the_build(built: dict[str, Built]) -> None:
    broken = built["broken"]
    assert broken.code != 0
    assert "labs/broken.py: a cell of this lab failed: ZeroDivisionError" in broken.said
    assert not (broken.folder / "labs" / "broken" / "index.html").exists()


def test_a_formula_that_cannot_be_read_is_named(built: dict[str, Built]) -> None:
    assert re.search(r"WARNING.*index\.md: the formula \\nosuch\{x\}", built["broken"].said)


def test_c19_brackets_are_no_links(built: dict[str, Built]) -> None:
    kinds = built["kinds"]
    assert kinds.code == 0, kinds.said
    assert "WARNING" not in kinds.said
    assert "q[i], W[q][k] and [C] are no links" in kinds.html("")
    assert "It costs $5, or $5 and $10." in kinds.html("")


def test_c20_a_build_leaves_the_sources_alone(built: dict[str, Built]) -> None:
    assert built["kinds"].before == built["kinds"].after


def test_pins_are_marked(built: dict[str, Built]) -> None:
    html = built["kinds"].html("")
    for part in (
        '<span class="pin" title="A[1, 0] &gt; 0">0.75</span>',
        '<span class="pin" title="A.shape"><code>(3, 3)</code></span>',
        '<span class="pin" title="n"><strong>bold 2</strong></span>',
        '<span class="given" title="Vaswani et al. 2017, section 5.4">0.1</span>',
        '<td><span class="pin" title="x | y">0.5</span></td>',
        "<code>0.75&lt;!-- = A[1] --&gt;</code>",
        '<p class="admonition-title">Title 2</p>',
        '<h2 id="a-heading-with-3-and-wqk">A heading with 3 and <math',
    ):
        assert part in html, part
    assert re.search(
        r'<span class="pin" title="shape"><math[^>]*><mn>4</mn>.*?</math></span>', html
    )
    assert "<!--" not in html


def test_formulas_are_mathml(built: dict[str, Built]) -> None:
    html = built["kinds"].html("")
    assert html.count('display="block"') == 2
    assert "<msqrt><msub><mi>d</mi><mtext>head</mtext></msub></msqrt>" in html
    assert "aligned" not in html
    assert (built["kinds"].folder / "assets/fonts/math.woff2").read_bytes()[:4] == b"wOF2"


def test_pictures_are_figures_with_tables(built: dict[str, Built]) -> None:
    html = built["kinds"].html("")
    assert html.count('<figure class="picture"') == 2
    assert 'aria-label="Two cells." aria-describedby="p1-p-d"' in html
    assert 'clip-path="url(#p2-p-c)"' in html
    assert '<th scope="row">&lt;s&gt;</th><td>0.5</td>' in html
    assert "<metadata" not in html
    assert "<title id" not in html


def test_labs_are_pages_like_others(built: dict[str, Built]) -> None:
    """C13, C15, C18, C28: anchors, links, boxes, math and pins work, each result shown once."""
    html = built["kinds"].html("labs/kinds")
    page = Page(html)
    assert not broken_links(built["kinds"].folder)
    assert len(page.ids) == len(set(page.ids))
    assert {"set-up", "set-up_1"} <= set(page.ids)
    assert "".join(page.code).count("<b>&\n0.25") == html.count("language-output") == 1
    assert 'class="admonition note"' in html
    assert '<span class="pin" title="x">0.5</span>' in html
    assert 'aria-label="Made"' in html
    assert "only a comment" in "".join(page.code)
    assert "<title>A lab - " in html
    assert len(html) < 40_000
