"""params.yaml, typed and checked: every stage starts here, so that a mistake costs one sentence and no output."""

import json
import math
import types
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
from banana100.yaml12 import Loader

NAME_RULE = "1 to 80 printable characters (240 bytes) without / and \\, not starting with a dot"


class _Strict(BaseModel):
    """Each field's `description` says what is allowed; the error sentence quotes it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SimulatedConfig(_Strict):
    """Strengths of the simulator's two kinds of rot, in percent of the default look."""

    noise: int = Field(100, ge=0, le=400, description="a whole number of percent from 0 to 400")
    green: int = Field(100, ge=0, le=400, description="a whole number of percent from 0 to 400")


AspectRatio = Literal["1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"]
ImageSize = Literal["512", "1K", "2K", "4K"]


class GeminiConfig(_Strict):
    """Generation settings of Google's image models. What is left out is not sent: the model's own default holds."""

    aspect_ratio: AspectRatio | None = Field(None, description=f"one of {', '.join(typing.get_args(AspectRatio))}")
    image_size: ImageSize | None = Field(None, description=f"one of {', '.join(typing.get_args(ImageSize))}, in quotes")
    response_modalities: list[Literal["TEXT", "IMAGE"]] | None = Field(
        None, min_length=1, description="a list of TEXT and IMAGE"
    )
    seed: int | None = Field(None, ge=0, lt=2**31, description="a whole number from 0 to 2147483647")
    temperature: float | None = Field(None, ge=0, le=2, description="a number from 0 to 2")
    thinking_level: Literal["minimal", "low", "medium", "high"] | None = Field(
        None, description="minimal, low, medium or high"
    )
    reasoning: bool = Field(True, description="true or false: ask for the summary of the model's reasoning")
    history: int = Field(
        0, ge=0, le=13, description="a whole number from 0 to 13: earlier turns of the conversation that are sent along"
    )


_ARCHIVE = "the name of an archive that `banana100 import` took in"
_ORIGIN = "a text, the address or path where the archive is from"


class ArchiveConfig(_Strict):
    """Where images that were made elsewhere come from."""

    archive: str = Field(description=_ARCHIVE)
    origin: str = Field(min_length=1, description=_ORIGIN)
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="the digest of the archive, 64 hex digits")
    table: str = Field(pattern="^[0-9a-f]{64}$", description="the digest of the archive's table, 64 hex digits")
    licence: str = Field(min_length=1, description="a text, the terms these images may be used under")
    setting: str | None = Field(None, description="a text, which of the archive's settings; left out where it has none")


class Source(_Strict):
    """Where candidates for seeds come from."""

    kind: Literal["archive", "bundled", "directory", "gemini"] = Field(
        description="archive, bundled, directory or gemini"
    )
    archive: str = Field(default="", description=f"with kind archive: {_ARCHIVE}")
    origin: str = Field(default="", description=f"with kind archive: {_ORIGIN}")
    names: list[str] = Field(default=[], description=f"with kind bundled: a non-empty list of {', '.join(BUNDLED)}")
    path: str = Field(
        default="",
        description=f"with kind directory: {paths.OWN_SEEDS} or a folder below it, which DVC watches",
    )
    licence: str = Field(
        default="",
        description="with kind archive, directory or gemini: a text, the terms these images may be used under",
    )
    model: str = Field(default="", description="with kind gemini: the name of a model that prices.models holds")
    prompts: dict[str, Annotated[str, StringConstraints(min_length=1)]] = Field(
        default={}, description="with kind gemini: a block of texts, each under the name of the seed to make of it"
    )
    config: GeminiConfig | None = Field(
        default=None, description=f"with kind gemini: generation settings: {', '.join(GeminiConfig.model_fields)}"
    )
    budget_usd: float | None = Field(
        default=None, ge=0, description="with kind gemini: a number of US dollars that the images may cost in all"
    )


class SeedParams(_Strict):
    """`seeds:`, read by select_seeds."""

    size: int = Field(ge=96, le=4096, description="a whole number of pixels from 96 to 4096")
    count: int = Field(ge=1, description="a whole number of at least 1")
    sources: Annotated[list[Source], Field(min_length=1)] | str = Field(
        description="a non-empty list of sources, or the name of a set in seed_sets"
    )


_BACKENDS = "simulated, archive or gemini"


