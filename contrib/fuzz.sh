#!/bin/sh
# Fuzzes: builds tests/fuzz/ with clang, libFuzzer and the sanitizers below build/fuzz, runs each fuzzer for a while from the
# inputs in tests/fuzz/corpus. New inputs stay in build/fuzz/corpus; the one that fails is named and belongs, cut down, into
# tests/fuzz/corpus/NAME with the fix.
#
# usage: contrib/fuzz.sh [SECONDS [NAME...]]      60 seconds each, all of them
# CC, BUILD_DIR   instead of clang, build/fuzz
set -u
cd "$(dirname "$0")/.." || exit 1
top=$PWD
build=${BUILD_DIR:-$top/build/fuzz}
seconds=${1:-60}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- $(sed -n 's|.*/fuzz/fuzz_\([a-z0-9_]*\).*\\$|\1|p; s|.*/fuzz/fuzz_\([a-z0-9_]*\)$|\1|p' tests/local.mk | sort -u)

[ -x configure ] || autoreconf -fi || exit 1
mkdir -p "$build" && cd "$build" || exit 1
[ -e Makefile ] ||
	"$top/configure" -q CC="${CC:-clang}" CFLAGS='-O1 -g' --enable-fuzzing --enable-sanitizers=address,undefined || exit 1
# seed NAME: what tests/fuzz/corpus/NAME/SEEDS names, below tests/data. A directory becomes one input, with the words behind it; those
# that ask for many runs are for the replay in `make check`.
seed() {
	[ -r "$top/tests/fuzz/corpus/$1/SEEDS" ] || return 0
	while read -r path words; do
		case $path:$words in
		*-each=*) ;;
		*/:*) "$build/tests/tool_fuzz_pack" "$top/tests/data/$path" "$words" >"corpus/$1/$(echo "$path$words" | tr -c 'a-z0-9.\n' _)" ;;
		# shellcheck disable=SC2086
		*) cp -n $(ls -S $top/tests/data/$path | tail -n 40) "corpus/$1/" 2>/dev/null ;;
		esac
	done <"$top/tests/fuzz/corpus/$1/SEEDS"
}

failed=
for name; do
	make -s -j"$(nproc)" "tests/fuzz/fuzz_$name" tests/tool_fuzz_pack || exit 1
	mkdir -p "corpus/$name"
	seed "$name"
	echo "== $name, $seconds s"
	# short stacks and little quarantine: twice the runs a second
	ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=8:quarantine_size_mb=16} \
		"tests/fuzz/fuzz_$name" -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
		-verbosity=0 -artifact_prefix="$build/$name-" "corpus/$name" "$top/tests/fuzz/corpus/$name" || failed="$failed $name"
done
[ -z "$failed" ] || {
	echo "failed:$failed"
	exit 1
}
