/*
 * All ranks of an MPI program save one checkpoint together: each has some rows of a tensor.
 *
 *	mpicc hello_save.c -o hello_save $(pkg-config --cflags --libs shardfuse-mpi)
 *	mpirun -n 4 ./hello_save /tmp/hello
 *	shardfuse keys /tmp/hello     # torch.distributed.checkpoint loads it too
 */
#include <shardfuse_mpi.h>
#include <stdio.h>

#define ROWS 1000
#define COLS 8

int main(int argc, char **argv)
{
	static float w[ROWS][COLS]; /* this rank's rows, from the first on */
	const uint64_t shape[2] = { ROWS, COLS };
	uint64_t offset[2] = { 0, 0 }, extent[2] = { 0, COLS };
	struct shardfuse_save_tensor t = SHARDFUSE_INIT(t);
	struct shardfuse_comm comm;
	struct shardfuse_error err;
	struct shardfuse_save *s;
	int r;

	MPI_Init(&argc, &argv);
	if (argc != 2 || shardfuse_comm_mpi(MPI_COMM_WORLD, NULL, &comm, &err) < 0)
		MPI_Abort(MPI_COMM_WORLD, 2);

	offset[0] = (uint64_t)ROWS * comm.rank / comm.size;
	extent[0] = (uint64_t)ROWS * (comm.rank + 1) / comm.size - offset[0];
	for (uint64_t i = 0; i < extent[0]; i++)
		for (uint64_t k = 0; k < COLS; k++)
			w[i][k] = (float)((offset[0] + i) * COLS + k);

	t.key = "model.w";
	t.dtype = "float32";
	t.ndim = 2;
	t.shape = shape;
	t.offset = offset;
	t.extent = extent;
	t.at = w;
	r = shardfuse_save_begin(argv[1], NULL, &comm, &s, &err);
	if (r >= 0) {
		r = shardfuse_save_add_tensor(s, &t, &err);
		if (r >= 0)
			r = shardfuse_save_add_json(s, "step", "100", &err);
		if (r >= 0)
			r = shardfuse_save_commit(s, &err); /* all ranks: one result */
		else
			shardfuse_save_abort(s, err.msg, NULL); /* the others fail with it */
		shardfuse_save_free(s);
	}
	if (r < 0)
		fprintf(stderr, "rank %u: %s\n", comm.rank, err.msg);
	shardfuse_comm_free(&comm);
	MPI_Finalize();
	return r < 0;
}
