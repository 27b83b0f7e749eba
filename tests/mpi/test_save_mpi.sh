#!/bin/sh
# Saves by ranks of MPI on 1 to 4 ranks of this machine, with threads and without. Run by `make check`, in a build directory.
set -u
. "${SF_SRCDIR:-$(dirname "$0")/../..}/tests/mpi/run.sh"
levels ./tests/mpi/mpi_save
finish
