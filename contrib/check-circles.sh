#!/bin/sh
# contrib/check-circles on the build of this directory. Run by `make check`; by hand: contrib/check-circles BUILD
set -u
for need in python3 nm; do
	command -v $need >/dev/null 2>&1 || {
		echo "SKIP: no $need here"
		exit 77
	}
done
exec python3 "${SF_SRCDIR:-$(dirname "$0")/..}/contrib/check-circles" .
