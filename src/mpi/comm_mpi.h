/* Inside of shardfuse_comm_mpi, for its tests. */
#ifndef SF_MPI_COMM_MPI_H
#define SF_MPI_COMM_MPI_H

#include "mpi/shardfuse_mpi.h"

/* MPI counts in int: a longer message goes in parts of so many bytes. A part that is full has another
 * behind it, so the last may be empty. */
#define SF_COMM_MPI_PART ((size_t)1 << 30)

/* @part: at most INT_MAX, the same on all ranks. */
int sf_comm_mpi_new(MPI_Comm comm, const struct shardfuse_mpi_options *opt, size_t part,
                    struct shardfuse_comm *ret, struct shardfuse_error *err);

#endif
