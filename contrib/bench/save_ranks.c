/*
 * How long a save takes: save_ranks DIR TENSORS RANKS MODE [FILES] -> one line of JSON.
 *
 * Ranks are threads; each has the rows of its own of TENSORS tensors, 16 MiB of each. MODE:
 *   save        shardfuse_save_commit, twice through one keep: the second is told too
 *   async       commit_async: stall_s until the memory is the caller's again, save_s until all is written
 *   write       the floor: each rank write(2)s its bytes, 8 MiB at a time, into a file
 *   write-crc   the same, and CRC-32 of them
 *   memcpy      each rank copies its bytes, into memory that was there before (second) or not
 * Times are those of the slowest rank, from when all begin; rss_bytes is the peak beyond the state.
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32.h"
#include "base/mem.h"
#include "shardfuse_save.h"

#define COLS 1024
#define ROWS 4096 /* of a rank: 16 MiB of float32 */
#define BYTES ((size_t)ROWS * COLS * 4)
#define SLICE ((size_t)8 << 20)
#define RANKS_MAX 64

static const char *dir, *mode;
static unsigned tensors, ranks, nfiles = 1;
static pthread_barrier_t barrier;

struct rank {
	struct shardfuse_comm comm;
	struct shardfuse_save_keep *keep;
	uint8_t *state, *copy; /* tensors * BYTES */
	double seconds, stall;
};

static void die(const char *what)
{
	fprintf(stderr, "save_ranks: %s\n", what);
	exit(1);
}

static void fill(struct shardfuse_save *s, const struct rank *k)
{
	const uint64_t shape[2] = { (uint64_t)ROWS * ranks, COLS }, extent[2] = { ROWS, COLS };
	const uint64_t offset[2] = { (uint64_t)ROWS * k->comm.rank, 0 };
	struct shardfuse_error err;

	for (unsigned i = 0; i < tensors; i++) {
		struct shardfuse_save_tensor t = SHARDFUSE_INIT(t);
		char key[64];
		snprintf(key, sizeof(key), "model.layers.%u.weight", i);
		t.key = key;
		t.dtype = "float32";
		t.ndim = 2;
		t.shape = shape;
		t.offset = offset;
		t.extent = extent;
		t.at = k->state + i * BYTES;
		if (shardfuse_save_add_tensor(s, &t, &err) < 0)
			die(err.msg);
	}
}

static void save(struct rank *k, int round)
{
	struct shardfuse_save_options o = SHARDFUSE_INIT(o);
	struct shardfuse_save_request *req;
	struct shardfuse_error err;
	struct shardfuse_save *s;
	char target[4096];
	int64_t t;

	o.keep = k->keep;
	o.files_per_rank = nfiles;
	snprintf(target, sizeof(target), "%s/step%d", dir, round);
	pthread_barrier_wait(&barrier);
	t = sf_now_ns();
	if (shardfuse_save_begin(target, &o, &k->comm, &s, &err) < 0)
		die(err.msg);
	fill(s, k);
	if (strcmp(mode, "async") != 0) {
		if (shardfuse_save_commit(s, &err) < 0)
			die(err.msg);
	} else {
		if (shardfuse_save_commit_async(s, &req, &err) < 0)
			die(err.msg);
		k->stall = (double)(sf_now_ns() - t) * 1e-9;
		if (shardfuse_save_wait(req, &err) < 0)
			die(err.msg);
	}
	k->seconds = (double)(sf_now_ns() - t) * 1e-9;
	shardfuse_save_free(s);
}

static void write_all(struct rank *k, int round, bool crc)
{
	char name[4096];
	uint32_t sum = 0;
	int fd;
	int64_t t;

	snprintf(name, sizeof(name), "%s/plain%d-%u", dir, round, k->comm.rank);
	pthread_barrier_wait(&barrier);
	t = sf_now_ns();
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	for (size_t off = 0; off < tensors * BYTES; off += SLICE) {
		if (crc)
			sum = sf_crc32(sum, k->state + off, SLICE);
		if (fd < 0 || write(fd, k->state + off, SLICE) != (ssize_t)SLICE)
			die("cannot write");
	}
	if (fsync(fd) < 0 || close(fd) < 0)
		die("cannot close");
	k->seconds = (double)(sf_now_ns() - t) * 1e-9 + (sum == 1 ? 1e-12 : 0);
}

static void copy_all(struct rank *k)
{
	int64_t t;

	pthread_barrier_wait(&barrier);
	t = sf_now_ns();
	if (!k->copy)
		k->copy = malloc(tensors * BYTES);
	if (!k->copy)
		die("no memory");
	memcpy(k->copy, k->state, tensors * BYTES);
	k->seconds = (double)(sf_now_ns() - t) * 1e-9;
}

static double first_s[RANKS_MAX], first_stall[RANKS_MAX];

static void *run(void *arg)
{
	struct rank *k = arg;

	for (size_t i = 0; i < tensors * BYTES; i += 4096)
		memset(k->state + i, (int)(i >> 12), 4096);
	for (int round = 0; round < 2; round++) {
		if (strncmp(mode, "write", 5) == 0)
			write_all(k, round, strcmp(mode, "write-crc") == 0);
		else if (strcmp(mode, "memcpy") == 0)
			copy_all(k);
		else
			save(k, round);
		if (round == 0) {
			first_s[k->comm.rank] = k->seconds;
			first_stall[k->comm.rank] = k->stall;
		}
	}
	return NULL;
}

static double most(const double *v)
{
	double m = 0;

	for (unsigned i = 0; i < ranks; i++)
		m = SF_MAX(m, v[i]);
	return m;
}

int main(int argc, char **argv)
{
	struct shardfuse_comm comm[RANKS_MAX];
	static struct rank rank[RANKS_MAX];
	double second_s[RANKS_MAX], second_stall[RANKS_MAX];
	pthread_t thread[RANKS_MAX];
	struct shardfuse_error err;
	struct rusage use;

	if (argc < 5 || (tensors = (unsigned)atoi(argv[2])) < 1 ||
	    (ranks = (unsigned)atoi(argv[3])) < 1 || ranks > RANKS_MAX)
		die("usage: save_ranks DIR TENSORS RANKS save|async|write|write-crc|memcpy "
		    "[FILES]");
	dir = argv[1];
	mode = argv[4];
	if (argc > 5)
		nfiles = (unsigned)atoi(argv[5]);
	pthread_barrier_init(&barrier, NULL, ranks);
	if (shardfuse_comm_threads(ranks, comm, &err) < 0)
		die(err.msg);
	for (unsigned i = 0; i < ranks; i++) {
		rank[i].comm = comm[i];
		rank[i].state = malloc(tensors * BYTES);
		if (!rank[i].state || shardfuse_save_keep_new(&rank[i].keep, &err) < 0)
			die("no memory");
		pthread_create(&thread[i], NULL, run, &rank[i]);
	}
	for (unsigned i = 0; i < ranks; i++) {
		pthread_join(thread[i], NULL);
		second_s[i] = rank[i].seconds;
		second_stall[i] = rank[i].stall;
	}
	getrusage(RUSAGE_SELF, &use);
	printf("{\"bytes\": %zu, \"save_s\": %.6f, \"second_s\": %.6f, \"stall_s\": %.6f, "
	       "\"second_stall_s\": %.6f, \"rss_bytes\": %lld}\n",
	       tensors * BYTES * ranks, most(first_s), most(second_s), most(first_stall),
	       most(second_stall),
	       (long long)use.ru_maxrss * 1024 - (long long)(tensors * BYTES * ranks));
	return 0;
}
