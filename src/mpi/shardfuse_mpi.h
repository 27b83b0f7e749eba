/*
 * shardfuse: saves by the ranks of an MPI program. Link with -lshardfuse-mpi -lshardfuse (pkg-config
 * shardfuse-mpi), compile with mpicc. It is built for one MPI: that of the program has to be the same.
 *
 * A communicator is made once, of all ranks that save together, and serves all saves:
 *
 *	struct shardfuse_comm comm;
 *	struct shardfuse_error err;
 *
 *	if (shardfuse_comm_mpi(MPI_COMM_WORLD, NULL, &comm, &err) < 0)
 *		fprintf(stderr, "%s\n", err.msg);
 *	… shardfuse_save_begin("runs/step100", NULL, &comm, &s, &err) …
 *	shardfuse_comm_free(&comm);
 *	MPI_Finalize();
 *
 * It talks on a duplicate of the MPI communicator: messages of the program and those of saves never
 * meet. What is sent is copied, so no rank waits for another that is late, but in shardfuse_comm_free.
 *
 * Asynchronous saves and threads: where the program was initialised with MPI_THREAD_MULTIPLE, a thread
 * of the library's communicates, and the program need not care. Elsewhere the save goes on in
 * shardfuse_save_test and shardfuse_save_wait alone: call the first from time to time, say after each
 * training step. With MPI_THREAD_FUNNELED (or SINGLE) that is the main thread.
 */
#ifndef SHARDFUSE_MPI_H
#define SHARDFUSE_MPI_H

#include <mpi.h>
#include "shardfuse_save.h"

#ifdef __cplusplus
extern "C" {
#endif

enum shardfuse_mpi_threads {
	SHARDFUSE_MPI_THREADS_AUTO, /* where MPI gives MPI_THREAD_MULTIPLE, on all ranks */
	SHARDFUSE_MPI_THREADS_NONE, /* not even then */
	SHARDFUSE_MPI_THREADS_NEED, /* else -ENOTSUP */
};

struct shardfuse_mpi_options {
	size_t struct_size;
	int threads; /* enum shardfuse_mpi_threads */
};

/*
 * shardfuse_comm_mpi - a communicator of the ranks of @comm.
 *
 * Collective over @comm: all ranks call it, with the same options, between MPI_Init and MPI_Finalize;
 * on all of them it succeeds or fails. @opt may be NULL. @comm is not needed after the call.
 * Errors: -EINVAL MPI is not initialised (or over), @comm is none or an intercommunicator, an option;
 * -ENOTSUP threads are needed and MPI was not initialised with MPI_THREAD_MULTIPLE; -ENOMEM; -EIO what MPI says.
 *
 * Free with shardfuse_comm_free: collective too, after the last save and before MPI_Finalize.
 * Threads: as MPI's of the same level; different saves through one communicator at once need
 * MPI_THREAD_MULTIPLE.
 */
SHARDFUSE_API int shardfuse_comm_mpi(MPI_Comm comm, const struct shardfuse_mpi_options *opt,
                                     struct shardfuse_comm *ret, struct shardfuse_error *err);

#ifdef __cplusplus
}
#endif
#endif
