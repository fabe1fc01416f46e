"""The ways back as text for the terminal, and as a graph in the DOT language."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pydot
import yaml

from banana100.lineage.tables import is_simulated
from banana100.trace.ways import Node, leaves

_WIDTH = 10


def text(way: Node) -> str:
    """One way, one fact a line."""
    if "cell" in way:
        lines = _cell(way)
    elif "file" in way:
        lines = _output(way)
    else:
        lines = [*_score(way), *_scorer(way), *_parked(way), *_chain(way), *_seed(way)]
    return "\n".join(line.rstrip() for line in lines)


def dot(ways: list[Node]) -> str:
    """The ways as one directed graph, from the source of the seed to the score; for Graphviz."""
    graph = pydot.Dot("lineage", graph_type="digraph", rankdir="LR")
    for way in ways:
        labels = list(_labels(way))
        for label in labels:
            graph.add_node(pydot.Node(_quoted(label), shape="box"))
        for label, parent in pairwise(labels):
            if not graph.get_edge(_quoted(parent), _quoted(label)):
                graph.add_edge(pydot.Edge(_quoted(parent), _quoted(label)))
    return graph.to_string()


def _labels(way: Node) -> Iterator[str]:
    """What the nodes of a way say, from the score back to the source."""
    if score := way.get("score"):
        yield f"{score['metric']} {_score_value(score)}\nscorer {score['scorer_id'][:12]}\n{score['image_id'][:12]}"
    if parked := way.get("parked"):
        yield f"parked at step {parked['step']}\n{parked['cause']}\n{parked['request_id'][:12]}"
    for image in way.get("chain", []):
        asked = image["request"]
        yield f"{image['path']}\n{image['image_id'][:12]}" + (f"\n{asked['model_answered']}" if asked else "")
    if seed := way.get("seed"):
        yield f"seed {seed['seed']}\n{seed['image_id'][:12]}"
        yield f"{seed['origin']}\n{seed['licence']}"
    for stage in [way["decided_by"]] if "cell" in way else way["decided_by"] if "file" in way else []:
        yield f"{stage['stage']}\n{stage['output']}"


def _quoted(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _line(title: str, value: Any) -> str:
    return f"{title:{_WIDTH}}{_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=math.inf).strip()
    return "-" if value is None else str(value)


def _decided(given: Node) -> Iterator[str]:
    recorded = f"dvc.lock {given['stage_hash'][:12]}" if given["stage_hash"] else "not in dvc.lock"
    yield _line("", f"stage {given['stage']} ({recorded}), {given['output']} {given['output_md5'] or ''}")
    for key, value in leaves(given["params"]):
        yield _line("", f"  {key} = {_value(value)}")


def _score_value(score: Node) -> str:
    return f"failed: {score['reason']}" if score["score"] is None else _value(score["score"])


def _score(way: Node) -> Iterator[str]:
    if score := way.get("score"):
        yield _line("score", f"{score['metric']} {_score_value(score)}")
        if score["reference_id"]:
            yield _line("", f"against the reference {score['reference_id']}, its chain's step 0")
        yield from _decided(score["decided_by"])


def _scorer(way: Node) -> Iterator[str]:
    if not (scorer := way.get("scorer")):
        return
    direction = "higher" if scorer["higher_is_better"] else "lower"
    yield _line("scorer", f"{scorer['scorer_id']}  {scorer['metric']}, {direction} is better")
    versions = [f"pyiqa {scorer['pyiqa']}", f"torch {scorer['torch']}", scorer["libraries"], scorer["precision"]]
    yield _line("", ", ".join(filter(None, versions)))
    if scorer["parameters"]:
        names, digests = scorer["parameters"].split("; "), scorer["parameters_sha256"].split("; ")
        yield from (_line("", f"weights {n}  sha256 {d}") for n, d in zip(names, digests, strict=True))
        yield _line("", f"weights' licence: {scorer['parameters_licence']}")
    yield _line("", f"source {scorer['source_sha256']}; {scorer['preprocessing']}")
    if "decided_by" in scorer:
        yield from _decided(scorer["decided_by"])


def _parked(way: Node) -> Iterator[str]:
    if parked := way.get("parked"):
        chain = f"{parked['campaign']}, seed {parked['seed']}, repeat {parked['repeat']}"
        yield _line("parked", f"at step {parked['step']} of {chain}: there is no image from there on")
        yield _line("", f"{parked['cause']}, asked {parked['attempts']} times in the last run: {parked['reason']}")
        yield _line("request", parked["request_id"])
        yield from _refused(parked["refusals"])


def _refused(refusals: list[Node]) -> Iterator[str]:
    if refusals:
        reasons = Counter(row["finish_reason"] or "no reason given" for row in refusals)
        told = ", ".join(f"{reason} {count}" for reason, count in reasons.items())
        cost = sum(row["cost_usd"] or 0 for row in refusals)
        yield _line("", f"refused {len(refusals)} times: {told}; ${cost:.3f}")


def _chain(way: Node) -> Iterator[str]:
    for index, image in enumerate(way.get("chain", [])):
        if index == 0:
            yield _line("image", f"{image['image_id']}  {image['path']}")
            size = f"{image['width']}x{image['height']} {image['mode']}, {image['bytes']} bytes"
            yield _line(
                "", f"step {image['step']} of {image['campaign']}, seed {image['seed']}, repeat {image['repeat']}"
            )
            yield _line("", size)
            yield from _decided(way["decided_by"])
            yield from _request(image["request"])
        else:
            asked = image["request"]
            request = f"  request {asked['request_id']}  ${asked['cost_usd'] or 0:.3f}" if asked else ""
            yield _line("parent", f"{image['image_id']}  {image['path']}{request}")
            yield from _refused(asked["refusals"] if asked else [])
    if cost := way.get("cost_usd"):
        yield _line("cost", f"${cost:.3f} for all answers and refusals above")


def _request(asked: Node | None) -> Iterator[str]:
    if not asked:
        return
    yield _line("request", asked["request_id"])
    yield from _refused(asked["refusals"])
    yield from _asked(asked)
    yield _line("", f"sent    image {asked['parent_id']}")
    if asked["previous_id"]:
        yield _line("", f"goes on with the conversation of request {asked['previous_id']}")


def _asked(asked: Node) -> Iterator[str]:
    simulated = "simulated, no model's answer: " if is_simulated(asked["backend"], asked["model_answered"]) else ""
    yield _line("", f"{simulated}{asked['backend']} {asked['model']}, answered by {asked['model_answered']}")
    yield _line("", f"prompt  {asked['prompt']}")
    yield _line("", f"config  {asked['config']}")
    facts = {name: asked[name] for name in ("response_id", "finish_reason", "reasoning", "asked_at", "seconds")}
    usage = {name: asked[name] for name in ("attempts", "input_tokens", "output_tokens", "cost_usd")}
    told = ", ".join(f"{name} {value}" for name, value in (facts | usage).items() if value is not None)
    yield _line("", told)


def _seed(way: Node) -> Iterator[str]:
    if seed := way.get("seed"):
        yield _line("seed", f"{seed['image_id']}  {seed['path']}")
        yield _line("source", f"{seed['source']}: {seed['origin']}, {seed['source_width']}x{seed['source_height']}")
        yield _line("", f"sha256 {seed['source_sha256']}")
        yield _line("licence", seed["licence"])
        if asked := seed["request"]:
            yield _line("request", asked["request_id"])
            yield from _asked(asked)
        yield from _decided(seed["decided_by"])


def _output(way: Node) -> Iterator[str]:
    yield _line("file", way["file"])
    for given in way["decided_by"]:
        yield from _decided(given)


def _cell(way: Node) -> Iterator[str]:
    yield _line("verdict", f"ranking:{way['cell']} = {_value(way['value'])}")
    yield from _decided(way["decided_by"])
    for chain in way.get("chains", []):
        verdict = chain["not_judged"] or chain["left_out"] or ("passes" if chain["passes"] else "fails")
        yield _line("chain", f"{chain['campaign']} {chain['seed']} r{chain['repeat']}: {verdict}")
        for image in chain["images"]:
            yield _line("", f"step {image['step']:3}  {_score_value(image):>10}  {way['metric']}:{image['path']}")
    if "chains" in way:
        yield _line("", f"{len(way['chains'])} chains ({way['about']}); trace METRIC:PATH leads further back")