class Campaign(_Strict):
    """One entry of `campaigns:`: everything that decides the images of its chains. A subclass for each backend."""

    backend: str = Field(description=_BACKENDS)
    model: str = Field(min_length=1, description="the name of a model")
    prompts: list[Annotated[str, StringConstraints(min_length=1)]] = Field(
        min_length=1, description="a non-empty list of texts; step k is asked with the k-th, then from the start again"
    )
    config: SimulatedConfig | ArchiveConfig | GeminiConfig
    seeds: Literal["all"] | list[str] = Field(description="all, or a non-empty list of names of chosen seeds")
    repeats: int = Field(ge=1, le=999, description="a whole number from 1 to 999")
    steps: int = Field(ge=1, le=999, description="a whole number from 1 to 999")

    def prompt(self, step: int) -> str:
        """The prompt that step `step` (counted from 1) is asked with."""
        return self.prompts[(step - 1) % len(self.prompts)]

    @property
    def history(self) -> int:
        """How many earlier turns of a chain each request carries; 0 is a fresh conversation for every step."""
        return getattr(self.config, "history", 0)


class SimulatedCampaign(Campaign):
    """A campaign on the embedded simulator."""

    backend: Literal["simulated"] = Field(description=_BACKENDS)
    config: SimulatedConfig = Field(description="the generation settings of the simulator: noise, green")


class ArchiveCampaign(Campaign):
    """A campaign that somebody else ran: its images come from an archive."""

    backend: Literal["archive"] = Field(description=_BACKENDS)
    config: ArchiveConfig = Field(description="a block with the keys archive, origin, sha256, table, licence, setting")


class GeminiCampaign(Campaign):
    """A campaign on Google's image models, which costs money."""

    backend: Literal["gemini"] = Field(description=_BACKENDS)
    config: GeminiConfig = Field(
        description=f"generation settings: {', '.join(GeminiConfig.model_fields)}; {{}} for none"
    )
    budget_usd: float = Field(
        ge=0, allow_inf_nan=False, description="a number of US dollars that the campaign may cost in all"
    )


AnyCampaign = Annotated[SimulatedCampaign | ArchiveCampaign | GeminiCampaign, Field(discriminator="backend")]


class Price(_Strict):
    """What a model costs, in US dollars."""

    images: dict[ImageSize, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        min_length=1,
        description=f"a price for each size that the model makes, under {', '.join(typing.get_args(ImageSize))}",
    )
    default_size: ImageSize = Field(
        description="the size that the model makes when none is asked for, with a price in images"
    )
    input: float = Field(
        ge=0, allow_inf_nan=False, description="a number of US dollars for a million tokens of the request"
    )
    output: float = Field(
        ge=0, allow_inf_nan=False, description="a number of US dollars for a million tokens of text and thinking"
    )


class Prices(_Strict):
    """`prices:`, what paid models cost."""

    date: str = Field(
        pattern=r"\d{4}-\d{2}-\d{2}", description="the day of the price list, as in '2026-07-01', in quotes"
    )
    batch: float = Field(
        gt=0, le=1, description="a number above 0, at most 1: what the Batch API costs of the full price"
    )
    thinking: int = Field(ge=0, description="a whole number of tokens to expect of thinking, for estimates")
    seconds: float = Field(gt=0, description="a number of seconds to expect of an answer, for estimates")
    models: dict[str, Price] = Field(description="a block of prices, each under the name of a model")


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

    active: Annotated[list[str], Field(min_length=1)] | str = Field(
        description="a non-empty list of names under campaigns, or the name of a set in campaign_sets"
    )
    seeds: SeedParams = Field(description="a block of keys")
    seed_sets: dict[str, Annotated[list[Source], Field(min_length=1)]] = Field(
        description="a block of non-empty lists of sources, each under its name"
    )
    campaigns: dict[str, AnyCampaign] = Field(min_length=1, description="a block of campaigns, each under its name")
    campaign_sets: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(
        description="a block of non-empty lists of campaigns, each under its name"
    )
    prices: Prices = Field(description="a block of keys")
    previews: PreviewParams = Field(description="a block of keys")
    metric_sets: dict[str, MetricSet] = Field(description="a block of non-empty lists of metrics, each under its name")
    scoring: ScoringParams = Field(description="a block of keys")
    ranking: RankingParams = Field(description="a block of keys")

    def active_campaigns(self) -> dict[str, AnyCampaign]:
        """The campaigns to run, in the order of `active`."""
        names = self.campaign_sets[self.active] if isinstance(self.active, str) else self.active
        return {name: self.campaigns[name] for name in names}

    def named_campaigns(self, names: Sequence[str]) -> dict[str, AnyCampaign]:
        """The campaigns of a command's words, each once, sets replaced by their members; the active ones without words.

        Raises:
            UserError: a word is neither a campaign nor a set.
        """
        listed = [member for name in names for member in self.campaign_sets.get(name, [name])]
        if unknown := [name for name in listed if name not in self.campaigns]:
            raise UserError(
                f"{unknown[0]} is no campaign and no set of params.yaml; allowed: "
                f"{', '.join([*self.campaign_sets, *self.campaigns])}."
            )
        return {name: self.campaigns[name] for name in listed} if names else self.active_campaigns()

    def seed_sources(self) -> list[Source]:
        """Where candidates for seeds come from."""
        return self.seed_sets[self.seeds.sources] if isinstance(self.seeds.sources, str) else self.seeds.sources

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
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)
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
        return _checked(content)
    except UserError as error:  # the keys in it are the user's words, with whatever letters
        raise UserError(_printable(str(error))) from None


