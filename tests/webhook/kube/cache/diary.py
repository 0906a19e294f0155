"""What a shelf tells, as the versions before and after; and the smallest objects there are to tell of."""


class Diary:
    """Notes what a handler is told."""

    def __init__(self):
        self.changes = []

    def __call__(self, change):
        self.changes.append(tuple(document and document["metadata"]["resourceVersion"] for document in change))


def version(name, number, uid="u1", **metadata):
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": str(number), **metadata}}
