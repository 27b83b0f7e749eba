#!/bin/sh
# The communicator of MPI on 1 to 4 ranks of this machine, with threads and without. Run by `make check`, in a build directory.
set -u
. "${SF_SRCDIR:-$(dirname "$0")/../..}/tests/mpi/run.sh"

for level in multiple funneled; do
	for n in 1 2 3 4; do
		mpi $n ./tests/mpi/mpi_comm $level "$work" >"$work/said" 2>&1
		r=$?
		if [ $r = 77 ]; then
			grep SKIP "$work/said"
			skipped=$((skipped + 1))
		elif [ $r = 0 ]; then
			passed=$((passed + $(sed -n 's/ passed$//p' "$work/said")))
		else
			check "$n ranks, $level: exit status $r" 1
		fi
	done
done
finish
