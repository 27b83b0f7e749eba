#!/bin/sh
# contrib/examples against the public headers and the libraries of this build, on ranks of this machine: what they save is read
# back, and training goes on with another number of ranks from the very bits. Run by `make check`, in a build directory.
#
# CC, SF_LINKFLAGS, SF_CPPFLAGS, SF_MPI_LIBS the compiler and its flags; SHARDFUSE the program
set -u
. "${SF_SRCDIR:-$(dirname "$0")/../..}/tests/mpi/run.sh"
top=${SF_SRCDIR:-$(dirname "$0")/../..}
shardfuse=${SHARDFUSE:-./shardfuse}

for p in hello_save train_mpi; do
	# shellcheck disable=SC2086
	${CC:-cc} -Wall -Wextra -Werror ${SF_LINKFLAGS-} ${SF_CPPFLAGS-} -I"$top/src" -I"$top/src/mpi" "$top/contrib/examples/$p.c" \
		-o "$work/$p" -L.libs -lshardfuse-mpi -lshardfuse ${SF_MPI_LIBS--lmpi} -lm -Wl,-rpath,"$PWD/.libs" >"$work/said" 2>&1
	check "contrib/examples/$p.c does not compile" $?
done

for n in 1 4; do
	mpi $n "$work/hello_save" "$work/hello$n" >"$work/said" 2>&1
	check "hello_save with $n ranks" $?
	"$shardfuse" get "$work/hello$n" model.w -O "$work/hello$n.npy" >"$work/said" 2>&1
	check "hello_save with $n ranks: model.w is not to be read" $?
done
cmp "$work/hello1.npy" "$work/hello4.npy" >"$work/said" 2>&1
check "hello_save: four ranks save another tensor than one" $?
mpi 2 "$work/hello_save" "$work/hello4" >"$work/said" 2>&1
[ $? != 0 ] && [ "$(grep -c '^rank [01]: .*hello4' "$work/said")" = 2 ]
check "hello_save: a target that is there is not refused by both ranks" $?

# "step 10: state 0123…, …" of a log
state() { # STEP LOG
	sed -n "s/^step $1: state \([0-9a-f]*\), .*/\1/p" "$2" | tail -n 1
}
mpi 3 "$work/train_mpi" "$work/runs" 40 10 >"$work/said" 2>&1
check "train_mpi with 3 ranks" $?
cp "$work/said" "$work/three"
[ "$(grep -c 'is saved' "$work/three")" = 4 ]
check "train_mpi: not all four saves are told" $?
for n in 2 1 4; do
	rm -rf "$work/again"
	mkdir "$work/again" && cp -R "$work/runs/step40" "$work/again/"
	mpi $n "$work/train_mpi" "$work/again" 50 10 >"$work/said" 2>&1
	check "train_mpi with $n ranks does not go on" $?
	[ -n "$(state 40 "$work/said")" ] && [ "$(state 40 "$work/said")" = "$(state 40 "$work/three")" ]
	check "train_mpi: $n ranks begin with another state than 3 saved" $?
done
# what is not complete is passed over: the step before it is the newest
rm -f "$work/runs/step40/.metadata"
mpi 2 "$work/train_mpi" "$work/runs" 35 10 >"$work/said" 2>&1
check "train_mpi does not go on from step 30" $?
grep -q '^step 30: .* 2 ranks begin$' "$work/said" && [ "$(state 30 "$work/said")" = "$(state 30 "$work/three")" ]
check "train_mpi does not begin with the state of step 30" $?
finish
