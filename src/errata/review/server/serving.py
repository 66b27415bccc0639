"""Runs the web server until it is interrupted."""

import contextlib
import errno
import ipaddress
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from errata.errors import InputError, StoreError
from errata.review.server.review_session import ReviewSession
from errata.review.server.security import AllowedHosts

GRACE = 2  # seconds for open requests after an interrupt


@dataclass(frozen=True)
class ServerAddress:
    """Where the server listens, and how reviewers reach it.

    host, port: to listen on. certificate, key: files for TLS. proxy: the public address of a proxy that does TLS.
    """

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    proxy: str | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise InputError("TLS needs both `tls_cert=` and `tls_key=`")
        for path in (self.certificate, self.key):
            if path is not None and not path.is_file():
                raise InputError(f"{path} does not exist")
        parts = urlsplit(self.proxy or "https://proxy")
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/"):
            raise InputError(f"the address of the proxy must be like https://labels.example.org, not {self.proxy!r}")
        if not self.is_loopback and self.certificate is None and self.proxy is None:
            raise InputError(
                f"host {self.host} can be reached by others, who could read the links and the data on the way: pass "
                "`tls_cert=` and `tls_key=`, or with a proxy that does TLS its public address: `behind_proxy=`"
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the server."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def scheme(self) -> str:
        """The scheme of the links."""
        if self.proxy is not None:
            return urlsplit(self.proxy).scheme
        return "http" if self.certificate is None else "https"

    def base(self, port: int) -> str:
        """The start of every link. port: on which the server listens."""
        if self.proxy is not None:
            return self.proxy.rstrip("/")
        host = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def allowed_hosts(self, port: int) -> AllowedHosts:
        """The host names in requests to this server."""
        if self.proxy is not None:
            return AllowedHosts({urlsplit(self.proxy).netloc.lower()})
        names = {"localhost", "127.0.0.1", "[::1]", self.host.lower()}
        if not self.is_loopback:
            names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        return AllowedHosts({f"{name}:{port}" for name in names}, addresses=not self.is_loopback)


def listen(address: ServerAddress) -> socket.socket:
    """Open the port; an error if another program uses it."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio leaves delays of 40 ms
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address.host, address.port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        cause = "is in use" if getattr(error, "errno", None) == errno.EADDRINUSE else f"cannot be used: {error}"
        raise StoreError(f"port {address.port} of {address.host} {cause}: choose another with `port=`") from error
    return listener


def links(address: ServerAddress, listener: socket.socket, tokens: Mapping[str, str]) -> dict[str, str]:
    """The link of each reviewer."""
    base = address.base(listener.getsockname()[1])
    return {name: f"{base}/review/{token}" for name, token in tokens.items()}


def serve(
    session: ReviewSession,
    tokens: Mapping[str, str],
    address: ServerAddress,
    listener: socket.socket,
    retrain: bool = False,
) -> None:
    """Answer requests until the process is interrupted or terminated. retrain: the first reviewer may train again."""
    import uvicorn

    from errata.review.server.routes import ReviewRoutes

    application = ReviewRoutes(session, tokens, retrain).application(
        address.allowed_hosts(listener.getsockname()[1]), address.scheme
    )
    threading.Thread(target=_prepare_ranking, args=(session,), daemon=True).start()
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,  # links are secrets
        server_header=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE,
        ssl_certfile=None if address.certificate is None else str(address.certificate),
        ssl_keyfile=None if address.key is None else str(address.key),
    )
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it again after it has closed everything
        uvicorn.Server(config).run(sockets=[listener])


def _prepare_ranking(session: ReviewSession) -> None:
    """Search the neighbours once, and take the verdicts of earlier starts into account."""
    _ = session.samples.near
    session.rerank_if_due()
