#!/bin/sh
# Installs what building needs; with the word `tests`, what contrib/check needs besides. Nothing when all is there.
set -eu

build='build-essential autoconf automake libtool pkg-config libcjson-dev zlib1g-dev libssl-dev libzstd-dev libdeflate-dev libfuse3-dev fuse3 check'
tests='python3 python3-venv'
fedora='gcc make autoconf automake libtool pkgconf cjson-devel zlib-devel openssl-devel libzstd-devel libdeflate-devel fuse3-devel fuse3 check-devel python3'

want=$build
[ "${1-}" = tests ] && want="$build $tests"

if ! command -v apt-get >/dev/null 2>&1; then
	echo "$0: no apt-get here; the names on Fedora are:" >&2
	echo "    dnf install $fedora" >&2
	echo "going on with what is installed" >&2
	exit 0
fi

missing=
for p in $want; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null 2>&1 || {
		echo "$0: not root and no sudo; as root: apt-get install$missing" >&2
		exit 1
	}
	sudo=sudo
fi
echo "\$ ${sudo:+$sudo }apt-get install$missing"
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
