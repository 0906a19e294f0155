# The image of harbormaster: its wheel and the locked dependencies in a virtual environment, without a shell.
#
#   make image TAG=REGISTRY/harbormaster:0.1.0     # with public base images, or your own in BUILD and BASE
#   docker build --build-arg BUILD=IMAGE@sha256:DIGEST --build-arg BASE=IMAGE@sha256:DIGEST -t harbormaster:0.1.0 .
#   docker build --build-arg BUILD=… --build-arg BASE=… --target sbom --output dist .    # dist/sbom.json, CycloneDX
#
# BUILD   an image with Python 3.11 or newer, pip and a shell. Only Python packages are copied from it
# BASE    the base of the result: Python of the same minor version, architecture and C library, preferably without a
#         shell, such as the distroless Python of Debian 12 (3.11)
# PYTHON  path of Python in BASE
# COMMIT  commit of the source, for metrics and the label org.opencontainers.image.revision
#
# Both images must be named by digest, so that the same text makes the same image. `make image` resolves tags to digests
# and prints them. `make image ENGINE=none` runs these steps without a container engine (package image).

ARG BUILD
ARG BASE

FROM ${BUILD} AS tools
ARG BUILD
ARG BASE
RUN for image in "$BUILD" "$BASE"; do \
        echo "$image" | grep -Eq '@sha256:[0-9a-f]{64}$' \
        || { echo "$image: name the image by its digest, as NAME@sha256:DIGEST" >&2; exit 1; }; \
    done
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build

FROM tools AS dependencies
COPY requirements.txt ./
RUN python3 -m venv --without-pip /opt/harbormaster \
    && python3 -m pip --python /opt/harbormaster/bin/python3 install --quiet --no-deps --no-compile --require-hashes \
        --only-binary :all: -r requirements.txt \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/harbormaster/lib \
    && rm /opt/harbormaster/bin/[Aa]ctivate* \
    && chmod -R u=rwX,go=rX /opt/harbormaster

FROM tools AS wheel
COPY requirements-build.txt ./
RUN python3 -m venv --without-pip /tools \
    && python3 -m pip --python /tools/bin/python3 install --quiet --no-deps --require-hashes --only-binary :all: \
        -r requirements-build.txt
COPY pyproject.toml README.md LICENSE ./
COPY docs/man docs/man
COPY examples/fleet examples/fleet
COPY charts/harbormaster-agent charts/harbormaster-agent
COPY certs certs
COPY scorer scorer
COPY webhook webhook
RUN /tools/bin/hatchling build --target wheel --directory /wheel

FROM dependencies AS application
COPY --from=wheel /wheel /wheel
RUN python3 -m pip --python /opt/harbormaster/bin/python3 install --quiet --no-deps --no-compile --no-index /wheel/*.whl \
    && cd /opt/harbormaster/lib/python3*/site-packages \
    && python3 -m compileall -q --invalidation-mode unchecked-hash certs scorer webhook

FROM tools AS lister
COPY requirements-sbom.txt ./
RUN python3 -m venv --without-pip /lister \
    && python3 -m pip --python /lister/bin/python3 install --quiet --no-deps --require-hashes --only-binary :all: \
        -r requirements-sbom.txt

FROM application AS inventory
COPY --from=lister /lister /lister
COPY pyproject.toml ./
RUN /lister/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
        --output-format JSON --output-file /sbom.json /opt/harbormaster/bin/python3

FROM scratch AS sbom
COPY --from=inventory /sbom.json /

# The environment stands on the Python of BASE from here on.
FROM application AS moved
ARG PYTHON=/usr/bin/python3
RUN rm /opt/harbormaster/bin/python* \
    && ln -s "$PYTHON" /opt/harbormaster/bin/python3 \
    && ln -s python3 /opt/harbormaster/bin/python \
    && sed -i -e "s|^home = .*|home = ${PYTHON%/*}|" -e '/^executable\|^command/d' /opt/harbormaster/pyvenv.cfg

FROM ${BASE}
ARG COMMIT=""
LABEL org.opencontainers.image.title="harbormaster" \
      org.opencontainers.image.description="Admission, placement and rollout for fleets of Kubernetes clusters" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${COMMIT}"
COPY --from=moved /opt/harbormaster /opt/harbormaster
# MALLOC_* are of glibc: webhook/telemetry/allocator.py says why. Other C libraries ignore them.
ENV PATH=/opt/harbormaster/bin:/usr/local/bin:/usr/bin:/bin HOME=/ PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072 \
    HARBORMASTER_COMMIT=${COMMIT}
USER 65532:65532
WORKDIR /
# BASE fits, or the image is not made.
RUN ["harbormaster", "--version"]
ENTRYPOINT ["harbormaster"]
