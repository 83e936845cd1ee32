#!/usr/bin/env bash
# What the node needs of Debian: installed where it is missing. What is there already is taken as it is,
# whoever brought it (Docker's own containerd, for example), and nothing is ever removed for it.
set -euo pipefail
declare -A from=(
    [containerd]=containerd [ctr]=containerd [containerd-shim-runc-v2]=containerd [runc]=runc [nft]=nftables [ip]=iproute2
    [openssl]=openssl [pgrep]=procps [unshare]=util-linux [setsid]=util-linux [mmdebstrap]=mmdebstrap
    [/usr/lib/cni/bridge]=containernetworking-plugins [/usr/lib/cni/host-local]=containernetworking-plugins
    [/etc/ssl/certs/ca-certificates.crt]=ca-certificates
)
there() { if [[ $1 == /* ]]; then [[ -e $1 ]]; else command -v "$1" >/dev/null; fi; }
need=()
for what in "${!from[@]}"; do there "$what" || need+=("${from[$what]}"); done
(( ${#need[@]} )) || exit 0
mapfile -t need < <(printf '%s\n' "${need[@]}" | sort -u)
[[ $(id -u) == 0 ]] || { echo "packages.sh: needs root to install ${need[*]}" >&2; exit 1; }
command -v apt-get >/dev/null || { echo "packages.sh: ${need[*]} missing and no apt-get here; install them" >&2; exit 1; }
echo "installing ${need[*]}"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-remove "${need[@]}" >/dev/null
for what in "${!from[@]}"; do
    there "$what" || { echo "packages.sh: $what is still missing; it is in Debian's package ${from[$what]}" >&2; exit 1; }
done
