#!/bin/sh
# Layers: an include goes down or stays in its folder; each third-party header has one home.
# Run by `make check`; by hand from anywhere: contrib/check-layers.sh
set -u
top=${SF_SRCDIR:-$(dirname "$0")/..}
cd "$top" || exit 1
bad=$(mktemp) || exit 1
trap 'rm -f "$bad"' EXIT

# A folder and those its files may include from (itself always).
layers='
base:
store: base
parse: base store
ckpt: base store parse
format: base store parse ckpt
read: base store parse ckpt
catalog: base store parse ckpt
value: base store parse ckpt format read catalog
view: base store parse ckpt format read catalog value
tree: base store parse ckpt format read catalog value view
lib: base store parse ckpt format read catalog value view tree
save: base store parse
tool: base store parse ckpt format read catalog value view tree lib save
mpi: base save
cli: base store parse ckpt format read catalog value view tree lib tool save
ranks: base store parse ckpt format read catalog value view tree lib save mpi tool cli
fuse: base store parse ckpt format read catalog value view tree lib tool cli
'
# An extended regular expression of a header's name in <>, and the files that may include it.
homes='
c[jJ][sS][oO][nN]	src/base/json.c
openssl/	src/base/sha256.c src/store/gs_jwt.c src/store/s3_sign.c
curl/	src/store/http_curl.c
zstd	src/parse/zstd.c
blosc	src/parse/blosc.c
zlib\.h	src/base/crc32_zlib.c src/base/crc32_deflate.c src/parse/unpack_gzip.c
bzlib	src/parse/unpack_bzip2.c
lzma	src/parse/unpack_lzma.c
libdeflate	src/base/crc32_deflate.c
fuse	fuse/
mpi\.h	src/mpi/comm_mpi.c src/mpi/shardfuse_mpi.h src/ranks/main.c src/ranks/ranks.c
cuda	src/save/device_cuda.c
'

files=$(find src fuse -name '*.[ch]' 2>/dev/null | sort)
[ -n "$files" ] || { echo "no sources below $PWD"; exit 1; }

for f in $files; do
	case $f in
	src/*/*) own=${f#src/}; own=${own%%/*} ;;
	fuse/*) own=fuse ;;
	*) own= ;; # the public headers: only the standard library, below
	esac
	case $own in
	'') allowed= ;;
	*)
		allowed=$(printf '%s\n' "$layers" | sed -n "s/^$own://p")
		printf '%s\n' "$layers" | grep -q "^$own:" ||
			echo "$f: folder '$own' has no layer in $0" >>"$bad"
		;;
	esac
	sed -n 's/^[ \t]*#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' "$f" | while read -r inc; do
		case $inc in
		config.h) continue ;;
		*/*) to=${inc%%/*} ;;
		shardfuse*.h) # the public headers: implemented and used from any layer
			continue ;;
		*) to=$own ;; # beside it
		esac
		[ "$to" = "$own" ] && continue
		case " $allowed " in
		*" $to "*) ;;
		*) echo "$f: includes \"$inc\": ${own:-a public header} may not look at $to" >>"$bad" ;;
		esac
	done
	case $f in
	*.c)
		first=$(sed -n 's/^[ \t]*#[ \t]*include[ \t]*//p' "$f" | head -n 1)
		[ "$first" = '"config.h"' ] || echo "$f: its first include is ${first:-none}, not \"config.h\"" >>"$bad"
		;;
	esac
done

tab=$(printf '\t')
printf '%s\n' "$homes" | while IFS=$tab read -r what where; do
	[ -n "$what" ] || continue
	# shellcheck disable=SC2086
	grep -lE "^[ $tab]*#[ $tab]*include[ $tab]*<([^>]*/)?$what" $files /dev/null | while read -r f; do
		ok=no
		for w in $where; do
			case $w in
			*/) case $f in "$w"*) ok=yes ;; esac ;;
			*) [ "$f" = "$w" ] && ok=yes ;;
			esac
		done
		[ $ok = yes ] || echo "$f: includes a header matching <$what>, whose home is $where" >>"$bad"
	done
done

# The public headers need nobody's: asking pkg-config for ours must not fail where another's are not installed.
grep -n '^Requires' shardfuse.pc.in | sed 's/^/shardfuse.pc.in: Libs.private is the place: /' >>"$bad"

if [ -s "$bad" ]; then
	cat "$bad"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
echo "1 passed, 0 failed, 0 skipped"
