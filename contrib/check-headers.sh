#!/bin/sh
# Does every header compile alone, as the first thing a file includes? The public ones as C++ too.
# Run by `make check`; by hand from a build directory: SF_SRCDIR=SOURCES contrib/check-headers.sh
#
# CC, CXX          the compilers; without a C++ compiler that half is said to be skipped
# SF_CPPFLAGS      where third-party headers are; SF_HAVE_FUSE=no: libfuse's are not there, SF_HAVE_MPI=no: MPI's. `make check` sets them.
set -u
top=${SF_SRCDIR:-$(dirname "$0")/..}
# shellcheck disable=SC2086
set -- ${SF_CPPFLAGS-} -I"$top/src" -I"$top" -I"$top/tests/lib" -D_GNU_SOURCE
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

say_failed() { # HEADER
	failed=$((failed + 1))
	echo "FAIL: $1 does not compile alone"
	cat "$work/said"
}

headers=$(cd "$top" && find src fuse tests/lib tests/fuzz -name '*.h' 2>/dev/null | sort)
[ -n "$headers" ] || { echo "no headers below $top"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
public=$(cd "$top" && find src -maxdepth 1 -name '*.h' | sort)
[ "${SF_HAVE_MPI-yes}" != yes ] || public="$public src/mpi/shardfuse_mpi.h"

for h in $headers; do
	case $h in
	fuse/*)
		if [ "${SF_HAVE_FUSE-yes}" != yes ]; then
			echo "SKIP: $h: this build has no libfuse"
			skipped=$((skipped + 1))
			continue
		fi
		;;
	src/mpi/*)
		if [ "${SF_HAVE_MPI-yes}" != yes ]; then
			echo "SKIP: $h: this build has no MPI"
			skipped=$((skipped + 1))
			continue
		fi
		;;
	esac
	printf '#include "%s"\n' "${h#src/}" >"$work/one.c"
	if ${CC:-cc} -std=gnu11 -fsyntax-only -Wall -Werror "$@" "$work/one.c" >"$work/said" 2>&1; then
		passed=$((passed + 1))
	else
		say_failed "$h"
	fi
done

cxx=${CXX:-c++}
# shellcheck disable=SC2086
if command -v ${cxx%% *} >/dev/null 2>&1; then
	# Open MPI's classes, which MPI itself has no more, have warnings of their own
	set -- "$@" -DOMPI_SKIP_MPICXX
	for h in $public; do
		printf '#include "%s"\n' "${h#src/}" >"$work/one.cc"
		if $cxx -std=c++11 -fsyntax-only -Wall -Wextra -Wpedantic -Werror "$@" "$work/one.cc" >"$work/said" 2>&1; then
			passed=$((passed + 1))
		else
			say_failed "$h (C++)"
		fi
	done
else
	echo "SKIP: no C++ compiler ($cxx): the public headers were tried as C only"
	skipped=$((skipped + 1))
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
