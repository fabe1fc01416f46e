"""Stage report: read what is known, draw the figures, fill the page's template, write it all."""

from banana100 import paths, revision
from banana100.files import keep_only, write_atomically
from banana100.params import Params
from banana100.report import drawings, filmstrips, page, page_data, provenance, results


def run(params: Params) -> None:
    """Write `metrics/report/index.html`, self-contained, and the figures beside it.

    Raises:
        UserError: an output of rank or a row table is missing or damaged.
    """
    found, known = results.read(), provenance.read()
    baseline_step = params.ranking.baseline_step
    simulated = set(found.chains.loc[found.chains["simulated"], "campaign"])
    strips = list(filmstrips.strips(found.grid, simulated, params.previews.steps, baseline_step))
    data = page_data.gather(found.grid, known, baseline_step)
    findings = list(drawings.findings(found))
    drift = drawings.reference(found, params)
    panels, curves = drawings.panels(found, params, drift)
    content = page.Content(params, found, known, revision.of_inputs(), panels, drift, findings, strips, data)
    files = {paths.REPORT_PAGE: page.render(content).encode()}
    for drawing in (curves, *findings):
        files[paths.REPORT_FIGURES / f"{drawing.name}.svg"] = drawing.file_svg
        files[paths.REPORT_FIGURES / f"{drawing.name}.png"] = drawing.file_png
    for path, data in files.items():
        write_atomically(path, data, aside=paths.REPORT)
    keep_only(paths.REPORT, files)
    print(f"report: {paths.REPORT_PAGE} ({len(files[paths.REPORT_PAGE]) // 1000} kB)")