def _checked(content: Any) -> Params:
    try:
        params = Params.model_validate(content)
    except ValidationError as error:
        raise UserError(_sentence(error)) from None
    _check_sets(params)
    _check_metrics(params)
    _check_list("previews.steps", params.previews.steps)
    _check_list("ranking.probe_steps", params.ranking.probe_steps)
    for name, campaign in params.campaigns.items():
        if not is_name(name):
            raise UserError(f"params.yaml: campaigns has the name {_shown(name)}; allowed: {NAME_RULE}.")
        if campaign.seeds != "all":
            _check_list(f"campaigns.{name}.seeds", campaign.seeds)
        if isinstance(campaign, GeminiCampaign):
            _check_priced(f"campaigns.{name}", campaign.model, campaign.config, params.prices)
        if isinstance(campaign, ArchiveCampaign):
            _check_archive(f"campaigns.{name}.config.archive", campaign.config.archive)
    sources = {f"seed_sets.{name}": members for name, members in params.seed_sets.items()}
    if not isinstance(params.seeds.sources, str):
        sources["seeds.sources"] = params.seeds.sources
    for key, members in sources.items():
        for index, source in enumerate(members):
            _check_source(f"{key}.{index}", source, params.prices)
    if min(params.ranking.probe_steps) <= params.ranking.baseline_step:
        above = f"a list of steps above ranking.baseline_step, which is {params.ranking.baseline_step}"
        raise refusal("ranking.probe_steps", params.ranking.probe_steps, above)
    return params


def _check_sets(params: Params) -> None:
    """Lists of campaigns name campaigns; a text in place of a list names a set."""
    for name, members in params.campaign_sets.items():
        _check_list(f"campaign_sets.{name}", members, list(params.campaigns))
    if isinstance(params.active, list):
        _check_list("active", params.active, list(params.campaigns))
    for key, value, sets in (
        ("active", params.active, params.campaign_sets),
        ("seeds.sources", params.seeds.sources, params.seed_sets),
    ):
        if isinstance(value, str) and value not in sets:
            raise refusal(key, value, f"a list, or the name of a set, which are {', '.join(sets) or 'none'}")


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


def _check_priced(key: str, model: str, config: GeminiConfig, prices: Prices) -> None:
    """A paid model must have a price, for the size that is asked for."""
    if model not in prices.models:
        raise refusal(
            f"{key}.model", model, f"a name under prices.models, which are {', '.join(prices.models) or 'none'}"
        )
    price = prices.models[model]
    for size_key, size in (
        (f"prices.models.{model}.default_size", price.default_size),
        (f"{key}.config.image_size", config.image_size or price.default_size),
    ):
        if size not in price.images:
            raise refusal(
                size_key, size, f"a size under prices.models.{model}.images, which are {', '.join(price.images)}"
            )


def _check_archive(key: str, name: str) -> None:
    if not is_name(name):  # it becomes a file's name
        raise refusal(key, name, f"{_ARCHIVE}, {NAME_RULE}")


# The keys that a source of each kind must have, and those that it may have.
_SOURCE_KEYS = {
    "archive": (("archive", "origin", "licence"), ()),
    "bundled": (("names",), ()),
    "directory": (("path", "licence"), ()),
    "gemini": (("model", "prompts", "licence", "budget_usd"), ("config",)),
}


