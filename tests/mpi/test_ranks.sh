#!/bin/sh
# shardfuse-mpi on ranks of this machine against shardfuse alone: the same files, the same verdicts, and what one rank fails at fails on
# all, with its message once. Run by `make check`, in a build directory. SHARDFUSE: the program
set -u
top=${SF_SRCDIR:-$(dirname "$0")/../..}
. "$top/tests/mpi/run.sh"
shardfuse=${SHARDFUSE:-./shardfuse}
data=${SF_TEST_DATA:-$top/tests/data}
source=$data/dcp/fsdp4/ckpt

ranks() { # N VERB…
	n=$1
	shift
	mpi "$n" ./shardfuse-mpi "$@" >"$work/out" 2>"$work/said"
}
same() { # WHAT A B: trees
	diff -r "$2" "$3" >"$work/said" 2>&1
	check "$1" $?
}
# the program's own lines, without mpirun's
own() {
	grep '^shardfuse: ' "$work/said"
}

for c in dcp/fsdp4 dcp/columns dcp/objects300; do
	"$shardfuse" verify --deep "$data/$c/ckpt" >"$work/alone"
	for n in 1 3; do
		ranks $n verify "$data/$c/ckpt"
		check "verify of $c by $n ranks" $?
		# "9 tensors, 2 objects, 1234 bytes read by 3 ranks, 118 CRCs checked, 0 files of the manifest: ok"
		[ "$(sed 's/ by [0-9]* ranks\{0,1\}//; s/, [0-9]* files of the manifest:/:/' "$work/out")" = "$(sed 's/checked[0-9]* file.*:/checked:/' "$work/alone")" ]
		check "verify of $c by $n ranks says other than verify alone: $(cat "$work/out" "$work/alone")" $?
	done
done

# damage: each defect once, whoever finds it
mkdir "$work/hurt" && cp -r "$source/." "$work/hurt" && chmod -R u+w "$work/hurt"
for f in "$work"/hurt/__*_0.distcp; do
	size=$(wc -c <"$f")
	printf 'xxxxxxxx' | dd of="$f" bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
done
"$shardfuse" verify --deep "$work/hurt" | sed '$d' | sort >"$work/alone"
[ -s "$work/alone" ]
check "nothing of the damage is found" $?
ranks 3 verify "$work/hurt"
[ $? = 1 ]
check "verify of a damaged checkpoint is not 1" $?
sed '$d' "$work/out" | sort >"$work/found"
same "verify by 3 ranks finds other damage than one alone" "$work/alone" "$work/found"

for n in 1 3; do
	ranks $n reshard "$source" "$work/r$n"
	check "reshard by $n ranks" $?
	[ "$(find "$work/r$n" -name '*.distcp' | wc -l)" = $n ]
	check "reshard by $n ranks makes other than $n shards" $?
	"$shardfuse" reshard "$source" "$work/alone$n" --ranks $n >/dev/null
	for f in "$work/r$n"/*.distcp; do
		cmp "$f" "$work/alone$n/${f##*/}" >"$work/said" 2>&1
		check "reshard by $n ranks: another ${f##*/} than one process writes" $?
	done
	"$shardfuse" diff --values "$source" "$work/r$n" >"$work/said"
	check "reshard by $n ranks: other values" $?
done
"$shardfuse" export "$source" "$work/model.safetensors" >/dev/null
ranks 2 import "$work/model.safetensors" "$work/in"
check "import by 2 ranks" $?
"$shardfuse" export "$work/in" "$work/out.safetensors" >/dev/null
cmp "$work/model.safetensors" "$work/out.safetensors" >"$work/said" 2>&1
check "import by 2 ranks and export: other bytes" $?

# small shards, so that there is an index, and it comes from rank 0
for how in '--format hf --max-shard-size 1K' '--format npy' '--format safetensors --strategy chunks --max-shard-size 1K' '--format pt --strategy one_file_per_tensor'; do
	rm -rf "$work/a" "$work/b"
	# shellcheck disable=SC2086
	"$shardfuse" export "$source" "$work/a" $how >/dev/null 2>&1
	# shellcheck disable=SC2086
	ranks 3 export "$source" "$work/b" $how
	check "export $how by 3 ranks" $?
	same "export $how by 3 ranks writes other than one process" "$work/a" "$work/b"
	[ "$(find "$work/a" -type f | wc -l)" -gt 1 ]
	check "export $how: one file is no test of sharing" $?
done
ranks 2 export "$source" "$work/c" --format dcp
check "export --format dcp by 2 ranks" $?
"$shardfuse" diff --values "$source" "$work/c" >"$work/said"
check "export --format dcp by 2 ranks: other values" $?

# a new set over an old one: never both forms
"$shardfuse" export "$source" "$work/set" --format hf >/dev/null 2>&1
ranks 3 export "$source" "$work/set" --format hf --max-shard-size 1K
[ $? != 0 ] && own | grep -q 'already exists\|use --force'
check "export over an old set is not refused" $?
ranks 3 export "$source" "$work/set" --format hf --max-shard-size 1K --force
check "export --force over an old set" $?
[ ! -e "$work/set/model.safetensors" ] && [ -e "$work/set/model.safetensors.index.json" ]
check "export --force: the old form is still there, or no index" $?

# what one rank fails at: the others have another SOURCE
one_fails() { # VERB ARGUMENT…: behind SOURCE
	verb=$1
	shift
	# shellcheck disable=SC2086
	timeout 100 mpirun $mpi_flags -n 2 ./shardfuse-mpi "$verb" "$source" "$@" : -n 1 ./shardfuse-mpi "$verb" "$work/nowhere" "$@" \
		>"$work/out" 2>"$work/said"
	[ $? != 0 ] && [ "$(own | wc -l)" = 1 ] && own | grep -q 'rank 2.*nowhere'
	check "$verb: what rank 2 fails at is not told by the job, once" $?
}
one_fails verify
one_fails reshard "$work/never"
one_fails export "$work/never" --format npy
one_fails export "$work/never" --format dcp
[ ! -e "$work/never" ] && [ ! -e "$work/never-tmp" ]
check "a job that failed leaves something" $?

# a file that options name is not there on another rank's host: told, and the job ends
: >"$work/rules"
for verb in "verify $source" "export $source $work/never --format npy" "reshard $source $work/never"; do
	# shellcheck disable=SC2086
	timeout 60 mpirun $mpi_flags -n 1 ./shardfuse-mpi $verb --join-rules "$work/rules" : -n 1 ./shardfuse-mpi $verb --join-rules "$work/norules" \
		>"$work/out" 2>"$work/said"
	r=$?
	[ $r != 0 ] && [ $r != 124 ] && own | grep -q norules
	check "$verb: a file that is on one host alone: exit status $r" $?
done

# usage: rank 0 says it, once
for args in '' 'nonsense' 'verify' 'verify a b' 'verify --nonsense x' 'export a b.pt'; do
	# shellcheck disable=SC2086
	ranks 3 $args
	[ $? = 2 ]
	check "shardfuse-mpi $args: not 2" $?
	[ "$(grep -c '^usage: \|^shardfuse: ' "$work/said")" -le 2 ]
	check "shardfuse-mpi $args: told by more than one rank" $?
done
ranks 2 --version
[ "$(wc -l <"$work/out")" = 1 ]
check "--version: more than one line" $?
finish
