# Spark with the project's job; as driver and executors on Kubernetes, too:
#   docker build -f images/spark.Dockerfile -t localhost/sharemesh-spark:0.1.0 .
FROM debian:bookworm-slim AS base
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update && apt-get install -y --no-install-recommends python3 ca-certificates openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && echo "sharemesh:x:10001:10001::/tmp:/usr/sbin/nologin" >> /etc/passwd \
    && echo "sharemesh:x:10001:" >> /etc/group

FROM base AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv && python3 -m venv /build
COPY requirements/build.lock requirements/sharemesh-spark.lock /build/
RUN /build/bin/pip install --no-cache-dir --require-hashes -r /build/build.lock \
    && /build/bin/pip install --no-cache-dir --require-hashes --no-build-isolation --target /opt/site -r /build/sharemesh-spark.lock
COPY services /app/services
COPY spark /app/spark
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /app /opt/site

FROM base
COPY --from=build /opt/site /opt/site
COPY --from=build /app /app
COPY images/spark/entrypoint.sh /opt/entrypoint.sh
RUN printf '#!/bin/sh\nexec python3 -m sharemesh_spark "$@"\n' > /usr/local/bin/sharemesh-spark \
    && chmod 755 /usr/local/bin/sharemesh-spark
ENV SPARK_HOME=/opt/site/pyspark JAVA_HOME=/usr/lib/jvm/java-17-openjdk-amd64 \
    PYTHONPATH=/opt/site:/app/services:/app/spark PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["/opt/entrypoint.sh"]
CMD ["sharemesh-spark", "--help"]
