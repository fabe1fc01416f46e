"""How all figures look and how they are written: colours that colour-blind eyes tell apart, bytes that repeat."""

import html
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.figure import Figure

# After Okabe and Ito, Color Universal Design (2008). The page replaces these by its own, which follow its theme.
INK = "#1c1f24"
SOFT = "#5b6470"
LINE = "#c9ced6"
CHAIN = "#6b9fc8"
MEAN = "#0072b2"
DRIFT = "#b35900"
_VARIABLES = {INK: "--ink", SOFT: "--soft", LINE: "--line", MEAN: "--mean", DRIFT: "--drift"}

_PNG_DPI = 300
_PIXELS_DPI = 220  # of what is drawn as pixels inside an SVG

_STYLE = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,  # a seed may be called $x$
    "svg.hashsalt": "banana100",  # ids in the file come from this instead of chance
    "svg.fonttype": "none",
    "figure.dpi": 72,  # a unit of an SVG is a point: places in it can be computed before it is written
    "path.simplify": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor"), INK),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), SOFT),
}
_FONT = "DejaVu Sans"  # comes with matplotlib
# Where one of these is installed a PNG can show names that the first font has no letters for; browsers find their own.
_FALLBACKS = ("Noto Sans CJK JP", "IPAGothic", "IPAPGothic", "WenQuanYi Zen Hei", "Droid Sans Fallback")


@contextmanager
def applied() -> Iterator[None]:
    """Draw and write figures in this style."""
    installed = set(font_manager.get_font_names())
    families = [_FONT, *(name for name in _FALLBACKS if name in installed)]
    with mpl.rc_context(_STYLE | {"font.family": families}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


def lay_out(figure: Figure) -> None:
    """Place everything once and for all; else each writing does it anew, which takes most of the time."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def svg(figure: Figure) -> str:
    """The figure as an SVG document that is the same on every run."""
    stream = io.StringIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(stream, format="svg", dpi=_PIXELS_DPI, metadata=metadata, transparent=True)
    # the fonts of this machine are not the reader's
    return re.sub(
        r"(font(?:-family)?: [^;\"]*?)'DejaVu Sans'[^;\"]*", r"\1'DejaVu Sans', sans-serif", stream.getvalue()
    )


def inline(document: str, alt: str) -> str:
    """A figure as an element of the page: its colours follow the theme, and no id stands twice in a page.

    Args:
        document: what `svg` gives.
        alt: what it shows, for those who do not see it.
    """
    text = f'<svg role="img" aria-label="{html.escape(alt)}"' + document.split("<svg", 1)[1]
    text = re.sub(r' id="[\w.]+_\d+"', "", text)  # matplotlib names its groups so; clip paths have digests
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return text


def png(figure: Figure) -> bytes:
    """The figure as a PNG on white, for documents that take no SVG."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=_PNG_DPI, facecolor="white", metadata={"Software": None})
    return stream.getvalue()
