"""A cluster on which nothing but one definition is installed, and which answers as it is told."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

from scorer.api.kinds import MEMBER_CLUSTER
from webhook.kube.ports import NotFoundError

DATE = "Sun, 01 Mar 2026 10:00:00 GMT"


DEFINED = {"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": MEMBER_CLUSTER.resource}}]}


class EmptyHub:
    """A hub with one definition; what is asked of it may be answered otherwise, by a part of the path."""

    def __init__(self, date=DATE, **answers):
        self.date = date
        answers = {"customresourcedefinitions": DEFINED, **answers}
        self.answers = {name.replace("_", "/"): answer for name, answer in answers.items()}

    @asynccontextmanager
    async def send(self, *_):
        yield SimpleNamespace(headers={"Date": self.date} if self.date else {})

    async def request(self, method, path, body=None, **_):
        for part, answer in self.answers.items():
            if part in path:
                if isinstance(answer, Exception):
                    raise answer
                return answer
        if path == "/version":
            return {"gitVersion": "v1.36.3"}
        if method == "POST":
            return {"status": {"allowed": True}}
        if path.rpartition("/")[2].endswith("s"):
            return {"metadata": {"resourceVersion": "1"}, "items": []}
        raise NotFoundError(f"{path} not found")
