#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <mpi.h>

#include "base/mem.h"
#include "ranks/ranks.h"

struct sf_ranks sf_ranks;

void sf_ranks_begin(void)
{
	int go = 1;

	if (sf_ranks.comm.rank == 0)
		MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
	sf_ranks.began = true;
}

/* What a rank says of itself: as a struct of bytes it is one message. */
struct verdict {
	int r;
	char msg[sizeof(((struct sf_error *)0)->msg)];
};

int sf_ranks_agree(int r, struct sf_error *err)
{
	struct verdict v = { .r = r };
	char host[64] = "?";
	int mine = r < 0 ? (int)sf_ranks.comm.rank : INT_MAX, first;

	MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (first == INT_MAX)
		return 0;
	(void)gethostname(host, sizeof(host) - 1);
	if (mine == first)
		snprintf(v.msg, sizeof(v.msg), "rank %d (%s): %.*s", mine, host,
		         (int)sizeof(v.msg) - 90, err->msg);
	MPI_Bcast(&v, sizeof(v), MPI_BYTE, first, MPI_COMM_WORLD);
	return sf_fail(err, v.r, "%s", v.msg);
}

int sf_ranks_failed(int code, const struct sf_error *err)
{
	return sf_ranks.comm.rank == 0 ? sf_cli_error(code, err) : code;
}

void sf_ranks_sum(uint64_t *number, unsigned n)
{
	MPI_Allreduce(MPI_IN_PLACE, number, (int)n, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

int sf_ranks_print(const struct sf_buf *text, struct sf_error *err)
{
	int r = sf_ranks_agree(sf_buf_check(text), err), len = (int)text->len;

	if (r < 0)
		return r;
	if (sf_ranks.comm.rank != 0) {
		MPI_Send(text->at, len, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
		return 0;
	}
	if (text->len)
		fwrite(text->at, 1, text->len, stdout);
	for (uint32_t i = 1; i < sf_ranks.comm.size; i++) {
		MPI_Status status;
		MPI_Probe((int)i, 0, MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, MPI_BYTE, &len);
		SF_FREE char *at = malloc((size_t)len + 1);
		if (!at) /* the others are done already */
			MPI_Abort(MPI_COMM_WORLD, SF_EXIT_FAILED);
		MPI_Recv(at, len, MPI_BYTE, (int)i, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		fwrite(at, 1, (size_t)len, stdout);
	}
	return 0;
}
