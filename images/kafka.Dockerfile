# Apache Kafka as its project publishes it, as the user of the other images; the end-to-end suite brings the settings:
#   docker build -f images/kafka.Dockerfile -t localhost/kafka:4.4.0 .
FROM apache/kafka:4.4.0
USER root
RUN ln -s libs /opt/kafka/tools
USER 10001:10001
WORKDIR /tmp
CMD ["java", "-cp", "/opt/kafka/libs/*", "kafka.Kafka"]
