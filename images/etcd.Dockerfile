# etcd as its project publishes it, under the name and the user that the chart expects:
#   docker build -f images/etcd.Dockerfile -t localhost/etcd:3.6.6 .
FROM quay.io/coreos/etcd:v3.6.6
USER 10001:10001
CMD ["/usr/local/bin/etcd"]
