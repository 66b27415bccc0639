"""Who may ask for what: hosts, origins, tokens, sizes, and the headers of every answer."""

import asyncio
import contextlib
import hmac
import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 8_000_000  # of a request
MOST_DISCARDED = 100_000_000
LONGEST_DISCARD = 10.0  # seconds
TOO_LARGE = 413
HEADERS = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}


def reviewer_of(token: str, tokens: Mapping[str, str]) -> str | None:
    """The reviewer with this token. All tokens are compared, in a time that does not depend on the text."""
    found = None
    for name, known in tokens.items():
        if hmac.compare_digest(known.encode(), token.encode("utf-8", "replace")):
            found = name
    return found


@dataclass(frozen=True)
class AllowedHosts:
    """The names under which the server may be addressed: another name is a page that poses as this one.

    names: host names, with a port if it is not that of the scheme. addresses: whether any IP address is allowed, which
    no other site can pose as.
    """

    names: Collection[str]
    addresses: bool = False

    def allow(self, host: str) -> bool:
        """Whether a Host header names this server."""
        return host.lower() in self.names or (self.addresses and _is_address(host))


def _is_address(host: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class RequestChecks:
    """Refuses requests of other sites and large ones before anything else is done, and adds headers to all answers."""

    def __init__(self, app: "ASGIApp", hosts: AllowedHosts, scheme: str) -> None:
        self._app, self._hosts, self._scheme = app, hosts, scheme

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: "Message") -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                added = [(name, value) for name, value in HEADERS.items() if name not in present]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        problem = self._problem(scope["method"], headers)
        if problem:
            if problem[0] == TOO_LARGE:
                await discard(receive)  # a browser shows the answer only after it has sent everything
            await _refuse(problem, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _problem(self, method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._hosts.allow(host):
            return 421, "This server does not answer under this host name."
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"{self._scheme}://{host}".lower():
            return 403, "This request comes from a page of another site."
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and method != "GET":
            return 403, "This request comes from a page of another site."
        if method not in ("GET", "HEAD") and origin is None:
            return 403, "A request that changes something must name its origin."
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return TOO_LARGE, f"The request is larger than {MOST_BYTES // 10**6} MB."
        return None


async def discard(receive: "Receive") -> None:
    """Read the rest of a request without keeping it, up to a limit."""
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LONGEST_DISCARD):
            while size < MOST_DISCARDED:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body"):
                    return


async def _refuse(problem: tuple[int, str], send: "Send") -> None:
    from starlette.responses import JSONResponse

    status, sentence = problem
    response = JSONResponse({"error": sentence}, status, headers={"connection": "close"})
    for message in (
        {"type": "http.response.start", "status": status, "headers": response.raw_headers},
        {"type": "http.response.body", "body": response.body},
    ):
        await send(message)
