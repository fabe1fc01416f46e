"""Stage report: fill the page's template and write it as one self-contained file."""

import math

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from banana100 import paths
from banana100.files import keep_only, write_atomically
from banana100.params import Params
from banana100.report import contact_sheet, figures, results


def run(params: Params) -> None:
    """Write `metrics/report/index.html`.

    Raises:
        UserError: an output of rank is missing or damaged.
    """
    found = results.read()
    metrics = found.verdicts["metric"].tolist()
    curves = figures.change_with_step(found.curves, metrics, params.ranking.baseline_step, params.ranking.probe_steps)
    environment = Environment(
        loader=PackageLoader("banana100", "report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = environment.get_template("page.html.j2").render(
        results=found,
        verdicts=found.verdicts.to_dict("records"),
        figure=_figure,
        curves=Markup(curves),  # our own SVG, in which matplotlib has escaped all names
        strips=contact_sheet.strips(found.chains, params.previews.steps),
        ranking=params.ranking,
        campaigns=params.active_campaigns(),
    )
    write_atomically(paths.REPORT_PAGE, page.encode())
    keep_only(paths.REPORT, {paths.REPORT_PAGE})
    print(f"report: {paths.REPORT_PAGE} ({len(page) // 1000} kB)")


def _figure(value: float | None, form: str) -> str:
    """A number as text: a dash where there is none, infinity as such."""
    if value is None or math.isnan(value):
        return "–"
    return "∞" if math.isinf(value) else form % value
