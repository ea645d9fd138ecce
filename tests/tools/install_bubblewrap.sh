#!/bin/sh
# Make bubblewrap available to the sandbox tests, or say what to install.
set -eu
if command -v bwrap >/dev/null; then
    exit 0
fi
if command -v apt-get >/dev/null; then
    run=""
    [ "$(id -u)" = 0 ] || run="sudo -n"
    if $run apt-get update -qq && $run apt-get install -y -qq --no-install-recommends bubblewrap; then
        exit 0
    fi
fi
echo "The sandbox tests need bubblewrap: install the package 'bubblewrap' and try again." >&2
exit 1
