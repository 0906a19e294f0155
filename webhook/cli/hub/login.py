"""Login to a hub, with the libraries that this needs."""

import ssl
from typing import TYPE_CHECKING

from webhook.cli.errors import UserError
from webhook.cli.hub.connection import HubConnection, no_address
from webhook.kube.login.connection import Login
from webhook.kube.login.credentials import read_login
from webhook.kube.login.kubeconfig import ConfigurationError

if TYPE_CHECKING:
    from webhook.kube.client.api_server import ApiServer


async def login_to(connection: HubConnection) -> Login:
    """Return the credentials of a hub, without a request.

    Raises:
        UserError: The kubeconfig, or the file with the authority, cannot be used.
    """
    if connection.kubeconfig is not None:
        try:
            return await read_login(connection.kubeconfig, connection.context)
        except ConfigurationError as error:
            raise UserError(str(error)) from error
    try:
        return Login.by_token(connection.server, connection.token, connection.ca_file)
    except ssl.SSLError as error:
        raise UserError(f"{connection.ca_file}: holds no certificate ({error.reason or error})") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"{connection.ca_file}: {reason}. {connection.advice}") from error


async def open_server(connection: HubConnection) -> "ApiServer":
    """Return the server of a hub for a command that watches many objects, to be closed by ``async with``.

    Raises:
        UserError: As in `login_to`, or the address is not a URL.
    """
    from webhook.kube.client.api_server import ApiServer

    login = await login_to(connection)
    try:
        return ApiServer(login)
    except ValueError as error:
        raise no_address(connection, error) from error
