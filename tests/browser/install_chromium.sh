#!/bin/sh
# Make a Chromium available to the browser tests, or say what to install. $1: a python with playwright.
set -eu
if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then
    exit 0
fi
if command -v apt-get >/dev/null; then
    run=""
    [ "$(id -u)" = 0 ] || run="sudo -n"
    if $run apt-get update -qq && $run apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; then
        exit 0
    fi
fi
"$1" -m playwright install chromium && exit 0
echo "The browser tests need Chromium: install the package 'chromium' (or Google Chrome) and try again." >&2
exit 1
