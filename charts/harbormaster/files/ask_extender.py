"""What the scheduler's Pod runs before kube-scheduler: one question to the extender, with the scheduler's credential.

kube-scheduler itself asks only when a pod is to be scheduled, and its log alone says that it was refused. A refusal
fails immediately, with its cause; a server that does not answer yet is asked again. Only the standard library is used.
"""

import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ATTEMPTS = 30
PAUSE_SECONDS = 2
SECONDS = 10
QUESTION = json.dumps({"Pod": {"metadata": {"name": "probe"}}, "NodeNames": []}).encode()
CAUSES = {
    401: "the extender does not know the scheduler. Its client certificate must be signed by an authority that the "
    "server accepts: the hub's, or that of certs.clientAuthorityConfigMap. Without scheduler.clientCertificateSecret, "
    "settings.extenderAllowAnonymous must be true",
    403: "the user of the client certificate in scheduler.clientCertificateSecret has no permission. Bind it to a "
    'ClusterRole with nonResourceURLs ["/extender/v1/*"] and verbs ["post"]',
    404: "no extender at this address",
}
DISTRUST = (
    "either the server has rejected the certificate in scheduler.clientCertificateSecret, whose authority must be the "
    "hub's or that of certs.clientAuthorityConfigMap, or the server's own is not signed by the authority in ca.crt"
)


def client(folders: list[Path]) -> ssl.SSLContext:
    """Trust the authority in the first folder; show the client certificate in the second one, if there is one.

    Raises:
        OSError: A file cannot be used.
    """
    trust = ssl.create_default_context(cafile=str(folders[0] / "ca.crt"))
    if len(folders) > 1:
        trust.load_cert_chain(folders[1] / "tls.crt", folders[1] / "tls.key")
    return trust


def ask(url: str, trust: ssl.SSLContext) -> tuple[int, str]:
    """Ask for the nodes of a pod without a placement; return the status, 0 without an answer, and what came with it."""
    request = urllib.request.Request(f"{url}/filter", QUESTION, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS, context=trust) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")
    except OSError as error:
        is_of_tls = isinstance(getattr(error, "reason", error), ssl.SSLError)
        return 0, f"{error}; {DISTRUST}" if is_of_tls else str(error)


def trouble(url: str, trust: ssl.SSLContext) -> str:
    """Return why kube-scheduler would get no answer; empty: it would get one."""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE_SECONDS)
        code, text = ask(url, trust)
        if code == 200:
            return ""
        if 400 <= code < 500 and code != 429:
            return f"{url}: {code}: {CAUSES.get(code, 'the extender refuses the request')}: {text}"
    hint = "Is harbormaster serve running? Check with: harbormaster doctor --context HUB"
    return f"{url}: {code or 'no answer'}: {text}. {hint}"


def main() -> int:
    """Ask with the words of the command line: URL of the extender, folder of its authority, of the certificate."""
    url, *folders = sys.argv[1:]
    try:
        found = trouble(url, client([Path(each) for each in folders]))
    except OSError as error:
        found = f"{' '.join(folders)}: the authority or the client certificate cannot be used: {error}"
    sys.stdout.write(f"{found or 'the extender answers the scheduler'}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
