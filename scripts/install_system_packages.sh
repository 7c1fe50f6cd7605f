#!/bin/sh
# Debian's chromium, in which the tests open reports, and EGL, with which MuJoCo draws where there is no display.
# Says nothing when they are there already, and never asks for a password: without the rights it says what is missing,
# and the tests that need it are skipped (with CI=true they fail).
set -eu

packages=""
command -v chromium >/dev/null 2>&1 || packages="chromium"
set -- "${LIBRARIES:-/usr/lib}"/*/libEGL.so.1 # tests set LIBRARIES
[ -e "$1" ] || packages="$packages libegl1 libgl1-mesa-dri"
packages=${packages# }
[ -n "$packages" ] || exit 0

commands="apt-get update && apt-get install --yes --no-install-recommends $packages"

if ! command -v apt-get >/dev/null 2>&1; then
    echo "The tests need chromium and EGL, and this system has no apt-get to install what is missing: $packages." >&2
    echo "Install it your system's way, so that 'chromium' is on the PATH." >&2
    exit 1
fi

if [ "$(id -u)" = 0 ]; then
    privileged=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true >/dev/null 2>&1; then
    privileged="sudo -n"
else
    echo "Missing: $packages. Tests that need it are skipped." >&2
    echo "Installing it needs administrator rights, which there are not here. As root, run:" >&2
    echo "    $commands" >&2
    exit 0
fi

echo "Installing $packages." >&2
# env, because sudo drops variables that are set before it.
if ! { $privileged apt-get update -qq &&
    $privileged env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends -qq $packages; }; then
    echo "Could not install $packages. With administrator rights, run:" >&2
    echo "    $commands" >&2
    exit 1
fi
