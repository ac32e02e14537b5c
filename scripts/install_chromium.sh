#!/bin/sh
# Makes Chromium available to the tests of the page: the one on PATH, else Debian's, by apt as root.
# Always ends with 0: without Chromium the tests that need it are skipped and say so.
set -eu

for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null 2>&1; then
        exit 0
    fi
done
if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ]; then
    echo "chromium: not on PATH, and no apt-get as root to install it; its tests will be skipped"
    exit 0
fi
echo "chromium: installing Debian's package"
if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends chromium-headless-shell; } >/dev/null; then
    echo "chromium: could not be installed, see above; its tests will be skipped"
fi
