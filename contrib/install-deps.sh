#!/bin/sh
# Installs what building needs; with the word `tests`, what contrib/check needs besides; with `servers`, what contrib/check --servers starts. Says in one line
# what it installs, and nothing when all is there. apt's own words go to a log that is shown when it fails.
set -eu

build='build-essential autoconf automake libtool pkg-config libcjson-dev libssl-dev libzstd-dev libblosc-dev zlib1g-dev libbz2-dev liblzma-dev libdeflate-dev libcurl4-openssl-dev libfuse3-dev fuse3 check'
tests='python3 python3-venv zsh fish libopenmpi-dev openmpi-bin'
servers='swift-proxy swift-account swift-container swift-object memcached radosgw ceph-osd ceph-mon ceph-common nginx openssl'
fedora='gcc make autoconf automake libtool pkgconf cjson-devel openssl-devel libzstd-devel blosc-devel zlib-devel bzip2-devel xz-devel libdeflate-devel libcurl-devel fuse3-devel fuse3 check-devel python3'

want=$build
case ${1-} in
tests) want="$build $tests" ;;
servers) want=$servers ;;
esac

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
# shellcheck disable=SC2086
set -- $missing
[ $# = 1 ] && noun=package || noun=packages
echo "installing $# $noun with ${sudo:+$sudo }apt-get:$missing"
log=$(mktemp)
policy=/usr/sbin/policy-rc.d
trap 'rm -f "$log"' EXIT
if [ "$want" = "$servers" ] && [ ! -e $policy ]; then
	# the tests start them themselves: no service of the machine's is wanted
	printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null
	$sudo chmod 755 $policy
	trap 'rm -f "$log"; $sudo rm -f "$policy"' EXIT
fi
if ! { $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >"$log" 2>&1; then
	cat "$log" >&2
	echo "$0: apt-get failed; is there a network?" >&2
	exit 1
fi
