"""Reads the login for an API server from a kubeconfig, or from the pod that this process runs in.

kubernetes-asyncio interprets credential plugins, token files and the rest, and says what is wrong; TLS is set up as it
does. To load it, with the models of all kinds of Kubernetes, takes longer than most commands take to run: a context
with nothing but a token or a certificate is read without it (`webhook.kube.login.static_context`).
"""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from webhook.kube.login.connection import ApiServerEndpoint, ConfigurationError, Login, environment_proxy
from webhook.kube.login.kubeconfig_fields import check_kubeconfig, parse_kubeconfig
from webhook.kube.login.static_context import read_plain
from webhook.runtime.files import read_bounded

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration


async def read_login(kubeconfig: Path | None, context: str | None) -> Login:
    """Return the login of a kubeconfig, or of the pod that this process runs in when there is none.

    Args:
        kubeconfig: The file.
        context: In it; None: its current one.

    Raises:
        ConfigurationError: The file cannot be used, or there is none and this is no pod.
    """
    if kubeconfig is not None and (plain := await asyncio.to_thread(read_plain, kubeconfig, context)) is not None:
        return plain
    configuration = await _read(kubeconfig, context)
    try:
        return _login(configuration)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"kubeconfig {kubeconfig}: {error}") from error


async def read_endpoint(kubeconfig: Path, context: str | None) -> ApiServerEndpoint:
    """Return the API server of a kubeconfig as another client can be told of it, without credentials.

    Raises:
        ConfigurationError: The file cannot be used, or does not check the certificate of the server.
    """
    configuration = await _read(kubeconfig, context)
    if not configuration.verify_ssl:
        raise ConfigurationError(
            f"kubeconfig {kubeconfig}: insecure-skip-tls-verify: true: nothing vouches for {configuration.host}; "
            "name its authority instead: certificate-authority"
        )
    authorities = ""
    if configuration.ssl_ca_cert:
        try:
            content = await asyncio.to_thread(read_bounded, Path(configuration.ssl_ca_cert))
        except OSError as error:
            raise ConfigurationError(f"kubeconfig {kubeconfig}: {error.filename}: {error.strerror}") from error
        authorities = content.decode("ascii", errors="replace")
    return ApiServerEndpoint(
        str(configuration.host), authorities, configuration.tls_server_name or "", str(configuration.proxy or "")
    )


async def _read(kubeconfig: Path | None, context: str | None) -> "Configuration":
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config

    from webhook.kube.login.token_renewal import renewal

    configuration = Configuration()
    try:
        if kubeconfig is None:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # theirs
        else:
            content = await asyncio.to_thread(read_bounded, kubeconfig)  # the library takes no file for an empty one
            check_kubeconfig(parse_kubeconfig(content), context)
            await load_kube_config(str(kubeconfig), context=context, client_configuration=configuration)
            configuration.refresh_api_key_hook = await renewal(kubeconfig, context)
    except (
        ConfigException,
        OSError,
        yaml.YAMLError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        where = f"kubeconfig {kubeconfig}" if kubeconfig else "no --kubeconfig is given and this runs in no pod"
        reason = " ".join(str(error).split())
        if isinstance(error, OSError) and error.strerror:
            other = error.filename if error.filename != str(kubeconfig) else None
            reason = f"{other}: {error.strerror}" if other else error.strerror
        raise ConfigurationError(f"{where}: {reason}") from error
    return configuration


def _login(configuration: "Configuration") -> Login:
    async def credentials() -> Mapping[str, str]:
        return {setting["key"]: setting["value"] for setting in (await configuration.auth_settings()).values()}

    address = str(configuration.host)
    proxy = configuration.proxy or environment_proxy(address)
    return Login(address, _trust(configuration), credentials, proxy, configuration.tls_server_name or None)


def _trust(configuration: "Configuration") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
