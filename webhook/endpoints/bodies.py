"""Reading request bodies within limits of size and time.

Source: serving.md 1.8 part A.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

THREAD_BYTES: Final = 256 * 1024
"""What is longer than this is read and written beside the event loop, so that it does not hold up the others."""

ResultT = TypeVar("ResultT")


class BodyError(Exception):
    """A body that could not be read; the message is fit for the caller."""


class BodyTooLargeError(BodyError):
    """More bytes than allowed, announced or sent."""


class BodyTimeoutError(BodyError):
    """The body did not arrive in time."""


class BrokenBodyError(BodyError):
    """The body ended early or its framing is wrong."""


async def read_body(request: web.Request, limit: int, seconds: float) -> bytes:
    """Return the whole body.

    Args:
        request: Its body must not have been touched.
        limit: Bytes.
        seconds: How long the body may take to arrive.

    Raises:
        BodyTooLargeError: Longer than *limit*; nothing is read when the length is announced.
        BodyTimeoutError: Not there within *seconds*.
        BrokenBodyError: The client broke off or its chunks are malformed.
    """
    length = request.content_length
    if length is not None and length > limit:
        raise BodyTooLargeError(f"the body has {length} bytes; at most {limit} are accepted")
    content = request.content
    try:
        if content.is_eof():  # came together with the headers, as is usual
            body = content.read_nowait()
        else:
            async with asyncio.timeout(seconds):
                chunks, size = [], 0
                while chunk := await content.readany():
                    size += len(chunk)
                    if size > limit:
                        raise BodyTooLargeError(f"the body has more than the {limit} bytes accepted")
                    chunks.append(chunk)
            body = b"".join(chunks)
    except TimeoutError as error:
        raise BodyTimeoutError(f"the body did not arrive within {seconds:g} s") from error
    except (web.RequestPayloadError, HttpProcessingError, ConnectionError) as error:
        raise BrokenBodyError("the body ended early or its framing is wrong") from error
    if len(body) > limit:
        raise BodyTooLargeError(f"the body has more than the {limit} bytes accepted")
    return body


async def beside_loop(size: int, work: Callable[[], ResultT]) -> ResultT:
    """Do *work* on so many bytes: in a thread when they are many."""
    return await asyncio.to_thread(work) if size > THREAD_BYTES else work()