def _check_source(key: str, source: Source, prices: Prices) -> None:
    needed, optional = _SOURCE_KEYS[source.kind]
    for name in needed:
        value = getattr(source, name)
        if value in (None, "", [], {}) or (name != "budget_usd" and not "".join(value).isprintable()):
            raise UserError(
                f"params.yaml: {key}.{name} is missing, empty or not printable; allowed: {_described(Source, name)}."
            )
    for name in Source.model_fields.keys() - {"kind", *needed, *optional}:
        if getattr(source, name):
            raise refusal(f"{key}.{name}", getattr(source, name), f"nothing, as {key}.kind is {source.kind}")
    path = Path(source.path)
    if source.kind == "bundled":
        _check_list(f"{key}.names", source.names, list(BUNDLED))
    elif source.kind == "gemini":
        _check_priced(key, source.model, source.config or GeminiConfig(), prices)
        for name in source.prompts:
            if not is_name(name):
                raise UserError(f"params.yaml: {key}.prompts has the name {_shown(name)}; allowed: {NAME_RULE}.")
    elif source.kind == "archive":
        _check_archive(f"{key}.archive", source.archive)
    elif ".." in path.parts or not path.is_relative_to(paths.OWN_SEEDS):
        raise refusal(f"{key}.path", source.path, _described(Source, "path"))


def _sentence(error: ValidationError) -> str:
    """Turn pydantic's first complaint into one sentence."""
    first = error.errors()[0]
    location = _without_branches(first["loc"])
    if first["type"].startswith("union_tag"):  # the key that tells the branches apart
        location.append("backend")
    key = ".".join(map(str, location)) or "the file"
    if first["type"] in ("extra_forbidden", "invalid_key"):
        holder = _model_at(location[:-1], first["loc"]) or Params
        return f"params.yaml: {key} is not a known key; allowed: {', '.join(holder.model_fields)}."
    allowed = _allowed(location, first["loc"])
    if first["type"] in ("missing", "union_tag_not_found"):
        return f"params.yaml: {key} is missing; allowed: {allowed}."
    return str(refusal(key, _at(first["input"], first["type"]), allowed))


def _at(value: Any, kind: str) -> Any:
    return value.get("backend") if kind.startswith("union_tag") and isinstance(value, dict) else value


def _without_branches(location: Sequence[int | str]) -> list[int | str]:
    """A location of pydantic's without the branches of unions, as in `seeds.list[str]` or `campaigns.mine.gemini`."""
    parts = [part for part in location if not str(part).endswith("]")]
    if parts[:1] == ["campaigns"] and parts[2:3] and parts[2] in _BRANCHES:
        del parts[2]
    return parts


_BRANCHES: dict[str, type[BaseModel]] = {
    "simulated": SimulatedCampaign,
    "archive": ArchiveCampaign,
    "gemini": GeminiCampaign,
}


def _allowed(location: Sequence[int | str], whole: Sequence[int | str]) -> str:
    if model := _model_at(location, whole):
        return f"a block with the keys {', '.join(model.model_fields)}"
    while (holder := _model_at(location[:-1], whole)) is None or location[-1] not in holder.model_fields:
        location = location[:-1]  # an entry of a list: its list's field says what is allowed
    return _described(holder, str(location[-1]))


def _model_at(location: Sequence[int | str], whole: Sequence[int | str]) -> type[BaseModel] | None:
    """The model whose keys stand at `location`, if it is a block of keys; `whole` tells which branch of a union."""
    annotation: Any = Params
    for part in location:
        if _is_model(annotation):
            if part not in annotation.model_fields:
                return None
            annotation = annotation.model_fields[str(part)].annotation
        elif typing.get_origin(annotation) in (list, dict):
            annotation = typing.get_args(annotation)[-1]
        else:
            return None
        if annotation is AnyCampaign:
            annotation = next((_BRANCHES[tag] for tag in whole[2:3] if tag in _BRANCHES), Campaign)
        elif typing.get_origin(annotation) in (typing.Union, types.UnionType):  # a block or list, or else a plain value
            members = [
                getattr(member, "__origin__", member) if typing.get_origin(member) is Annotated else member
                for member in typing.get_args(annotation)
            ]
            annotation = next((m for m in members if _is_model(m) or typing.get_origin(m)), annotation)
    return annotation if _is_model(annotation) else None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _described(model: type[BaseModel], field: str) -> str:
    return model.model_fields[field].description or ""


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):  # refers to itself, or has keys that JSON lacks
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
