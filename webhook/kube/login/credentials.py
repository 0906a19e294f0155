"""The login for an API server, from a context of a kubeconfig or from this process's pod.

A context with only a token or a certificate is read directly. kubernetes-asyncio handles everything else: credential
plugins, providers, token files, passwords, and the ServiceAccount of a pod. It is imported lazily, because its import
takes longer than most commands.
"""

import asyncio
import base64
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scorer.api.unstructured.documents import text_at
from webhook.kube.login.connection import ApiServerEndpoint, Credentials, Login, environment_proxy
from webhook.kube.login.kubeconfig import ConfigurationError, KubeconfigContext, read_context
from webhook.runtime.files import read_bounded

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration

_OF_LIBRARY: Final = frozenset({"exec", "auth-provider", "tokenFile", "username", "password"})
"""Fields of a user that kubernetes-asyncio turns into credentials."""


async def read_login(kubeconfig: Path | None, context: str | None) -> Login:
    """Return the login in a kubeconfig or, without a kubeconfig, the login of this process's pod.

    Args:
        kubeconfig: The file.
        context: Context of the kubeconfig, by default the current one.

    Raises:
        ConfigurationError: The file is unusable, or there is no file and this is not a pod.
    """
    if kubeconfig is None:
        return await _library_login(None)
    selected = await asyncio.to_thread(read_context, kubeconfig, context)
    if _OF_LIBRARY.isdisjoint(selected.user):
        return await asyncio.to_thread(_static_login, selected)
    return await _library_login(selected)


async def read_endpoint(kubeconfig: Path | None, context: str | None) -> ApiServerEndpoint:
    """Return the API server of a kubeconfig or, without one, of this process's pod, without credentials.

    Raises:
        ConfigurationError: The file or its authorities are unusable, or it disables verification of the server's
            certificate. Or there is no file and this is not a pod.
    """
    if kubeconfig is None:
        return await _pod_endpoint()
    selected = await asyncio.to_thread(read_context, kubeconfig, context)
    server = selected.cluster["server"].rstrip("/")
    if selected.cluster.get("insecure-skip-tls-verify"):
        reason = (
            f" must not be true: the certificate of {server} would not be verified. Set certificate-authority instead"
        )
        raise selected.error("cluster", "insecure-skip-tls-verify", reason)
    file, authorities = await asyncio.to_thread(_authorities, selected)
    if file is not None:
        try:
            content = await asyncio.to_thread(read_bounded, file)
        except OSError as error:
            raise _unusable(selected, "cluster", "certificate-authority", error) from error
        authorities = content.decode("ascii", errors="replace")
    cluster = selected.cluster
    return ApiServerEndpoint(
        server, authorities or "", text_at(cluster, "tls-server-name"), text_at(cluster, "proxy-url")
    )


async def _pod_endpoint() -> ApiServerEndpoint:
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException, load_incluster_config

    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # theirs
        content = await asyncio.to_thread(read_bounded, Path(str(configuration.ssl_ca_cert)))
    except (ConfigException, OSError) as error:
        reason = f"no --kubeconfig is given, and the process does not run in a pod: {error}"
        raise ConfigurationError(reason) from error
    return ApiServerEndpoint(str(configuration.host).rstrip("/"), content.decode("ascii", errors="replace"))


def _static_login(context: KubeconfigContext) -> Login:
    token, cluster = text_at(context.user, "token"), context.cluster

    async def shown() -> Mapping[str, str]:
        return {"authorization": f"Bearer {token}"} if token else {}

    address = cluster["server"].rstrip("/")
    trust = _static_trust(context) if address.startswith("https") else True
    return _login(address, trust, shown, text_at(cluster, "proxy-url"), text_at(cluster, "tls-server-name"))


