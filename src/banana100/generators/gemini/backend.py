"""Backend `gemini`: one request, sent once, and what came of it."""

import asyncio
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import httpx
from google.genai import errors as api_errors

from banana100.generators.base import Answer, Halt, Refused, Rejected, Turn, Unavailable
from banana100.generators.gemini import errors, messages
from banana100.generators.gemini.client import MAX_BODY, TooLarge, new_client
from banana100.generators.gemini.jobs import Jobs
from banana100.generators.gemini.prices import PriceList
from banana100.lineage.identity import Request
from banana100.params import Prices


class Gemini:
    """Asks one model; see `BatchBackend`.

    Raises:
        UserError: no key in the environment, or a base URL that is none.
    """

    def __init__(self, model: str, prices: Prices, batch: bool = False) -> None:
        self._prices = PriceList(model, prices, batch)
        self._client, self._http = new_client(f"{model} is to be asked")
        jobs = Jobs(self._client, model, self._prices)
        self.submit, self.find, self.results = jobs.submit, jobs.find, jobs.results

    async def ask(self, request: Request, turns: Sequence[Turn], timeout: float) -> Answer:
        """Send one request, once; see `RemoteBackend.ask`."""
        conversation, settings = messages.contents(turns), messages.settings(request.config)
        asked_at, started = datetime.now(UTC), time.monotonic()

        def timing() -> dict[str, Any]:
            seconds = round(time.monotonic() - started, 3)
            return {"asked_at": asked_at.isoformat(timespec="seconds"), "seconds": seconds}

        try:
            async with asyncio.timeout(timeout):
                response = await self._client.aio.models.generate_content(
                    model=request.model, contents=conversation, config=settings
                )
            # decoding a large image would hold up all other chains
            return await asyncio.to_thread(messages.read, response, request.config, self._prices, timing())
        except (Refused, Unavailable, Rejected, Halt, TimeoutError):
            raise
        except api_errors.APIError as error:
            raise errors.of_api(error, request.model) from None
        except httpx.RequestError as error:
            raise errors.of_transport(error) from None
        except TooLarge:
            usd = self.estimate(request, len(turns))
            raise messages.unreadable(f"more than {MAX_BODY // 1_000_000} MB", usd, timing()) from None
        except (api_errors.UnknownApiResponseError, json.JSONDecodeError):  # a proxy's page, or half of the body
            raise Unavailable("no JSON came", billed=True) from None
        except (ValueError, AttributeError) as error:
            detail = f"not an answer of the API ({type(error).__name__})"
            raise messages.unreadable(detail, self.estimate(request, len(turns)), timing()) from None
        except Exception as error:
            raise errors.unexpected(error) from None

    def estimate(self, request: Request, turns: int) -> float:
        """US dollars to expect; see `RemoteBackend.estimate`."""
        return self._prices.estimate(request, turns)

    async def close(self) -> None:
        """Let go of connections."""
        await self._http.aclose()
