"""RO-Crate 1.2 in the profile Process Run Crate 0.5: a CreateAction a request, a refusal (a failed one), a scorer.

Images that are included are File entities, known by their path in the crate. Those that are not are contextual
ImageObject entities under an absolute URI, with the path that they have in the project as `localPath`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rocrate.model import ContextEntity, File
from rocrate.rocrate import ROCrate

from banana100.export.files import copy_tables, write_json
from banana100.export.lineage import AUTHORS, CITATION, NAME, PAPER, SIMULATED, Lineage, given, media_type, ni, uri_path
from banana100.files import sha256_of
from banana100.lineage.columns import TABLES

DOCUMENT = "ro-crate-metadata.json"
_PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
_DONE = {"@type": "CreateAction", "actionStatus": "http://schema.org/CompletedActionStatus"}
_FAILED = {"@type": "CreateAction", "actionStatus": "http://schema.org/FailedActionStatus"}

Entity = dict[str, Any]


def write(lineage: Lineage, folder: Path, with_images: bool) -> None:
    """Write the document and the tables."""
    copy_tables(lineage, folder)
    write_json(folder / DOCUMENT, document(lineage, with_images))


def document(lineage: Lineage, with_images: bool) -> Entity:
    """The crate's metadata."""
    crate = ROCrate(version="1.2")
    base = "" if with_images else lineage.base
    actions = [*_seed_requests(lineage), *_requests(lineage, base), *_refusals(lineage, base), *_scorings(lineage)]
    images = dict(_images(lineage, base))
    files = dict(_tables(lineage)) | (images if with_images else {})
    for path, facts in files.items():
        crate.add(File(crate, dest_path=path, properties=facts))
    for path, facts in images.items() if base else ():
        elsewhere = facts | {"@type": "ImageObject", "localPath": path}
        crate.add(ContextEntity(crate, f"{base}{uri_path(path)}", elsewhere))
    for entity in [*_study(lineage), *_software(lineage), *_inputs(lineage), *actions]:
        crate.add(ContextEntity(crate, entity["@id"], entity))
    for name, value in _root(lineage, with_images).items():
        crate.root_dataset[name] = value
    crate.root_dataset["mentions"] = [_link(action["@id"]) for action in actions]
    return crate.metadata.generate()


def _root(lineage: Lineage, with_images: bool) -> Entity:
    return {
        "name": NAME,
        "description": lineage.description(with_images),
        "datePublished": lineage.date,
        "version": lineage.version,
        "conformsTo": _link(_PROFILE),
        "author": _link("#contributors"),
        "citation": _link(PAPER),
        "license": [_link(_licence(licence.name, licence.url)) for licence in lineage.licences],
    }