def _static_trust(context: KubeconfigContext) -> ssl.SSLContext:
    """Return the TLS settings of a context. Raises `ConfigurationError`."""
    file, authorities = _authorities(context)
    try:
        trust = ssl.create_default_context(cafile=file, cadata=authorities)
    except (OSError, ValueError) as error:
        field = "certificate-authority" if file is not None else "certificate-authority-data"
        raise _unusable(context, "cluster", field, error) from error
    with _certificate(context) as (certificate, key):
        if certificate is not None:  # a key alone is ignored, as by kubectl
            try:
                trust.load_cert_chain(certificate, key)
            except (OSError, ValueError) as error:
                lacks_key = key is not None and not key.exists()
                raise _unusable(context, "user", "client-key" if lacks_key else "client-certificate", error) from error
    if context.cluster.get("insecure-skip-tls-verify"):
        _verify_nothing(trust)
    return trust


async def _library_login(context: KubeconfigContext | None) -> Login:
    """Return the login that kubernetes-asyncio reads, from the pod without a context. Raises `ConfigurationError`."""
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config

    from webhook.kube.login.token_renewal import renewal

    configuration = Configuration()
    try:
        if context is None:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # theirs
        else:
            await load_kube_config(str(context.file), context=context.name, client_configuration=configuration)
            configuration.refresh_api_key_hook = await renewal(context)
        return _configured_login(configuration)
    except (ConfigException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        if isinstance(error, OSError) and error.strerror:
            reason = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        location = context or "no --kubeconfig is given, and the process does not run in a pod"
        raise ConfigurationError(f"{location}: {reason}") from error


def _configured_login(configuration: "Configuration") -> Login:
    async def shown() -> Mapping[str, str]:
        return {setting["key"]: setting["value"] for setting in (await configuration.auth_settings()).values()}

    trust = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        trust.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        _verify_nothing(trust)
    if configuration.disable_strict_ssl_verification:
        trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return _login(str(configuration.host), trust, shown, configuration.proxy, configuration.tls_server_name)


def _login(
    address: str, trust: ssl.SSLContext | bool, credentials: Credentials, proxy: str | None, server_name: str | None
) -> Login:
    return Login(address, trust, credentials, proxy or environment_proxy(address), server_name or None)


def _verify_nothing(trust: ssl.SSLContext) -> None:
    trust.check_hostname = False
    trust.verify_mode = ssl.CERT_NONE


def _authorities(context: KubeconfigContext) -> tuple[Path | None, str | None]:
    """Return the file, or else the PEM, of a cluster's authorities. The file takes precedence, as in the library.

    Both are None if the kubeconfig names none.

    Raises:
        ConfigurationError: The inline data is empty or not base64.
    """
    file, data = context.path("cluster", "certificate-authority"), context.cluster.get("certificate-authority-data")
    if file is not None or not data:
        return file, None
    content = _decoded(context, "cluster", "certificate-authority-data").decode("ascii", errors="replace")
    if not content.strip():  # would count as no authorities, and therefore as those of the system
        raise context.error("cluster", "certificate-authority-data", " is empty")
    return None, content


@contextmanager
def _certificate(context: KubeconfigContext) -> Iterator[tuple[Path | None, Path | None]]:
    """Yield the files of the client's certificate and key, None for each that the kubeconfig lacks.

    OpenSSL only accepts files, so inline data is written to temporary ones.
    """
    with tempfile.TemporaryDirectory(prefix="harbormaster-login-") as private:
        files = []
        for field in ("client-certificate", "client-key"):
            file = context.path("user", field)
            if file is None and context.user.get(f"{field}-data"):
                file = Path(private) / field
                descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(_decoded(context, "user", f"{field}-data"))
            files.append(file)
        certificate, key = files
        yield certificate, key


def _decoded(context: KubeconfigContext, member: str, field: str) -> bytes:
    fields = context.cluster if member == "cluster" else context.user
    try:
        return base64.b64decode(fields[field])
    except ValueError as error:
        raise context.error(member, field, " must be base64") from error


def _unusable(context: KubeconfigContext, member: str, field: str, error: Exception) -> ConfigurationError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    file = context.path(member, field)
    return context.error(member, field, f" {file}: {reason}" if file is not None else f" {reason}")
