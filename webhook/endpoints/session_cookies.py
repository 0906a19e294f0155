"""The cookies of somebody who signs in to the page, and whether the page itself has sent one.

Their names make browsers keep them for this host alone, and only when it has set them over HTTPS; no script can read
them. That a browser sends them proves nothing about who has made it ask: links and forms of other sites lead here, too.
So the origin and the site that browsers name have to be those of the page, and of what changes nothing the page is the
only one that can read the answer.
"""

from datetime import timedelta
from typing import Final

from aiohttp import web

SESSION: Final = "__Host-harbormaster-session"
BEGUN: Final = "__Host-harbormaster-sign-in"
_READ: Final = frozenset({"GET", "HEAD"})


def keep(response: web.StreamResponse, name: str, value: str, life: timedelta) -> None:
    """Have the browser keep a cookie for a while."""
    seconds = max(1, int(life.total_seconds()))
    response.set_cookie(name, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="Lax")


def kept(request: web.Request, name: str) -> str | None:
    """Return what the browser keeps under a name; None: nothing.

    The library is not asked: it takes parts of a quoted value, and names behind blanks that are none to browsers, for
    cookies of their own, so a host beside ours, which cannot set one of this name, could have it find one.
    """
    for pair in request.headers.get("Cookie", "").split(";"):
        found, is_given, value = pair.strip(" ").partition("=")
        if found == name and is_given:
            return value
    return None


def forget(response: web.StreamResponse, name: str) -> None:
    """Have the browser forget a cookie."""
    response.del_cookie(name, path="/", secure=True, httponly=True, samesite="Lax")


def is_of_page(request: web.Request, page: str) -> bool:
    """Say whether the page has made the browser ask, or the viewer by an address that they have typed.

    Args:
        request: With a cookie.
        page: The origin of the page.
    """
    reads = request.method in _READ
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
    if origin is not None and origin != page:
        return False
    if site is not None:
        return site == "same-origin" or (site == "none" and reads)
    return reads or origin is not None
