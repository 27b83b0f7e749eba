#!/bin/sh
# Is the library what its headers say? It exports those functions and nothing else, has nothing of the programs in it, and the examples
# in the headers' heads compile as they stand there: one saves a checkpoint, the other reads one. Run by `make check`; by hand from a build directory:
# SF_SRCDIR=SOURCES contrib/check-library.sh
#
# CC, SF_LINKFLAGS the compiler, and what it takes to link with a library of this build; SF_TEST_DATA the checkpoints, SHARDFUSE the program
set -u
top=${SF_SRCDIR:-$(dirname "$0")/..}
data=${SF_TEST_DATA:-$top/tests/data}
lib=.libs/libshardfuse.so
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

check() { # WHAT STATUS
	if [ "$2" = 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL: $1"
		cat "$work/said"
	fi
}

cat "$top/src/shardfuse.h" "$top/src/shardfuse_save.h" | tr '\n' ' ' | grep -oE 'SHARDFUSE_API [a-z0-9_ *]*\(' | grep -oE 'shardfuse_[a-z_]+\(' | tr -d '(' |
	sort -u >"$work/wanted"
[ -s "$work/wanted" ]
check "no functions in the headers" $?

if [ -e $lib ]; then
	nm -D --defined-only $lib 2>"$work/said" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$work/exported"
	diff "$work/wanted" "$work/exported" >"$work/said" 2>&1
	check "what $lib exports (>) is not what the headers have (<)" $?
	nm $lib 2>/dev/null | grep -E ' sf_(cmd_|cli_|options_parse|tool_)' >"$work/said"
	[ ! -s "$work/said" ]
	check "$lib has parts of the programs in it" $?
else
	echo "SKIP: no shared library in this build"
	skipped=$((skipped + 1))
fi

# example HEADER: its program into $work/example
example() {
	sed -n "/^ \*\t#include <$1>/,/^ \*\/\$/p" "$top/src/$1" | sed -n 's/^ \*\t\{0,1\}//p' | sed '$d' >"$work/example.c"
	# shellcheck disable=SC2086
	${CC:-cc} -Wall -Wextra -Werror ${SF_LINKFLAGS-} -I"$top/src" "$work/example.c" -o "$work/example" -L.libs -lshardfuse \
		-Wl,-rpath,"$PWD/.libs" >"$work/said" 2>&1
	check "the example in src/$1 does not compile" $?
}

example shardfuse_save.h
"$work/example" "$work/saved" >"$work/said" 2>&1 && "${SHARDFUSE:-./shardfuse}" verify --deep "$work/saved" >"$work/said" 2>&1 &&
	"${SHARDFUSE:-./shardfuse}" keys "$work/saved" 2>&1 | grep -q model.w
check "the example in src/shardfuse_save.h does not save" $?
"$work/example" "$work/saved" >"$work/said" 2>&1
[ $? = 1 ] && grep -q saved "$work/said"
check "the example in src/shardfuse_save.h does not say what failed" $?
example shardfuse.h
"$work/example" "$data/dcp/fsdp4/ckpt" >"$work/list" 2>"$work/said"
check "the example in src/shardfuse.h does not run" $?
"${SHARDFUSE:-./shardfuse}" keys "$data/dcp/fsdp4/ckpt" --json >"$work/keys.json" 2>"$work/said"
[ -s "$work/list" ] && awk '{ print $1 }' "$work/list" | while read -r key; do
	grep -qF "\"$key\"" "$work/keys.json" || { echo "$key is none of the keys"; exit 1; }
done >"$work/said"
check "the example in src/shardfuse.h shows other keys than the program" $?
"$work/example" /no/such/place >"$work/said" 2>&1
[ $? = 1 ] && grep -q /no/such/place "$work/said"
check "the example in src/shardfuse.h does not say what failed" $?

if command -v pkg-config >/dev/null 2>&1; then
	PKG_CONFIG_PATH=$PWD pkg-config --libs shardfuse >"$work/said" 2>&1 && grep -q -- -lshardfuse "$work/said"
	check "shardfuse.pc does not name the library" $?
else
	echo "SKIP: no pkg-config"
	skipped=$((skipped + 1))
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
