/*
 * Saves by ranks of MPI through the public headers alone (test_save_mpi.sh): waited for, in the background with a
 * thread of the library's and without, failing, and tried again.
 *
 * usage: mpi_save multiple|funneled DIRECTORY
 */
#include <errno.h>
#include <unistd.h>

#include "mpi/shardfuse_mpi.h"
#include "tests/mpi/mpi_test.h"

#define ROWS 101
#define COLS 2000

static const char *dir;
static struct shardfuse_comm comm;
static float *mine; /* this rank's rows */

static const char *path_of(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s-%d-%d", dir, name, multiple, size);
	return path;
}

static uint64_t first_row(int of)
{
	return (uint64_t)ROWS * (uint64_t)of / (uint64_t)size;
}

static void fill(float add)
{
	for (uint64_t i = 0; i < (first_row(rank + 1) - first_row(rank)) * COLS; i++)
		mine[i] = (float)(first_row(rank) * COLS + i) + add;
}

static struct shardfuse_save *begin(const char *name, unsigned timeout_ms,
                                    struct shardfuse_save_keep *keep)
{
	const uint64_t shape[2] = { ROWS, COLS };
	uint64_t offset[2] = { first_row(rank), 0 },
		 extent[2] = { first_row(rank + 1) - offset[0], COLS };
	struct shardfuse_save_options opt = SHARDFUSE_INIT(opt);
	struct shardfuse_save_tensor t = SHARDFUSE_INIT(t);
	struct shardfuse_error err;
	struct shardfuse_save *s;

	opt.timeout_ms = timeout_ms;
	opt.keep = keep;
	opt.no_fsync = 1;
	must_say(shardfuse_save_begin(path_of(name), &opt, &comm, &s, &err) == 0, err.msg);
	t.key = "model.w";
	t.dtype = "float32";
	t.ndim = 2;
	t.shape = shape;
	t.offset = offset;
	t.extent = extent;
	t.at = mine;
	must_say(shardfuse_save_add_tensor(s, &t, &err) == 0, err.msg);
	return s;
}

/* Each rank reads all of it. */
static void check(const char *name, float add)
{
	struct shardfuse_error err;
	struct shardfuse *h;
	float *all = malloc(sizeof(float) * ROWS * COLS);
	int64_t t;

	must_say(shardfuse_open(NULL, path_of(name), NULL, &h, &err) == 0, err.msg);
	t = shardfuse_tensor_find(h, "model.w", 7, &err);
	must_say(t >= 0, err.msg);
	must_say(!shardfuse_tensor_read(h, (uint64_t)t, 0, all, sizeof(float) * ROWS * COLS, &err),
	         err.msg);
	for (uint64_t i = 0; i < ROWS * COLS; i++)
		must(all[i] == (float)i + add);
	shardfuse_close(h);
	free(all);
}

static void is_not_there(const char *name)
{
	struct shardfuse *h;

	MPI_Barrier(MPI_COMM_WORLD);
	must(shardfuse_open(NULL, path_of(name), NULL, &h, NULL) < 0);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void saves_and_goes_well(const char *name)
{
	struct shardfuse_save *s = begin(name, 0, NULL);
	struct shardfuse_error err;

	must_say(shardfuse_save_commit(s, &err) == 0, err.msg);
	shardfuse_save_free(s);
	check(name, 0);
}

static void commits(void)
{
	fill(0);
	saves_and_goes_well("commit");
	/* the same again: there is one */
	struct shardfuse_save *s = begin("commit", 0, NULL);
	struct shardfuse_error err;
	must(shardfuse_save_commit(s, &err) == -EEXIST);
	must(strstr(err.msg, "commit"));
	shardfuse_save_free(s);
}

/* The program changes its memory and reduces all the while. */
static void saves_in_the_background(void)
{
	struct shardfuse_save_keep *keep;
	struct shardfuse_error err;

	must_say(shardfuse_save_keep_new(&keep, &err) == 0, err.msg);
	for (int k = 0; k < 4; k++) {
		struct shardfuse_save_request *req;
		struct shardfuse_save *s;
		char name[20];
		int over = 0, all = 0;

		snprintf(name, sizeof(name), "async%d", k);
		fill((float)k);
		s = begin(name, 0, keep);
		must_say(shardfuse_save_commit_async(s, &req, &err) == 0, err.msg);
		fill(-1000);   /* ours again */
		while (!all) { /* until it is over on all ranks */
			if (!over)
				over = shardfuse_save_test(req);
			must(over >= 0);
			MPI_Allreduce(&over, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
		}
		must_say(shardfuse_save_wait(req, &err) == 0, err.msg);
		shardfuse_save_free(s);
		check(name, (float)k);
	}
	shardfuse_save_keep_free(keep);
}

static void one_calls_it_off(void)
{
	struct shardfuse_save *s;
	struct shardfuse_error err = { "" };

	fill(0);
	s = begin("abort", 0, NULL);
	if (rank == size - 1) {
		shardfuse_save_abort(s, "the loss is not a number", &err);
	} else {
		must(shardfuse_save_commit(s, &err) < 0);
		must_say(strstr(err.msg, "the loss is not a number"), err.msg);
	}
	shardfuse_save_free(s);
	is_not_there("abort");
	saves_and_goes_well("abort");
}

/* The last rank comes when the others gave it up: it fails too, and all can try again. */
static void one_comes_too_late(void)
{
	struct shardfuse_save *s = begin("late", 200, NULL);
	struct shardfuse_error err = { "" };
	int told = 0;

	if (rank == size - 1) /* the others failed before they come here */
		MPI_Barrier(MPI_COMM_WORLD);
	must(shardfuse_save_commit(s, &err) < 0);
	told = strstr(err.msg, "no word from rank") != NULL;
	must_say(told, err.msg);
	if (rank != size - 1)
		MPI_Barrier(MPI_COMM_WORLD);
	shardfuse_save_free(s);
	is_not_there("late");
	saves_and_goes_well("late");
}

static void one_has_something_else(void)
{
	struct shardfuse_save *s = begin("differs", 0, NULL);
	struct shardfuse_error err = { "" };

	must_say(!shardfuse_save_add_json(s, "step", rank == size - 1 ? "2" : "1", &err), err.msg);
	must(shardfuse_save_commit(s, &err) == -EINVAL);
	must_say(strstr(err.msg, "step"), err.msg);
	shardfuse_save_free(s);
	is_not_there("differs");
}

int main(int argc, char **argv)
{
	struct shardfuse_error err;

	if (argc != 3)
		return 2;
	dir = argv[2];
	if (!mpi_test_begin(&argc, &argv, argv[1]))
		return 77;
	must_say(shardfuse_comm_mpi(MPI_COMM_WORLD, NULL, &comm, &err) == 0, err.msg);
	must(comm.threads == multiple);
	mine = malloc(sizeof(float) * ROWS * COLS);
	commits();
	done("commits");
	saves_in_the_background();
	done("saves in the background");
	one_calls_it_off();
	done("one calls it off");
	if (size > 1) {
		one_comes_too_late();
		done("one comes too late");
		one_has_something_else();
		done("one has something else");
	}
	free(mine);
	shardfuse_comm_free(&comm);
	mpi_test_end();
	return 0;
}