def _study(lineage: Lineage) -> Iterator[Entity]:
    yield {"@id": _PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    yield {"@id": "#contributors", "@type": "Organization", "name": "The Banana100 contributors"}
    people = [{"@id": f"#{name}", "@type": "Person", "name": name} for name in AUTHORS]
    yield from people
    article = {"@id": PAPER, "@type": "ScholarlyArticle", "name": "Banana100", "identifier": "arXiv:2604.03400"}
    yield article | {"author": [_link(person["@id"]) for person in people], "creditText": CITATION}
    for licence in lineage.licences:
        named = {"@id": _licence(licence.name, licence.url), "@type": "CreativeWork", "name": licence.name}
        yield named | {"description": f"for {licence.covers}"}


def _software(lineage: Lineage) -> Iterator[Entity]:
    ours_under = lineage.licences[0]
    ours = {"@id": "#software", "@type": "SoftwareApplication", "name": "banana100", "url": PAPER}
    yield ours | {"softwareVersion": lineage.version, "license": _link(_licence(ours_under.name, ours_under.url))}
    for name, row in {_model(row): row for row in lineage.answers}.items():
        facts = {"@id": name, "@type": "SoftwareApplication", "name": row["answered_by"]}
        facts |= {"softwareVersion": row["answered_by"]}
        yield facts | ({"description": SIMULATED, "isPartOf": _link("#software")} if row["simulated"] else {})
    for row in lineage.scorers:
        facts = {"@id": _scorer(row), "@type": "SoftwareApplication", "name": row["metric"]}
        facts |= {"identifier": row["scorer_id"], "softwareVersion": f"pyiqa {row['pyiqa']}, torch {row['torch']}"}
        trained = given(row, ["parameters", "parameters_sha256", "parameters_licence", "libraries"])
        yield facts | ({"description": "; ".join(f"{k}: {v}" for k, v in trained.items())} if trained else {})


def _inputs(lineage: Lineage) -> Iterator[Entity]:
    """The photographs that seeds come from, and what requests say beside their image."""
    for row in lineage.seeds:
        facts = {"@id": _source(row["seed"]), "@type": "CreativeWork", "name": row["origin"]}
        yield facts | {"sha256": row["source_sha256"], "license": _link(_licence(row["licence"]))}
    said = dict.fromkeys((name, row[name]) for row in lineage.answers for name in ("prompt", "config") if row[name])
    for name, text in said:
        yield {"@id": _said(name, text), "@type": "PropertyValue", "name": name, "value": text}


def _tables(lineage: Lineage) -> Iterator[tuple[str, Entity]]:
    for table in lineage.tables:
        facts = {"name": table.path.name, "description": TABLES[table.name], "sha256": table.sha256}
        facts |= {"encodingFormat": "application/vnd.apache.parquet", "contentSize": str(len(table.content))}
        yield table.path.as_posix(), facts


def _images(lineage: Lineage, base: str) -> Iterator[tuple[str, Entity]]:
    for row in lineage.seeds:
        made = {"license": _link(_licence(row["licence"])), "isBasedOn": _link(_source(row["seed"]))}
        yield row["path"], {"name": f"seed {row['seed']}", **_image(row), **made}
    for row in lineage.images:
        size = {"contentSize": str(row["bytes"])} | given(row, ["width", "height"])
        copied = {"isBasedOn": _link(base + uri_path(row["parent"]))} if row["step"] == 0 and row["parent"] else {}
        yield row["path"], {"name": f"step {row['step']} of {_chain(row)}", **_image(row), **size, **copied}


def _image(row: Entity) -> Entity:
    digests = {"sha256": row["image_id"], "identifier": ni(row["image_id"])}
    return {"@type": ["File", "ImageObject"], "encodingFormat": media_type(row["path"]), **digests}


def _requests(lineage: Lineage, base: str) -> Iterator[Entity]:
    results: dict[str, list[Entity]] = {}
    for image in lineage.images:
        if image["request_id"]:
            results.setdefault(image["request_id"], []).append(image)
    for row in lineage.requests:
        images = results.get(row["request_id"], [])
        parents = [image["parent"] for image in images if image["parent"]]
        yield {
            "@id": f"#request-{row['request_id']}",
            **_DONE,
            "name": f"replicate to step {row['step']} of {_chain(row)}",
            "identifier": row["request_id"],
            "object": [*(_link(base + uri_path(path)) for path in dict.fromkeys(parents)), *_texts(row)],
            "result": [_link(base + uri_path(image["path"])) for image in images],
            **_asked(row),
        }


def _seed_requests(lineage: Lineage) -> Iterator[Entity]:
    for seed, row in lineage.seed_requests.items():
        yield {
            "@id": f"#request-{row['request_id']}",
            **_DONE,
            "name": f"make the seed {seed}",
            "identifier": row["request_id"],
            "object": _texts(row),
            "result": _link(_source(seed)),
            **_asked(row),
        }


def _refusals(lineage: Lineage, base: str) -> Iterator[Entity]:
    for row in lineage.refusals:
        yield {
            "@id": f"#refusal-{row['request_id']}-{row['number']}",
            **_FAILED,
            "name": f"refuse to replicate to step {row['step']} of {_chain(row)}",
            "error": ": ".join(filter(None, (row["finish_reason"], row["detail"]))) or "no image",
            "object": [*(_link(base + uri_path(path)) for path in lineage.parents(row)), *_texts(row)],
            **_asked(row),
        }


def _texts(row: Entity) -> list[Entity]:
    return [_link(_said(name, row[name])) for name in ("prompt", "config") if row[name]]


def _asked(row: Entity) -> Entity:
    """Who was asked, and when."""
    return {"instrument": _link(_model(row))} | ({"startTime": row["asked_at"]} if row["asked_at"] else {})


def _scorings(lineage: Lineage) -> Iterator[Entity]:
    images = lineage.files("images")[0].path.as_posix()
    for row in lineage.scorers:
        yield {
            "@id": f"#scoring-{uri_path(row['metric'])}",
            **_DONE,
            "name": f"score by {row['metric']}",
            "instrument": _link(_scorer(row)),
            "object": _link(images),
            "result": _link(lineage.written_by(row["metric"]).as_posix()),
        }


def _chain(row: Entity) -> str:
    return f"{row['seed']}, repeat {row['repeat']}"


def _link(name: str) -> Entity:
    return {"@id": name}


def _licence(name: str, url: str | None = None) -> str:
    return url or f"#licence-{sha256_of(name.encode())[:12]}"


def _model(row: Entity) -> str:
    return f"#model-{uri_path(row['backend'] or 'None')}/{uri_path(row['answered_by'])}"


def _scorer(row: Entity) -> str:
    return f"#scorer-{uri_path(row['metric'])}"


def _source(seed: str) -> str:
    return f"#source-{uri_path(seed)}"


def _said(name: str, text: str) -> str:
    return f"#{name}-{sha256_of(text.encode())[:12]}"
