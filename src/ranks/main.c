/*
 * The program shardfuse-mpi: `mpirun -n 8 shardfuse-mpi VERB …`. Each rank opens SOURCE and does its part; what
 * one fails at, all do. Rank 0 prints.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <mpi.h>

#include "base/mem.h"
#include "mpi/shardfuse_mpi.h"
#include "ranks/ranks.h"

static const struct sf_cmd *const verbs[] = { &sf_ranks_export, &sf_ranks_import, &sf_ranks_reshard,
	                                      &sf_ranks_verify };

static int help(FILE *to, int code)
{
	fprintf(to, "usage: mpirun -n RANKS shardfuse-mpi VERB … (shardfuse-mpi VERB --help)\n\n"
	            "What shardfuse(1) does, by the ranks of an MPI job: each reads and writes its "
	            "part.\n"
	            "\nverbs:\n");
	for (size_t i = 0; i < SF_ARRAY_LEN(verbs); i++)
		fprintf(to, "  %-8s %s\n", verbs[i]->name, verbs[i]->about);
	fprintf(to, "\nexample:\n  mpirun -n 8 shardfuse-mpi reshard /ckpt/step1000 "
	            "/ckpt/step1000-8\n");
	return code;
}

static int dispatch(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	struct sf_error err = SF_ERROR_INIT;

	for (size_t i = 0; i < SF_ARRAY_LEN(verbs); i++)
		if (strcmp(verb, verbs[i]->name) == 0)
			return sf_cli_run(verbs[i], argc - 1, argv + 1);
	if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0 || strcmp(verb, "help") == 0)
		return help(stdout, SF_EXIT_OK);
	if (strcmp(verb, "--version") == 0) {
		printf("shardfuse-mpi %s\n", PACKAGE_VERSION);
		return SF_EXIT_OK;
	}
	if (argc < 2)
		return help(stderr, SF_EXIT_USAGE);
	sf_fail(&err, -EINVAL, "'%s' is not a verb (shardfuse-mpi --help lists them)", verb);
	return sf_cli_error(SF_EXIT_USAGE, &err);
}

/* Options are the same on all ranks: rank 0 alone says what is wrong with them, and then nobody begins. */
static int run(int argc, char **argv)
{
	int go = 0, code;

	if (sf_ranks.comm.rank != 0) {
		MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
		if (!go)
			return SF_EXIT_OK; /* rank 0's is the job's */
		if (!freopen("/dev/null", "w", stdout))
			MPI_Abort(MPI_COMM_WORLD, SF_EXIT_FAILED);
	}
	code = dispatch(argc, argv);
	if (!sf_ranks.began && sf_ranks.comm.rank == 0)
		MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
	else if (
		!sf_ranks.began) /* a file that options name is another on this host: it was told */
		MPI_Abort(MPI_COMM_WORLD, code);
	return code;
}

int main(int argc, char **argv)
{
	struct shardfuse_error err = { "" };
	int level, code;

	if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
		fprintf(stderr, "shardfuse-mpi: MPI does not start\n");
		return SF_EXIT_FAILED;
	}
	if (shardfuse_comm_mpi(MPI_COMM_WORLD, NULL, &sf_ranks.comm, &err) < 0) {
		fprintf(stderr, "shardfuse-mpi: %s\n", err.msg);
		MPI_Abort(MPI_COMM_WORLD, SF_EXIT_FAILED);
	}
	code = run(argc, argv);
	shardfuse_comm_free(&sf_ranks.comm);
	MPI_Finalize();
	return code;
}
