#!/bin/sh
# Make the programs of PostgreSQL available to the tests, or say what to install; start no server.
set -eu
if command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
    exit 0
fi
if command -v apt-get >/dev/null; then
    run=""
    [ "$(id -u)" = 0 ] || run="sudo -n"
    if $run apt-get update -qq \
        && $run env RUNLEVEL=1 apt-get install -y -qq --no-install-recommends postgresql; then
        exit 0
    fi
fi
echo "The tests of PostgreSQL need its server: install 'postgresql' and try again." >&2
exit 1
