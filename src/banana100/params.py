"""params.yaml, typed and checked: every stage starts here, so that a mistake costs one sentence and no output."""

import json
import math
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from banana100 import paths
from banana100.catalogue.metrics import DRIFT_METRICS, EVERY_METRIC, METRICS
from banana100.catalogue.photographs import BUNDLED
from banana100.errors import UserError

NAME_RULE = "1 to 80 printable characters (240 bytes) without / and \\, not starting with a dot"


class _Strict(BaseModel):
    """Each field's `description` says what is allowed; the error sentence quotes it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Source(_Strict):
    """Where candidates for seeds come from."""

    kind: Literal["bundled", "directory"] = Field(description="bundled or directory")
    names: list[str] = Field(default=[], description=f"with kind bundled: a non-empty list of {', '.join(BUNDLED)}")
    path: str = Field(
        default="",
        description=f"with kind directory: {paths.OWN_SEEDS} or a folder below it, which DVC watches",
    )
    licence: str = Field(
        default="", description="with kind directory: a text, the terms these images may be used under"
    )


class SeedParams(_Strict):
    """`seeds:`, read by select_seeds."""

    size: int = Field(ge=96, le=4096, description="a whole number of pixels from 96 to 4096")
    count: int = Field(ge=1, description="a whole number of at least 1")
    sources: list[Source] = Field(min_length=1, description="a non-empty list of sources")


class SimulatedConfig(_Strict):
    """Strengths of the simulator's two kinds of rot, in percent of the default look."""

    noise: int = Field(100, ge=0, le=400, description="a whole number of percent from 0 to 400")
    green: int = Field(100, ge=0, le=400, description="a whole number of percent from 0 to 400")


class Campaign(_Strict):
    """One entry of `campaigns:`: everything that decides the images of its chains."""

    backend: Literal["simulated"] = Field(description="simulated")
    model: str = Field(min_length=1, description="the name of a model")
    prompts: list[Annotated[str, StringConstraints(min_length=1)]] = Field(
        min_length=1, description="a non-empty list of texts; step k is asked with the k-th, then from the start again"
    )
    config: SimulatedConfig = Field(description="the generation settings of the backend: noise, green")
    seeds: Literal["all"] | list[str] = Field(description="all, or a non-empty list of names of chosen seeds")
    repeats: int = Field(ge=1, le=999, description="a whole number from 1 to 999")
    steps: int = Field(ge=1, le=999, description="a whole number from 1 to 999")

    def prompt(self, step: int) -> str:
        """The prompt that step `step` (counted from 1) is asked with."""
        return self.prompts[(step - 1) % len(self.prompts)]


class PreviewParams(_Strict):
    """`previews:`, read by replicate and report."""

    steps: list[Annotated[int, Field(ge=0)]] = Field(
        min_length=1, description="a non-empty list of steps, whole numbers of at least 0"
    )
    side: int = Field(ge=16, le=1024, description="a whole number of pixels from 16 to 1024")


MetricSet = Annotated[list[str], Field(min_length=1)]


class ScoringParams(_Strict):
    """`scoring:`, read by score."""

    metrics: MetricSet | str = Field(
        description="a non-empty list of metrics (`banana100 metrics` lists them), or the name of a set in metric_sets"
    )
    drift: list[str] = Field(description=f"a list of {', '.join(DRIFT_METRICS)}; [] measures no drift")
    precision: Literal["float32", "tf32", "bfloat16", "float16"] = Field(
        description="float32, tf32, bfloat16 or float16"
    )


class RankingParams(_Strict):
    """`ranking:`, read by rank."""

    metrics: MetricSet | str = Field(
        description="a non-empty list of metrics that scoring.metrics holds, as in [niqe, piqe], "
        "or the name of a set in metric_sets"
    )
    baseline_step: int = Field(ge=0, description="a whole number of at least 0")
    probe_steps: list[int] = Field(
        min_length=1, description="a non-empty list of whole numbers above ranking.baseline_step"
    )
    spread: Literal["std", "iqr", "range"] = Field(description="std, iqr or range")
    min_drift: dict[str, float] = Field(
        description="a block of bounds, each a number under the name of a metric that scoring.drift holds; "
        "{} leaves no chain out"
    )
    bootstrap: int = Field(ge=100, le=100_000, description="a whole number of resamples from 100 to 100000")
    random_state: int = Field(ge=0, lt=2**32, description="a whole number from 0 to 4294967295")


