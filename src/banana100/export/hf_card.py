"""The card of the form `hf`: what the dataset is, under the headings of Datasheets for Datasets, from the tables."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
from huggingface_hub import DatasetCardData
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from banana100.catalogue.metrics import DRIFT_METRICS
from banana100.export import hf_rows
from banana100.export.lineage import CITATION, PAPER, SIMULATED, Licence, Lineage
from banana100.lineage import tables
from banana100.lineage.columns import SCHEMAS, TABLES
from banana100.lineage.tables import CHAIN
from banana100.report.provenance import Provenance

SHARDS = Path("data/images")
# Terms of services that answer with images, by backend.
_SERVICES = {"gemini": ("Gemini API Additional Terms of Service", "https://ai.google.dev/gemini-api/terms")}
_SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
_SHOWN_PROMPTS = 10
_MARKS = re.compile(r"([\\`*_\[\]<>|&$~#])")


def render(lineage: Lineage, rows: pd.DataFrame) -> dict[str, str]:
    """The texts to write, by file name; everything that comes from tables stands in them as text.

    Args:
        lineage: the tables.
        rows: those of `hf_rows.rows`.
    """
    environment = Environment(
        loader=PackageLoader("banana100", "export/templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=as_text,
    )
    environment.filters["code"] = code
    facts = _facts(lineage, rows)
    names = {"README.md": "hf_card.md.j2", "LICENSE.md": "hf_licence.md.j2"}
    return {name: environment.get_template(template).render(facts) for name, template in names.items()}


def as_text(value: Any) -> str:
    """A value with the marks of Markdown and HTML escaped, on one line; Markup stays as it is."""
    return value if isinstance(value, Markup) else _MARKS.sub(r"\\\1", " ".join(str(value).split()))


def code(name: str) -> Markup:
    """A name as code, in which no mark but its own end means anything."""
    return Markup(f"`{name.replace('`', ' ')}`")


def licences(lineage: Lineage) -> list[Licence]:
    """All terms: those of `Lineage.licences`, of trained parameters, and of services that answered with images."""
    found = list(lineage.licences)
    trained = {row["metric"]: row["parameters_licence"] for row in lineage.scorers if row["parameters_licence"]}
    for terms in dict.fromkeys(trained.values()):
        names = ", ".join(metric for metric in trained if trained[metric] == terms)
        found.append(Licence(terms, None, f"trained parameters that the scores of {names} rest on"))
    for backend in sorted({row["backend"] for row in lineage.answers if not row["simulated"]} & _SERVICES.keys()):
        found.append(Licence(*_SERVICES[backend], f"images that {backend} answered"))
    return found


def _facts(lineage: Lineage, rows: pd.DataFrame) -> dict[str, Any]:
    """What the templates name."""
    provenance = _provenance(lineage)
    seeds = lineage.rows("seeds")
    prompts = list(dict.fromkeys(rows["prompt"].dropna()))
    replicas = int(rows["step"].gt(0).sum())
    simulated = int((rows["simulated"] & rows["step"].gt(0)).sum())
    name = "Banana100 replicas"
    if simulated:
        name += " (simulated)" if simulated == replicas else " (partly simulated)"
    return {
        "name": name,
        "front_matter": Markup(_front_matter(lineage, len(rows), name, simulated)),
        "lineage": lineage,
        "images": len(rows),
        "replicas": replicas,
        "chains": len(rows.drop_duplicates(CHAIN)),
        "simulated": simulated,
        "simulated_seeds": sum(row["simulated"] for row in lineage.seed_requests.values()),
        "simulated_means": SIMULATED,
        "makers": ", ".join(sorted({row["answered_by"] for row in lineage.requests})) or "none",
        "metrics": sum(row["metric"] not in DRIFT_METRICS for row in lineage.scorers),
        "drift_metrics": sum(row["metric"] in DRIFT_METRICS for row in lineage.scorers),
        "columns": {name: Markup(meaning) for name, meaning in hf_rows.meanings(lineage).items()},
        "tables": [(name, _row_count(lineage, name), Markup(TABLES[name])) for name in SCHEMAS if name != "images"],
        "campaigns": _campaigns(lineage, rows, provenance),
        "candidates": len(seeds),
        "prompts": prompts[:_SHOWN_PROMPTS],
        "more_prompts": len(prompts[_SHOWN_PROMPTS:]),
        "archives": provenance.archives,
        "dates": provenance.dates,
        "refused": tables.records(provenance.refused),
        "failed": tables.records(provenance.failed),
        "licences": [(licence, licence.url and Markup(licence.url)) for licence in licences(lineage)],
        "paper": Markup(PAPER),
        "citation": Markup(CITATION.replace(", ", ",\n  ").replace("}}", "}\n}")),
    }


def _provenance(lineage: Lineage) -> Provenance:
    names = ["seed_requests", "images", "requests", "refusals", "parked", "scorers", "failures"]
    seeds = pd.DataFrame(lineage.seeds, columns=tables.SEEDS.names)
    return Provenance(seeds=seeds, **{name: lineage.rows(name) for name in names})


def _campaigns(lineage: Lineage, rows: pd.DataFrame, provenance: Provenance) -> list[dict[str, Any]]:
    """What each campaign is made of, and what it cost."""
    spent = {row["campaign"]: row for row in tables.records(provenance.costs)}
    answered = {row["request_id"]: row["answered_by"] for row in lineage.requests}
    parked = lineage.rows("parked")["campaign"].value_counts()
    found = []
    for campaign, of in rows.groupby("campaign"):
        cost = spent.get(campaign, {"refusals": 0, "cost_usd": 0.0, "unpaid_usd": 0.0})
        found.append(
            {
                "name": campaign,
                "seeds": of["seed"].nunique(),
                "chains": len(of.drop_duplicates(CHAIN)),
                "images": len(of),
                "models": ", ".join(sorted(set(of["request_id"].dropna().map(answered)))),
                "simulated": int(of["simulated"].sum()),
                "refusals": cost["refusals"],
                "parked": int(parked.get(campaign, 0)),
                "paid": f"{cost['cost_usd'] - cost['unpaid_usd']:.2f}",
            }
        )
    return found


def _row_count(lineage: Lineage, table: str) -> int:
    return sum(len(file.rows) for file in lineage.files(table))


def _front_matter(lineage: Lineage, images: int, name: str, simulated: int) -> str:
    """What the Hub reads; its own library writes it."""
    return DatasetCardData(
        pretty_name=name,
        license="other",  # several, see LICENSE.md
        license_name="banana100-mixed",
        license_link="LICENSE.md",
        task_categories=["image-to-image", "other"],
        size_categories=next((said for bound, said in _SIZES.items() if images < bound), "1M<n<10M"),
        annotations_creators="machine-generated",
        tags=["image-quality-assessment", "nr-iqa", "image-generation", "provenance"] + ["simulated"] * bool(simulated),
        configs=_configs(lineage),
    ).to_yaml()


def _configs(lineage: Lineage) -> list[dict[str, Any]]:
    """Which files are which table. `datasets` loads no file without rows: such a table has no config."""
    images = {"split": "train", "path": f"{SHARDS.as_posix()}/*.parquet"}
    found = [{"config_name": "images", "default": True, "data_files": [images]}]
    for name in SCHEMAS:
        files = [table.path.as_posix() for table in lineage.files(name) if len(table.rows)]
        if files and name != "images":
            path = files if name == "scores" else files[0]
            found.append({"config_name": name, "data_files": [{"split": "train", "path": path}]})
    return found
