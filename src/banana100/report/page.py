"""The page: templates, style and script put together to one file that needs nothing else."""

import base64
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from banana100.params import Params
from banana100.report.drawings import Drawing, PanelDrawing
from banana100.report.filmstrips import Strip
from banana100.report.provenance import Provenance
from banana100.report.results import Results
from banana100.revision import Revision

# Which params decide the result, for the section on method: what re-runs report is named in dvc.yaml.
_SHOWN = {
    "seeds": {"size", "count", "sources"},
    "scoring": {"metrics", "drift", "precision"},
    "ranking": {"metrics", "baseline_step", "probe_steps", "spread", "min_drift", "bootstrap", "random_state"},
}


@dataclass(frozen=True)
class Content:
    """What the page shows."""

    params: Params
    results: Results
    provenance: Provenance
    revision: Revision | None
    panels: list[PanelDrawing]
    drift: str | None
    findings: list[Drawing]
    strips: list[Strip]
    data: dict[str, Any]


def render(content: Content) -> str:
    """The whole page as HTML; everything that comes from data stands in it as text."""
    environment = Environment(
        loader=PackageLoader("banana100", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "whole": whole}
    script = environment.loader.get_source(environment, "page.js")[0]
    style = environment.loader.get_source(environment, "page.css")[0]
    return environment.get_template("index.html.j2").render(
        vars(content),
        data=_json(content.data),
        shown_params=_shown_params(content.params),
        style=Markup(style),
        script=Markup(script),
        # what else might come to stand in the page as a script is not run
        script_digest="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        svg=Markup,  # our own drawings, in which matplotlib has escaped all names
    )


def number(value: float | None, form: str) -> str:
    """A number as text: a dash where there is none, infinity as such, and a minus sign."""
    if value is None or math.isnan(value):
        return "–"
    return "∞" if math.isinf(value) else (form % value).replace("-", "−")


def whole(value: float) -> str:
    """A whole number with its thousands apart."""
    return f"{value:,.0f}"


def _json(data: dict[str, Any]) -> Markup:
    """JSON for a script element, which no text in it can end."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _plain(value: Any) -> Any:
    """A number of numpy's or pandas' as JSON knows it."""
    return value.item()


def _shown_params(params: Params) -> str:
    shown: dict[str, Any] = {
        "campaigns": {
            name: campaign.model_dump(mode="json", exclude_none=True)
            for name, campaign in params.active_campaigns().items()
        }
    }
    for block, keys in _SHOWN.items():
        shown[block] = getattr(params, block).model_dump(
            mode="json", include=keys, exclude_defaults=True, exclude_none=True
        )
    return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100)