class Params(_Strict):
    """The whole of params.yaml."""

    active: list[str] = Field(min_length=1, description="a non-empty list of names under campaigns")
    seeds: SeedParams = Field(description="a block of keys")
    campaigns: dict[str, Campaign] = Field(min_length=1, description="a block of campaigns, each under its name")
    previews: PreviewParams = Field(description="a block of keys")
    metric_sets: dict[str, MetricSet] = Field(description="a block of non-empty lists of metrics, each under its name")
    scoring: ScoringParams = Field(description="a block of keys")
    ranking: RankingParams = Field(description="a block of keys")

    def active_campaigns(self) -> dict[str, Campaign]:
        """The campaigns to run, in the order of `active`."""
        return {name: self.campaigns[name] for name in self.active}

    def scored_metrics(self) -> list[str]:
        """The metrics that images are scored with."""
        return self._members(self.scoring.metrics)

    def ranked_metrics(self) -> list[str]:
        """The metrics that are judged."""
        return self._members(self.ranking.metrics)

    def named_metrics(self, names: Sequence[str]) -> list[str]:
        """The metrics of a command's words, each once, sets replaced by their members.

        Raises:
            UserError: a word is neither a metric nor a set.
        """
        listed = list(dict.fromkeys(member for name in names for member in self.metric_sets.get(name, [name])))
        if unknown := [name for name in listed if name not in EVERY_METRIC]:
            raise UserError(
                f"{unknown[0]} is no metric and no set of params.yaml; `banana100 metrics` lists the metrics."
            )
        return listed

    def _members(self, metrics: list[str] | str) -> list[str]:
        return self.metric_sets[metrics] if isinstance(metrics, str) else metrics


def load(path: Path = paths.PARAMS) -> Params:
    """Read and check the params file.

    Raises:
        UserError: the file is absent, not YAML, or holds a value that is not allowed; the message is one sentence
            that names key, value and what is allowed.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file in {Path.cwd().name}/; start from the project's root.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start}).") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else "somewhere"
        raise UserError(f"{path}: not YAML at {where} ({getattr(error, 'problem', None) or 'unreadable'}).") from None
    except (ValueError, AttributeError, RecursionError) as error:  # PyYAML's own words for odd dates, tags, depths
        raise UserError(f"{path}: not YAML that can be read ({str(error).splitlines()[0]}).") from None
    return check(content)


def check(content: Any) -> Params:
    """Check the content of params.yaml.

    Args:
        content: what the YAML file holds.

    Raises:
        UserError: see `load`.
    """
    try:
        params = Params.model_validate(content)
    except ValidationError as error:
        raise UserError(_sentence(error)) from None
    _check_list("active", params.active, list(params.campaigns))
    _check_metrics(params)
    _check_list("previews.steps", params.previews.steps)
    _check_list("ranking.probe_steps", params.ranking.probe_steps)
    for name, campaign in params.campaigns.items():
        if not is_name(name):
            raise UserError(f"params.yaml: campaigns has the name {_shown(name)}; allowed: {NAME_RULE}.")
        if campaign.seeds != "all":
            _check_list(f"campaigns.{name}.seeds", campaign.seeds)
    for index, source in enumerate(params.seeds.sources):
        _check_source(f"seeds.sources.{index}", source)
    if min(params.ranking.probe_steps) <= params.ranking.baseline_step:
        above = f"a list of steps above ranking.baseline_step, which is {params.ranking.baseline_step}"
        raise refusal("ranking.probe_steps", params.ranking.probe_steps, above)
    return params


def _check_metrics(params: Params) -> None:
    for name, members in params.metric_sets.items():
        _check_list(f"metric_sets.{name}", members, list(METRICS))
    for key, value in (("scoring.metrics", params.scoring.metrics), ("ranking.metrics", params.ranking.metrics)):
        if isinstance(value, str) and value not in params.metric_sets:
            block, field = key.split(".")
            sets = ", ".join(params.metric_sets) or "none"
            raise refusal(key, value, f"{_described(type(getattr(params, block)), field)}, which are {sets}")
    _check_list("scoring.metrics", params.scored_metrics(), list(METRICS))
    _check_list("ranking.metrics", params.ranked_metrics(), params.scored_metrics(), "scoring.metrics, which are ")
    if params.scoring.drift:
        _check_list("scoring.drift", params.scoring.drift, list(DRIFT_METRICS))
    for name, bound in params.ranking.min_drift.items():
        if name not in params.scoring.drift or not math.isfinite(bound):
            raise refusal(f"ranking.min_drift.{name}", bound, _described(RankingParams, "min_drift"))


def is_name(text: str) -> bool:
    """Whether `text` may name a campaign or a seed: it becomes a folder's name."""
    if not text or len(text) > 80 or not text.isprintable() or text.startswith("."):
        return False
    return len(text.encode()) <= 240 and not set(text) & {"/", "\\"}


