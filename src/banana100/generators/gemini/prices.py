"""What requests cost, by the price list in params.yaml."""

from typing import TYPE_CHECKING, Any

from banana100.lineage.identity import Request
from banana100.params import Prices

if TYPE_CHECKING:  # the SDK takes a second to import, and `banana100 plan` does without
    from google.genai import types

# Tokens of an image that is sent along, by Google's documentation of Nano Banana Pro; a token is about 4 characters.
_IMAGE_TOKENS = 560
_CHARACTERS = 4


class PriceList:
    """The prices of one model.

    Args:
        model: one that the list holds; params.yaml is checked for it.
        prices: the list.
        batch: whether requests go through the Batch API.
    """

    def __init__(self, model: str, prices: Prices, batch: bool = False) -> None:
        self._price, self._thinking = prices.models[model], prices.thinking
        self._share = prices.batch if batch else 1.0

    def estimate(self, request: Request, turns: int) -> float:
        """US dollars to expect of a request whose conversation has so many turns."""
        images = turns if request.parent_id else turns - 1
        tokens = images * _IMAGE_TOKENS + turns * len(request.prompt) / _CHARACTERS
        return self._usd(self._image(request.config), tokens, self._thinking)

    def answer(self, config: dict[str, Any], usage: "types.GenerateContentResponseUsageMetadata | None") -> float:
        """US dollars of an answer, with an image or without: one without is usually billed as well."""
        if usage is None:
            return self._usd(self._image(config), 0, self._thinking)
        return self._usd(self._image(config), usage.prompt_token_count or 0, _text_tokens(usage))

    def question(self, usage: "types.GenerateContentResponseUsageMetadata | None") -> float:
        """US dollars of a request that was blocked before an answer was begun."""
        return self._usd(0, (usage and usage.prompt_token_count) or 0, 0)

    def _image(self, config: dict[str, Any]) -> float:
        return self._price.images[config.get("image_size", self._price.default_size)]

    def _usd(self, image: float, input_tokens: float, output_tokens: float) -> float:
        tokens = input_tokens * self._price.input + output_tokens * self._price.output
        return round(self._share * (image + tokens / 1_000_000), 6)


def _text_tokens(usage: "types.GenerateContentResponseUsageMetadata") -> int:
    """Tokens of thinking and text; those of the image are in the image's price."""
    details = usage.candidates_tokens_details or []
    text = sum(count.token_count or 0 for count in details if count.modality == "TEXT")
    return text + (usage.thoughts_token_count or 0)
