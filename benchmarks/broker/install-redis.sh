#!/bin/sh
# Redis for `make bench-broker`: Debian's redis-server, installed where it is missing and this user may.
set -eu
if command -v redis-server >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "redis-server is missing, and there is no apt-get: install it yourself, or go without its rows." >&2
    exit 0
fi
may=""
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "redis-server is missing: run 'sudo apt-get install redis-server', or go without its rows." >&2
        exit 0
    fi
    may="sudo -n"
fi
# Not to be started as a service: the benchmark starts its own.
install="$may env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server"
$install >/dev/null 2>&1 || { $may apt-get update -qq && $install >/dev/null; } ||
    echo "redis-server could not be installed: its rows will be missing." >&2
