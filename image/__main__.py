"""``python3 -m image``: what ``make image`` and ``make sbom`` run. Needs only the standard library."""

import argparse
import os
import sys
from pathlib import Path

from image.archive import Contents, full_name, write_archive
from image.bases import ResolutionError, resolve
from image.build import RUNTIME, BuildError, build, files_of
from image.dockerfile import DockerfileError
from image.layers import LayerError
from image.machine import PYTHON, MachineError, architecture

PROJECT = Path(__file__).parents[1]


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python3 -m image", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    resolving = commands.add_parser("resolve", help="print the build arguments of base images, each with its digest")
    resolving.add_argument("--engine", required=True)
    resolving.add_argument("--platform", default="")
    resolving.add_argument("images", nargs="+", metavar="ARGUMENT=IMAGE")
    archive = commands.add_parser("archive", help="build the image without a container engine, as an OCI archive")
    archive.add_argument("--name", required=True, help="name of the image, as REPOSITORY:TAG")
    archive.add_argument("--commit", default="")
    archive.add_argument("--platform", default="")
    archive.add_argument("output", type=Path)
    sbom = commands.add_parser("sbom", help="write sbom.json without a container engine")
    sbom.add_argument("output", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        if options.command == "resolve":
            _resolve(options.engine, options.images, options.platform)
        elif options.command == "archive":
            _archive(options.output, options.name, options.commit, options.platform)
        else:
            files_of(build(PROJECT, "sbom"), options.output)
    except (BuildError, DockerfileError, LayerError, MachineError, OSError, ResolutionError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _resolve(engine: str, images: list[str], platform: str) -> None:
    for image in images:
        argument, _, name = image.partition("=")
        resolved = resolve(engine, name, platform)
        sys.stderr.write(f"{argument:6}{resolved}\n")
        sys.stdout.write(f"--build-arg {argument}={resolved}\n")


def _archive(output: Path, name: str, commit: str, platform: str) -> None:
    full_name(name)  # fails now, not after a build of several minutes
    mine = f"linux/{architecture()}"
    if platform not in ("", mine):
        raise MachineError(f"PLATFORM={platform}: must be {mine}, the platform of this machine, when ENGINE=none")
    sys.stderr.write(f"BASE  {PYTHON} of this machine, {mine}\n")
    built = build(PROJECT, BASE=RUNTIME, COMMIT=commit)
    image = Contents(
        layers=built.layers,
        architecture=architecture(),
        user=built.user,
        folder=built.folder,
        entrypoint=built.entrypoint,
        environment=built.variables,
        labels=built.labels,
    )
    digest = write_archive(output, image, name, time=_source_time())
    sys.stderr.write(f"wrote {output}: {name}, manifest {digest}\n")


def _source_time() -> int:
    text = os.environ.get("SOURCE_DATE_EPOCH") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise ValueError(f"SOURCE_DATE_EPOCH={text[:64]!r}: must be seconds since 1970")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
