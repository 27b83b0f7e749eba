/*
 * The communicator of MPI, run by mpirun (test_comm_mpi.sh): messages, trees, threads, the program's own traffic.
 *
 * usage: mpi_comm multiple|funneled DIRECTORY
 */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "mpi/comm_mpi.h"
#include "save/save_tree.h"
#include "tests/mpi/mpi_test.h"

#define PART 1000 /* so that messages of a few kilobytes are split */
#define LONG_MS 600000

static struct shardfuse_comm new_comm(size_t part)
{
	struct shardfuse_comm c;
	struct shardfuse_error err;

	must(sf_comm_mpi_new(MPI_COMM_WORLD, NULL, part, &c, &err) == 0);
	must(c.rank == (uint32_t)rank && c.size == (uint32_t)size);
	return c;
}

static void options_and_levels(void)
{
	struct shardfuse_mpi_options o = SHARDFUSE_INIT(o);
	struct shardfuse_error err;
	struct shardfuse_comm c;

	must(shardfuse_comm_mpi(MPI_COMM_WORLD, NULL, &c, &err) == 0);
	must(c.threads == multiple);
	shardfuse_comm_free(&c);
	o.threads = SHARDFUSE_MPI_THREADS_NONE;
	must(shardfuse_comm_mpi(MPI_COMM_WORLD, &o, &c, &err) == 0);
	must(!c.threads);
	shardfuse_comm_free(&c);
	o.threads = SHARDFUSE_MPI_THREADS_NEED;
	if (multiple) {
		must(shardfuse_comm_mpi(MPI_COMM_WORLD, &o, &c, &err) == 0);
		must(c.threads);
		shardfuse_comm_free(&c);
	} else {
		must(shardfuse_comm_mpi(MPI_COMM_WORLD, &o, &c, &err) == -ENOTSUP);
		must(strstr(err.msg, "MPI_THREAD_FUNNELED"));
		must(strstr(err.msg, "MPI_THREAD_MULTIPLE"));
	}
	o.threads = 7;
	must(shardfuse_comm_mpi(MPI_COMM_WORLD, &o, &c, &err) == -EINVAL);
	must(strstr(err.msg, "7"));
	must(shardfuse_comm_mpi(MPI_COMM_NULL, NULL, &c, &err) == -EINVAL);
	must(strstr(err.msg, "MPI_COMM_NULL"));
	/* one rank's mistake is everybody's failure */
	o.threads = rank == size - 1 ? -1 : 0;
	must(shardfuse_comm_mpi(MPI_COMM_WORLD, &o, &c, &err) == -EINVAL);
	must(strstr(err.msg, rank == size - 1 ? "-1" : "another rank"));
}

static void fill(uint8_t *at, size_t len, int from, int k)
{
	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)(i * 13 + i / 251 + (size_t)(from * 31 + k));
}

/* Round a ring, of two tags taken in turns against the order they were sent in. */
static void messages(void)
{
	static const size_t len[] = {
		0,      1, PART - 1, PART, PART + 1, 2 * PART - 1, 2 * PART,     9 * PART,
		200000, 7, PART,     0,    3,        PART * 2,     PART * 2 + 1, 5
	};
	uint32_t to = (uint32_t)((rank + 1) % size), from = (uint32_t)((rank + size - 1) % size);
	struct shardfuse_comm c = new_comm(PART);
	struct shardfuse_error err;
	uint8_t *at = malloc(200000), *theirs = malloc(200000);
	void *got;
	size_t n;

	must(c.recv(c.arg, from, 9, &got, &n, 0, &err) == -EAGAIN);
	must(c.recv(c.arg, from, 9, &got, &n, 3, &err) == -EAGAIN);
	for (int k = 0; k < (int)SF_ARRAY_LEN(len); k++) {
		fill(at, len[k], rank, k);
		must(c.send(c.arg, to, (uint32_t)k % 2, at, len[k], &err) == 0);
		memset(at, 0, 200000); /* ours again */
	}
	for (int i = 0; i < (int)SF_ARRAY_LEN(len); i++) {
		int k = i < 8 ? 2 * i + 1 : 2 * (i - 8);
		must(c.recv(c.arg, from, (uint32_t)k % 2, &got, &n, LONG_MS, &err) == 0);
		must(n == len[k]);
		fill(theirs, n, (int)from, k);
		must(!memcmp(got, theirs, n));
		free(got);
	}
	must(c.recv(c.arg, from, 0, &got, &n, 0, &err) == -EAGAIN);
	shardfuse_comm_free(&c);
	free(at);
	free(theirs);
}

