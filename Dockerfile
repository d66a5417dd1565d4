# The command line in a container:
#   docker build -t equipoise .
# For the small CPU build of torch, add --build-arg PIP_EXTRA_INDEX_URL=<torch's index of CPU wheels>.
#   docker run --rm -v "$PWD:/data" equipoise train patients.csv --target diagnosis
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
ARG EXTRAS=images,text,excel,parquet,export
ARG PIP_EXTRA_INDEX_URL
COPY constraints.txt /tmp/
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir -c /tmp/constraints.txt \
        "$(ls /wheels/equipoise-*.whl)[${EXTRAS}]" \
    && rm -rf /wheels /tmp/constraints.txt \
    && useradd --create-home --uid 1000 equipoise \
    && install --directory --owner equipoise /data
USER equipoise
WORKDIR /data
ENTRYPOINT ["equipoise"]
CMD ["--help"]
