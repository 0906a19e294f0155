"""Objects of files, of kinds that are known here or on the hub."""

from collections.abc import Sequence

from webhook.cli.client import Client, RefusedError
from webhook.cli.documents import Found, Loaded, resolve
from webhook.cli.failure import UserError


async def known_objects(client: Client, found: Sequence[Found], namespace: str | None) -> list[Loaded]:
    """Check what was read; if it has kinds that are not known here, ask the hub for them.

    Raises:
        UserError: As `resolve`; or an object is in another namespace than *namespace*.
    """
    space = namespace or client.namespace
    try:
        loaded = resolve(found, namespace=space)
    except UserError:
        from webhook.cli.discovery import discover

        try:
            custom = {each.kind.group_kind: each.kind for each in await discover(client)}
        except RefusedError:
            custom = {}
        if not custom:
            raise
        loaded = resolve(found, custom=custom, namespace=space)
    problems = [
        f'{one.source}: metadata.namespace: "{one.namespace}" is not the namespace of --namespace, "{namespace}"'
        for one in loaded
        if namespace and one.namespace not in ("", namespace)
    ]
    if problems:
        raise UserError(problems)
    return loaded
