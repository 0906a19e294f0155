"""Reads the login for an API server from a kubeconfig, or from the pod that this process runs in.

kubernetes-asyncio interprets certificates, tokens, credential plugins and the rest; TLS is set up as it does.
"""

import asyncio
import ssl
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config

from webhook.kube.credentials import renewal
from webhook.kube.kubeconfig_fields import check_kubeconfig
from webhook.kube.login import ConfigurationError, Login


async def read_login(kubeconfig: Path | None, context: str | None) -> Login:
    """Return the login of a kubeconfig, or of the pod that this process runs in when there is none.

    Args:
        kubeconfig: The file.
        context: In it; None: its current one.

    Raises:
        ConfigurationError: The file cannot be used, or there is none and this is no pod.
    """
    configuration = Configuration()
    try:
        if kubeconfig is None:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # theirs
        else:
            content = await asyncio.to_thread(kubeconfig.read_bytes)  # the library takes no file for an empty one
            check_kubeconfig(yaml.safe_load(content), context)
            await load_kube_config(str(kubeconfig), context=context, client_configuration=configuration)
            configuration.refresh_api_key_hook = await renewal(kubeconfig, context)
    except (ConfigException, OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
        where = f"kubeconfig {kubeconfig}" if kubeconfig else "no --kubeconfig is given and this runs in no pod"
        reason = " ".join(str(error).split())
        if isinstance(error, OSError) and error.strerror:
            other = error.filename if error.filename != str(kubeconfig) else None
            reason = f"{other}: {error.strerror}" if other else error.strerror
        raise ConfigurationError(f"{where}: {reason}") from error
    try:
        return _login(configuration)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"kubeconfig {kubeconfig}: {error}") from error


def _login(configuration: Configuration) -> Login:
    async def credentials() -> Mapping[str, str]:
        return {setting["key"]: setting["value"] for setting in (await configuration.auth_settings()).values()}

    address = str(configuration.host)
    proxy = configuration.proxy or _environment_proxy(address)
    return Login(address, _trust(configuration), credentials, proxy, configuration.tls_server_name or None)


def _trust(configuration: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _environment_proxy(address: str) -> str | None:
    """Return the proxy that the environment names for the API server, None when it names none.

    This machine itself is never asked by way of a proxy; kubectl does not either.
    """
    url = urlsplit(address)
    if _is_here(url.hostname or "") or proxy_bypass(url.hostname or ""):
        return None
    return getproxies().get(url.scheme)


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
