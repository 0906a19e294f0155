"""A clock for what looks at the time while it works."""


class Watch:
    """A clock that moves by a step whenever it is read."""

    def __init__(self, step):
        self.step = step
        self.time = 100.0

    def __call__(self):
        self.time += self.step
        return self.time
