"""Asks an actor a request: what it answers, or what is to be said instead."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from greenroom.errors import (
    ActorTerminated,
    AskTimeout,
    GreenroomError,
    HttpError,
    MailboxFull,
    SystemStopped,
)
from greenroom.meta.web.http.responses import phrase, plain
from greenroom.meta.web.messages import response_of

if TYPE_CHECKING:
    from greenroom.meta.web.http.body import BodyReader
    from greenroom.meta.web.http.host import WebHost
    from greenroom.meta.web.messages import HttpRequest, HttpResponse
    from greenroom.meta.web.routes import Found
    from greenroom.meta.web.targets import Route

__all__ = ["ask", "response_for"]


async def ask(host: WebHost, request: HttpRequest, found: Found, body: BodyReader) -> HttpResponse:
    """The response to a request whose route leads to an actor, or nowhere. `ConnectionError` if nobody wants it."""
    route: Route | None = found.target
    if route is None:
        if found.allowed:
            allowed = ", ".join(one or "*" for one in found.allowed)
            return plain(405, "this path has other methods", {"allow": allowed})
        return plain(404, f"there is nothing at {request.path}")
    if not host.is_open:
        return plain(503, "the server is being stopped", {"connection": "close"})
    try:
        request.body = body if route.stream else await body.read()
        timeout = host.limits.request_timeout if route.timeout is None else route.timeout
        return response_of(await route.next_ref().ask(request, timeout=timeout))
    except HttpError as exc:
        return response_for(exc)
    except AskTimeout as exc:
        host.log.warning("%s %s: %s", request.method, request.path, exc)
        return plain(504, "the answer did not come in time")
    except (MailboxFull, ActorTerminated, SystemStopped) as exc:
        host.log.warning("%s %s: %s", request.method, request.path, exc)
        return plain(503, "too busy, or not there: try again later", {"retry-after": "1"})
    except (ConnectionError, asyncio.CancelledError):
        raise
    except Exception as exc:
        kind = "" if isinstance(exc, GreenroomError) else f"{type(exc).__name__}: "
        host.log.error("%s %s failed: %s%s", request.method, request.path, kind, exc)
        return plain(500, "the answer could not be made")


def response_for(error: HttpError) -> HttpResponse:
    """What an `HttpError` says."""
    return plain(error.status, error.text or phrase(error.status))