def refusal(key: str, value: Any, allowed: str) -> UserError:
    """The sentence for a value that params.yaml must not hold."""
    return UserError(f"params.yaml: {key} is {_shown(value)}; allowed: {allowed}.")


def _check_list(key: str, values: Sequence[Any], known: Sequence[Any] | None = None, prefix: str = "") -> None:
    if not values:
        raise refusal(key, values, "a list with at least one entry")
    for value in values:
        if known is not None and value not in known:
            raise refusal(key, values, f"a list of names among {prefix}{', '.join(known)} (not {_shown(value)})")
        if values.count(value) > 1:
            raise refusal(key, values, f"a list that names each entry once ({_shown(value)} stands twice)")


def _check_source(key: str, source: Source) -> None:
    needed, foreign = {"bundled": (("names",), ("path", "licence")), "directory": (("path", "licence"), ("names",))}[
        source.kind
    ]
    for name in needed:
        if not (value := getattr(source, name)) or not "".join(value).isprintable():
            raise UserError(
                f"params.yaml: {key}.{name} is missing, empty or not printable; allowed: {_described(Source, name)}."
            )
    for name in foreign:
        if getattr(source, name):
            raise refusal(f"{key}.{name}", getattr(source, name), f"nothing, as {key}.kind is {source.kind}")
    path = Path(source.path)
    if source.kind == "bundled":
        _check_list(f"{key}.names", source.names, list(BUNDLED))
    elif ".." in path.parts or not path.is_relative_to(paths.OWN_SEEDS):
        raise refusal(f"{key}.path", source.path, _described(Source, "path"))


def _sentence(error: ValidationError) -> str:
    """Turn pydantic's first complaint into one sentence."""
    first = error.errors()[0]
    # pydantic names the branch of a union in the location, as in `seeds.list[str]`
    location = [part for part in first["loc"] if not str(part).endswith("]")]
    key = ".".join(map(str, location)) or "the file"
    if first["type"] in ("extra_forbidden", "invalid_key"):
        holder = _model_at(location[:-1]) or Params
        return f"params.yaml: {key} is not a known key; allowed: {', '.join(holder.model_fields)}."
    allowed = _allowed(location)
    if first["type"] == "missing":
        return f"params.yaml: {key} is missing; allowed: {allowed}."
    return str(refusal(key, first["input"], allowed))


def _allowed(location: Sequence[int | str]) -> str:
    if model := _model_at(location):
        return f"a block with the keys {', '.join(model.model_fields)}"
    while (holder := _model_at(location[:-1])) is None or location[-1] not in holder.model_fields:
        location = location[:-1]  # an entry of a list: its list's field says what is allowed
    return _described(holder, str(location[-1]))


def _model_at(location: Sequence[int | str]) -> type[BaseModel] | None:
    """The model whose keys stand at `location`, if it is a block of keys."""
    annotation: Any = Params
    for part in location:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            if part not in annotation.model_fields:
                return None
            annotation = annotation.model_fields[str(part)].annotation
        elif typing.get_origin(annotation) in (list, dict):
            annotation = typing.get_args(annotation)[-1]
        else:
            return None
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _described(model: type[BaseModel], field: str) -> str:
    return model.model_fields[field].description or ""


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):  # refers to itself, or has keys that JSON lacks
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