/* The program sends on its communicator, with the same tags: neither gets what is the other's. */
static void the_programs_own_messages(void)
{
	int to = (rank + 1) % size, from = (rank + size - 1) % size, mine[20], got;
	struct shardfuse_comm c = new_comm(SF_COMM_MPI_PART);
	struct shardfuse_error err;
	MPI_Request req[20];
	void *ours;
	size_t n;

	for (int k = 0; k < 20; k++) {
		mine[k] = 1000 * rank + k;
		MPI_Isend(&mine[k], 1, MPI_INT, to, k % 2, MPI_COMM_WORLD, &req[k]);
		must(c.send(c.arg, (uint32_t)to, (uint32_t)k % 2, "ours", 4, &err) == 0);
	}
	for (int k = 0; k < 10; k++) {
		must(c.recv(c.arg, (uint32_t)from, 1, &ours, &n, LONG_MS, &err) == 0);
		must(n == 4 && !memcmp(ours, "ours", 4));
		free(ours);
	}
	for (int k = 0; k < 20; k++) {
		MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
		         MPI_STATUS_IGNORE);
		must(got == 1000 * from + k);
	}
	MPI_Waitall(20, req, MPI_STATUSES_IGNORE);
	shardfuse_comm_free(&c); /* with ten messages that nobody took */
}

/* ---- trees ---- */

static int add_up(void *arg, const void *const *record, const size_t *len, uint32_t n,
                  struct sf_buf *answer, struct sf_error *err)
{
	(void)arg, (void)err;
	for (uint32_t i = 0; i < n; i++) {
		sf_buf_printf(answer, "%u %zu\n", i, len[i]);
		sf_buf_add(answer, record[i], len[i]);
	}
	return 0;
}

static size_t record_len(int of, int k)
{
	return (size_t)((of * 7919 + k * 104729) % 5000) * (size_t)(k % 5 == 4 ? 400 : 1);
}

static void check_answer(struct sf_buf *got, int k)
{
	struct sf_buf want = { 0 };

	for (int i = 0; i < size; i++) {
		sf_buf_printf(&want, "%d %zu\n", i, record_len(i, k));
		fill(sf_buf_extend(&want, record_len(i, k)), record_len(i, k), i, k);
	}
	must(got->len == want.len && !memcmp(got->at, want.at, want.len));
	sf_buf_release(got);
	sf_buf_release(&want);
}

struct steps {
	struct shardfuse_comm *c;
	int n;
	bool polled;
};

static void *run_steps(void *arg)
{
	struct steps *s = arg;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_save_tree t;
	struct sf_buf got = { 0 };

	sf_save_tree_init(&t, s->c, LONG_MS);
	for (int k = 0; k < s->n; k++) {
		size_t len = record_len(rank, k);
		uint8_t *at = malloc(len + 1);
		struct sf_save_tree_step *step;
		int r;

		fill(at, len, rank, k);
		if (!s->polled) {
			must(!sf_save_tree_step(&t, NULL, at, len, add_up, NULL, &got, &err));
		} else {
			must(!sf_save_tree_begin(&t, NULL, at, len, add_up, NULL, &step, &err));
			while ((r = sf_save_tree_poll(step, 0, &got, &err)) == -EAGAIN)
				sched_yield();
			must(r == 0);
			sf_save_tree_step_free(step);
		}
		check_answer(&got, k);
		free(at);
	}
	return NULL;
}

static void trees(void)
{
	struct shardfuse_comm c = new_comm(PART);
	struct steps s = { .c = &c, .n = 12 };
	struct sf_verdict v = { .code = rank == size - 1 ? -ENOSPC : 0, .err = { "disk full" } };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_save_tree t;

	run_steps(&s);
	s.polled = true;
	run_steps(&s);
	/* the highest fails, and all say so */
	sf_save_tree_init(&t, &c, LONG_MS);
	must(sf_save_tree_step(&t, &v, "x", 1, add_up, NULL, NULL, &err) == -ENOSPC);
	must(strstr(err.msg, "disk full"));
	must(size == 1 || strtol(err.msg + 5, NULL, 10) == size - 1);
	shardfuse_comm_free(&c);
}

