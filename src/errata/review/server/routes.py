"""The addresses of the server. Each is below /review/TOKEN, and the token says who the reviewer is."""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from errata.errors import InputError, StoreError
from errata.report.page import content_policy
from errata.review.decisions import read_rows
from errata.review.server.decision_files import decisions_csv, import_decisions
from errata.review.server.group_commit import GroupCommit
from errata.review.server.live_updates import LiveUpdates
from errata.review.server.retraining import Retraining
from errata.review.server.review_session import ReviewSession
from errata.review.server.security import MOST_BYTES, TOO_LARGE, AllowedHosts, RequestChecks, discard, reviewer_of

MOST_EVENTS = 1_000  # in one request
SLOWEST = 30.0  # seconds in which a request must have arrived
BROKEN_LINK = "This link is not valid. Ask for the link that errata review printed for you."

Handler = Callable[[Request, str], Awaitable[Response]]


class ReviewRoutes:
    """Answers the requests of pages."""

    def __init__(self, session: ReviewSession, tokens: Mapping[str, str], retrain: bool = False) -> None:
        """retrain: whether the first reviewer may start a training."""
        self._session, self._tokens = session, tokens
        self._live = LiveUpdates(session)
        self._commits = GroupCommit(session, self._live.announce)
        self._retraining = Retraining(session, self._live.announce)
        self._review = session.database.settings()["review"]  # the browser keeps unsent verdicts under it
        self._trainer = session.reviewers[0] if retrain else None

    def application(self, hosts: AllowedHosts, scheme: str) -> RequestChecks:
        """The web application."""
        routes = {
            "": {"GET": self._page},
            "/state": {"GET": self._state},
            "/queue": {"POST": self._queue},
            "/verdicts": {"POST": self._verdicts},
            "/retrain": {"POST": self._retrain},
            "/live": {"GET": self._changes},
            "/samples/{place:int}": {"GET": self._sample},
            "/decisions.csv": {"GET": self._download, "POST": self._upload},
        }
        listed = [
            Route(f"/review/{{token}}{path}", self._with_reviewer(handler), methods=[method])
            for path, handlers in routes.items()
            for method, handler in handlers.items()
        ]
        return RequestChecks(Starlette(routes=listed, exception_handlers={404: _not_found}), hosts, scheme)

    def _with_reviewer(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Check the token, and answer errors of errata with a sentence."""

        async def endpoint(request: Request) -> Response:
            reviewer = reviewer_of(request.path_params["token"], self._tokens)
            if reviewer is None:
                return _broken_link(request)
            try:
                return await handler(request, reviewer)
            except _TooLargeError:
                await discard(request.receive)
                return _error(TOO_LARGE, f"The request is larger than {MOST_BYTES // 10**6} MB.")
            except TimeoutError:
                return _error(408, "The request took too long to arrive.")
            except InputError as error:
                return _error(400, str(error))
            except StoreError as error:
                return _error(507 if "full" in str(error) else 503, str(error))

        return endpoint

    async def _page(self, request: Request, reviewer: str) -> Response:
        server = {
            "review": self._review,
            "reviewer": reviewer,
            "reviewers": self._session.reviewers,
            "retrain": reviewer == self._trainer,
        }
        text = await asyncio.to_thread(self._session.samples.page, server)
        policy = content_policy("'self'") + "; frame-ancestors 'none'"
        return HTMLResponse(text.encode("utf-8", "backslashreplace"), headers={"content-security-policy": policy})

    async def _state(self, request: Request, reviewer: str) -> Response:
        return JSONResponse(await asyncio.to_thread(self._session.snapshot, reviewer))

    async def _queue(self, request: Request, reviewer: str) -> Response:
        await _json(request)
        return JSONResponse({"queue": await asyncio.to_thread(self._session.next_places, reviewer)})

    async def _verdicts(self, request: Request, reviewer: str) -> Response:
        sent = await _json(request)
        events = sent.get("events") if isinstance(sent, dict) else None
        if not isinstance(events, list) or len(events) > MOST_EVENTS:
            raise InputError(f"events must be a list of at most {MOST_EVENTS:,} events")
        reply = await self._commits.record(reviewer, events)
        return JSONResponse({"acknowledged": reply.acknowledged, "refused": reply.refused})

    async def _retrain(self, request: Request, reviewer: str) -> Response:
        await _json(request)
        if reviewer != self._trainer:
            raise InputError("only the first reviewer can train again, and only with errata review --retrain")
        return JSONResponse({"message": self._retraining.start()})

    async def _changes(self, request: Request, reviewer: str) -> Response:
        return StreamingResponse(self._live.stream(reviewer), media_type="text/event-stream")

    async def _sample(self, request: Request, reviewer: str) -> Response:
        place = request.path_params["place"]
        if place >= len(self._session.samples.ids):
            raise InputError(f"there are only {len(self._session.samples.ids):,} samples")
        return JSONResponse(await asyncio.to_thread(self._session.samples.details, place))

    async def _download(self, request: Request, reviewer: str) -> Response:
        text = await asyncio.to_thread(decisions_csv, self._session, reviewer)
        headers = {"content-disposition": 'attachment; filename="decisions.csv"'}
        return Response(text.encode("utf-8", "backslashreplace"), media_type="text/csv", headers=headers)

    async def _upload(self, request: Request, reviewer: str) -> Response:
        body = await _body(request)
        message, changed = await asyncio.to_thread(self._imported, body, reviewer)
        if changed:
            self._live.announce(changed)
        return JSONResponse({"message": message})

    def _imported(self, body: bytes, reviewer: str) -> tuple[str, list[int]]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "decisions.csv"
            path.write_bytes(body)
            try:
                decisions = read_rows(path)
            except (InputError, StoreError) as error:
                raise InputError(f"Nothing was loaded: {str(error).replace(str(path), 'decisions.csv')}") from error
        result, changed = import_decisions(self._session, decisions, reviewer, uploader=reviewer)
        return str(result), changed


class _TooLargeError(Exception):
    """The request has too many bytes."""


async def _body(request: Request) -> bytes:
    """The bytes of a request, up to the limit, which a request without a length may exceed."""
    parts, size = [], 0
    async with asyncio.timeout(SLOWEST):
        async for part in request.stream():
            size += len(part)
            if size > MOST_BYTES:
                raise _TooLargeError
            parts.append(part)
    return b"".join(parts)


async def _json(request: Request) -> Any:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise InputError("the request must be JSON (content-type: application/json)")
    body = await _body(request)
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError("the request is not valid JSON") from error


def _error(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status)


async def _not_found(request: Request, error: Exception) -> Response:
    return _broken_link(request)


def _broken_link(request: Request) -> Response:
    """A sentence for a person who opened the link, or JSON for a page that was open before."""
    if "text/html" in request.headers.get("accept", ""):
        return PlainTextResponse(BROKEN_LINK, 404)
    return _error(404, BROKEN_LINK)
