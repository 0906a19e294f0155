"""``harbormaster``, with a loop that looks at everything again at once when it gets SIGUSR1, not over ten minutes."""

import asyncio
import signal

from webhook.cli import main
from webhook.controllers import assembly
from webhook.controllers.machinery.loop import Loop


class WokenLoop(Loop):
    """See the module."""

    async def run(self) -> None:
        """Reconcile until cancelled."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._everything_again)
        await super().run()

    def _everything_again(self) -> None:
        for controller in self.controllers:
            for key in controller.resync():
                self.queues[controller.name].add(key)


if __name__ == "__main__":
    assembly.Loop = WokenLoop  # type: ignore[misc]  # nothing else in this process makes one
    main()
