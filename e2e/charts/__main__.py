"""``python -m e2e.charts``: write what the charts render now as what they are expected to render."""

import sys

from e2e.charts.golden import AGENT_DEPLOYMENT, GOLDEN, agent_deployment, cases, golden
from e2e.charts.rendering import Helm
from e2e.controlplane.build import Programs


def main() -> None:
    """Write the files that differ, and remove those of no case."""
    helm = Helm(Programs()["helm"])
    expected = set()
    for chart, values, path in cases():
        text = golden(helm, chart, values)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path.relative_to(GOLDEN)}\n")
        expected.add(path)
    AGENT_DEPLOYMENT.write_text(agent_deployment(helm), encoding="utf-8")
    for path in set(GOLDEN.rglob("*.yaml")) - expected:
        path.unlink()


if __name__ == "__main__":
    main()