/* The library's thread takes steps while the program reduces. */
static void trees_beside_the_program(void)
{
	struct shardfuse_comm c = new_comm(SF_COMM_MPI_PART);
	struct steps s = { .c = &c, .n = 15 };
	pthread_t thread;

	must(sf_thread_start(&thread, run_steps, &s) == 0);
	for (int k = 0; k < 300; k++) {
		int sum = 0;
		MPI_Allreduce(&k, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		must(sum == k * size);
	}
	pthread_join(thread, NULL);
	shardfuse_comm_free(&c);
}

/* The last rank does not come: all the others are told, and the next save goes well. */
static void a_rank_does_not_come(void)
{
	struct shardfuse_comm c = new_comm(SF_COMM_MPI_PART);
	struct sf_error err = SF_ERROR_INIT;
	struct steps s = { .c = &c, .n = 3 };
	struct sf_save_tree t;

	sf_save_tree_init(&t, &c, 200);
	if (rank != size - 1) {
		must(sf_save_tree_step(&t, NULL, "x", 1, add_up, NULL, NULL, &err) == -ETIMEDOUT);
		must(strstr(err.msg, "no word from rank"));
	}
	run_steps(&s);
	shardfuse_comm_free(&c);
}

static int large_answer(void *arg, const void *const *record, const size_t *len, uint32_t n,
                        struct sf_buf *answer, struct sf_error *err)
{
	(void)arg, (void)record, (void)len, (void)n, (void)err;
	memset(sf_buf_extend(answer, 9 << 20), 'a', 9 << 20);
	return 0;
}

/* Rank 0 makes no call of MPI after its step: its answer arrives all the same. */
static void what_was_answered_arrives(const char *dir)
{
	struct shardfuse_comm c = new_comm(SF_COMM_MPI_PART);
	struct sf_error err = SF_ERROR_INIT;
	struct sf_buf got = { 0 };
	struct sf_save_tree t;
	struct stat st;
	char path[4096];

	sf_save_tree_init(&t, &c, LONG_MS);
	must(sf_save_tree_step(&t, NULL, "x", 1, large_answer, NULL, &got, &err) == 0);
	must(got.len == 9 << 20 && got.at[got.len - 1] == 'a');
	sf_buf_release(&got);
	for (int i = 1; i < size; i++) {
		snprintf(path, sizeof(path), "%s/%s-%d-%d", dir, multiple ? "m" : "f", size, i);
		if (rank == i)
			must(mkdir(path, 0700) == 0);
		while (rank == 0 && stat(path, &st) < 0)
			usleep(1000);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	shardfuse_comm_free(&c);
}

/* Large ones too, which MPI keeps at the sender until they are wanted. */
static void what_nobody_took_does_not_keep_it(void)
{
	struct shardfuse_comm c = new_comm(SF_COMM_MPI_PART), d = new_comm(100000);
	uint32_t to = (uint32_t)((rank + 1) % size);
	uint8_t *at = calloc(1, 5 << 20);
	struct shardfuse_error err;

	must(c.send(c.arg, to, 3, at, 5 << 20, &err) == 0);
	must(d.send(d.arg, to, 3, at, 5 << 20, &err) == 0);
	must(size == 1 || c.flush(c.arg, 0) == -EAGAIN);
	free(at);
	shardfuse_comm_free(&d);
	shardfuse_comm_free(&c);
}

static bool refused(const char *why)
{
	struct shardfuse_error err;
	struct shardfuse_comm c;

	return shardfuse_comm_mpi(MPI_COMM_WORLD, NULL, &c, &err) == -EINVAL &&
	       strstr(err.msg, why);
}

int main(int argc, char **argv)
{
	if (argc != 3 || !refused("not initialized"))
		return 1;
	if (!mpi_test_begin(&argc, &argv, argv[1]))
		return 77;
	options_and_levels();
	done("options and levels");
	messages();
	done("messages");
	the_programs_own_messages();
	done("the program's own messages");
	trees();
	done("trees");
	if (multiple) {
		trees_beside_the_program();
		done("trees beside the program");
	}
	if (size > 1) {
		a_rank_does_not_come();
		done("a rank does not come");
	}
	what_was_answered_arrives(argv[2]);
	done("what was answered arrives");
	what_nobody_took_does_not_keep_it();
	done("what nobody took does not keep it");
	mpi_test_end();
	return !refused("finalized");
}
