# Runs programs of MPI here: sourced by the tests of this folder. mpi N PROGRAM ARGUMENT...
for need in mpirun timeout; do
	command -v $need >/dev/null 2>&1 || {
		echo "SKIP: no $need here (Debian: openmpi-bin)"
		exit 77
	}
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

# more ranks than cores, and as root in a container
mpi_flags=
case $(mpirun --version 2>/dev/null) in
*'Open MPI'* | *OpenRTE*) mpi_flags='--oversubscribe --allow-run-as-root' ;;
esac
# what MPI itself never frees
for lib in libmpi libopen-rte libopen-pal libpmix mca_ libevent libhwloc ompi_ orte_ opal_ pmix; do
	echo "leak:$lib"
done >"$work/leaks"
LSAN_OPTIONS="suppressions=$work/leaks:print_suppressions=0"
TMPDIR=$work # MPI's session directories go with ours
ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=0}:leak_check_at_exit=0 # the programs look before
export ASAN_OPTIONS LSAN_OPTIONS TMPDIR

mpi() {
	n=$1
	shift
	# shellcheck disable=SC2086
	timeout 600 mpirun $mpi_flags -n "$n" "$@"
}

check() { # WHAT STATUS
	if [ "$2" = 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL: $1"
		cat "$work/said"
	fi
}

# levels PROGRAM: with threads and without, on 1 to 4 ranks; the program is given a directory of its own.
levels() {
	for level in multiple funneled; do
		for n in 1 2 3 4; do
			mkdir -p "$work/$level$n"
			mpi $n "$1" $level "$work/$level$n" >"$work/said" 2>&1
			r=$?
			if [ $r = 77 ]; then
				grep SKIP "$work/said"
				skipped=$((skipped + 1))
			elif [ $r = 0 ]; then
				passed=$((passed + $(sed -n 's/ passed$//p' "$work/said")))
			else
				check "$1: $n ranks, $level: exit status $r" 1
			fi
		done
	done
}

finish() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ]
}
