/* Ranks that are killed, or fail, at any call that changes the disk: nothing is there that looks whole and is
 * not, the others say why, and the next save succeeds. */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "shardfuse_save.h"
#include "tests/lib/comm_socket.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/syscall_fault.h"

#define NRANKS 3
#define ROWS 4      /* of a rank */
#define COLS 20000  /* a rank's rows are written from where they lie */
#define STRIDED 500 /* and these through a buffer */

/* How a campaign saves. */
struct manner {
	const char *format;
	bool replace, no_exchange, async, zstd, manifest;
};
static const struct manner manners[] = {
	{ .format = "dcp" },
	{ .format = "dcp", .replace = true },
	{ .format = "dcp", .replace = true, .no_exchange = true, .async = true },
	{ .format = "olmo", .replace = true, .manifest = true },
	{ .format = "dcp", .async = true, .zstd = true },
};

static char dir[64], target[100];

/* What came of each rank, in memory that all processes share. */
static struct outcome {
	bool ended;
	int code;
	bool hit;
	char msg[1024];
} * outcome;

static void make_dir(void)
{
	/* in memory: thousands of saves are synced */
	snprintf(dir, sizeof(dir), "/dev/shm/sf-kill-XXXXXX");
	if (!mkdtemp(dir)) {
		snprintf(dir, sizeof(dir), "/tmp/sf-kill-XXXXXX");
		ck_assert_ptr_nonnull(mkdtemp(dir));
	}
	snprintf(target, sizeof(target), "%s/step1", dir);
	if (!outcome)
		outcome = mmap(NULL, NRANKS * sizeof(*outcome), PROT_READ | PROT_WRITE,
		               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(outcome, MAP_FAILED);
}

static void remove_dir(void)
{
	char cmd[100];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	ck_assert_int_eq(system(cmd), 0);
}

/* ---- a rank ---- */

static float value(unsigned version, uint64_t i)
{
	return (float)(version * 1000 + i % 1000);
}

static int add(struct shardfuse_save *s, uint32_t rank, unsigned version, float *rows,
               float *columns, struct shardfuse_error *err)
{
	struct shardfuse_save_tensor t = SHARDFUSE_INIT(t);
	uint64_t shape[2] = { NRANKS * ROWS, COLS }, offset[2] = { rank * ROWS, 0 };
	uint64_t extent[2] = { ROWS, COLS }, stride[2] = { 1, ROWS };
	char text[40];
	int r;

	for (uint64_t i = 0; i < ROWS * COLS; i++)
		rows[i] = value(version, (uint64_t)rank * ROWS * COLS + i);
	t.key = "model.rows", t.dtype = "float32", t.ndim = 2;
	t.shape = shape, t.offset = offset, t.extent = extent, t.at = rows;
	r = shardfuse_save_add_tensor(s, &t, err);
	for (uint64_t i = 0; i < ROWS * STRIDED; i++)
		columns[i % STRIDED * ROWS + i / STRIDED] =
			value(version, (uint64_t)rank * ROWS * STRIDED + i);
	shape[1] = extent[1] = STRIDED;
	t.key = "model.columns", t.stride = stride, t.at = columns;
	if (r >= 0)
		r = shardfuse_save_add_tensor(s, &t, err);
	snprintf(text, sizeof(text), "%u", version);
	if (r >= 0)
		r = shardfuse_save_add_json(s, "step", text, err);
	snprintf(text, sizeof(text), "train/rank%u.pt", rank);
	return r >= 0 ? shardfuse_save_add_file(s, text, text, strlen(text), err) : r;
}

static int commit(struct shardfuse_save *s, bool async, struct shardfuse_error *err)
{
	struct shardfuse_save_request *req;
	int r;

	if (!async)
		return shardfuse_save_commit(s, err);
	r = shardfuse_save_commit_async(s, &req, err);
	return r < 0 ? r : shardfuse_save_wait(req, err);
}

static void run_rank(const struct manner *m, uint32_t rank, unsigned version,
                     int (*pair)[COMM_SOCKET_MAX])
{
	struct shardfuse_save_options opt = SHARDFUSE_INIT(opt);
	struct shardfuse_error err = { "" };
	struct shardfuse_save *s = NULL;
	struct shardfuse_comm comm;
	struct comm_socket c;
	float *rows = malloc(ROWS * COLS * sizeof(float));
	float *columns = malloc(ROWS * STRIDED * sizeof(float));

	comm_socket_begin(&c, rank, NRANKS, pair, &comm);
	opt.format = m->format;
	opt.overwrite = m->replace ? SHARDFUSE_REPLACE : SHARDFUSE_REFUSE;
	opt.zstd = m->zstd;
	opt.manifest = m->manifest;
	opt.files_per_rank = 2;
	int r = shardfuse_save_begin(target, &opt, &comm, &s, &err);
	if (r >= 0)
		r = add(s, rank, version, rows, columns, &err);
	if (r >= 0)
		r = commit(s, m->async, &err);
	shardfuse_save_free(s);
	outcome[rank].code = r;
	outcome[rank].hit = syscall_fault.hit;
	memcpy(outcome[rank].msg, err.msg, sizeof(err.msg));
	outcome[rank].ended = true;
	_exit(0);
}

/* Each rank a process; @victim is killed or fails at its @n-th call. True: it came to that. */
static bool save(const struct manner *m, unsigned version, uint32_t victim, unsigned long n,
                 int errnum, bool sticky)
{
	int pair[NRANKS][COMM_SOCKET_MAX] = { { 0 } }, status;
	bool killed = false;
	pid_t pid[NRANKS];

	memset(outcome, 0, NRANKS * sizeof(*outcome));
	comm_socket_pairs(NRANKS, pair);
	fflush(stdout);
	for (uint32_t i = 0; i < NRANKS; i++) {
		pid[i] = fork();
		ck_assert_int_ge(pid[i], 0);
		if (pid[i] == 0) {
			syscall_fault.no_exchange = m->no_exchange;
			if (i == victim)
				syscall_fault_arm(n, errnum, sticky);
			run_rank(m, i, version, pair);
		}
	}
	comm_socket_close(NRANKS, pair, NRANKS);
	for (uint32_t i = 0; i < NRANKS; i++) {
		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		if (i == victim && !errnum && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			killed = true;
		else
			ck_assert_msg(status == 0 && outcome[i].ended, "rank %u: status %x", i,
			              status);
	}
	return victim < NRANKS && (killed || outcome[victim].hit);
}

/* ---- what is there ---- */

static bool is_there(const char *name)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return access(path, F_OK) == 0;
}

/* Every element of a tensor is of one version, which is returned. */
static unsigned version_of(struct shardfuse *h, const char *key, uint64_t cols)
{
	struct shardfuse_error err = { "" };
	uint64_t n = (uint64_t)NRANKS * ROWS * cols;
	float *got = malloc(n * sizeof(*got));
	int64_t at = shardfuse_tensor_find(h, key, strlen(key), &err);

	ck_assert_msg(at >= 0, "%s: %s", key, err.msg);
	int r = shardfuse_tensor_read(h, (uint64_t)at, 0, got, n * sizeof(*got), &err);
	ck_assert_msg(r >= 0, "%s: %s", key, err.msg);
	unsigned version = (unsigned)got[0] / 1000;
	uint64_t same = 0; /* no assertion for each: each is a write to Check's file */
	while (same < n && got[same] == value(version, same))
		same++;
	ck_assert_msg(same == n, "%s, element %llu of version %u", key, (unsigned long long)same,
	              version);
	free(got);
	return version;
}

static unsigned look(const struct manner *m)
{
	struct shardfuse_open_options opt = SHARDFUSE_INIT(opt);
	struct shardfuse_error err = { "" };
	struct shardfuse *h;
	char *step = NULL, want[40];

	opt.complete = 1;
	int r = shardfuse_open(NULL, target, &opt, &h, &err);
	ck_assert_msg(r >= 0, "%s: %s", m->format, err.msg);
	unsigned version = version_of(h, "model.rows", COLS);
	ck_assert_uint_eq(version, version_of(h, "model.columns", STRIDED));
	ck_assert_msg(shardfuse_object_json(h, 0, &step, &err) >= 0, "%s", err.msg);
	snprintf(want, sizeof(want), "%u", version);
	ck_assert_int_eq(strncmp(step, want, strlen(want)), 0);
	shardfuse_free(step);
	shardfuse_close(h);
	for (uint32_t i = 0; i < NRANKS; i++) {
		snprintf(want, sizeof(want), "step1/train/rank%u.pt", i);
		ck_assert(is_there(want));
	}
	return version;
}

/* The version of a whole checkpoint; 0: there is none, nothing of it. By a process of its own: readers have
 * threads, and this one forks. */
static unsigned there(const struct manner *m)
{
	int status;

	if (!is_there("step1"))
		return 0;
	fflush(stdout);
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		_exit(100 + (int)look(m));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) > 100, "the reader: status %x",
	              status);
	return (unsigned)WEXITSTATUS(status) - 100;
}

/* A run's discovery goes by names: none but the target's is one of a checkpoint. */
static unsigned entries(void)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	unsigned n = 0;

	while ((e = readdir(d))) {
		if (e->d_name[0] == '.' && strspn(e->d_name, ".") == strlen(e->d_name))
			continue;
		ck_assert_msg(strcmp(e->d_name, "step1") == 0 ||
		                      strcmp(e->d_name, "step1-tmp") == 0 ||
		                      strcmp(e->d_name, "step1-old") == 0,
		              "%s", e->d_name);
		n++;
	}
	closedir(d);
	return n;
}

static void begin(const struct manner *m)
{
	make_dir();
	if (!m->replace)
		return;
	save(m, 1, NRANKS, 0, 0, false);
	ck_assert_msg(outcome[0].code == 0, "%s", outcome[0].msg);
}

/* It succeeds, and is all that there is. */
static void next(const struct manner *m)
{
	struct manner again = *m;

	again.replace |= is_there("step1");
	save(&again, 3, NRANKS, 0, 0, false);
	for (uint32_t i = 0; i < NRANKS; i++)
		ck_assert_msg(outcome[i].code == 0, "rank %u: %s", i, outcome[i].msg);
	ck_assert_uint_eq(there(m), 3);
	ck_assert_uint_eq(entries(), 1);
	ck_assert(!is_there("step1/.shardfuse-save"));
	remove_dir();
}

/* SF_FAULTS=1: every call; else every few. */
static unsigned long stride(void)
{
	const char *s = getenv("SF_FAULTS");

	return s && *s ? 1 : 5;
}

/* _i: a manner and a rank */
START_TEST(a_rank_killed_at_any_call_leaves_nothing_that_looks_whole)
{
	const struct manner *m = &manners[_i / NRANKS];
	const uint32_t victim = (uint32_t)_i % NRANKS;
	unsigned long n = 1 + sf_test_seed("kill") % stride(), points = 0;

	for (bool hit = true; hit; n += stride()) {
		begin(m);
		hit = save(m, 2, victim, n, 0, false);
		points += hit;
		unsigned version = there(m);
		ck_assert_msg(version == 2 || version == m->replace ||
		                      (m->no_exchange && version == 0),
		              "call %lu: version %u", n, version);
		for (uint32_t i = 0; hit && i < NRANKS;
		     i++) /* the others were told, or it was over */
			ck_assert_msg(i == victim || outcome[i].code == 0 || outcome[i].msg[0],
			              "call %lu, rank %u", n, i);
		ck_assert_uint_le(entries(), 3);
		next(m);
	}
	printf("%s, rank %u: killed at %lu calls of %lu\n", m->format, victim, points, n);
	ck_assert_uint_gt(points, 0);
}
END_TEST

START_TEST(a_rank_that_fails_at_any_call_fails_all_and_nothing_is_left)
{
	static const int errs[] = { ENOSPC, EIO, EROFS, EDQUOT };
	const struct manner *m = &manners[_i / NRANKS];
	const uint32_t victim = (uint32_t)_i % NRANKS;
	unsigned long n = 1 + sf_test_seed("fail") % stride(), points = 0, failures = 0;

	for (bool hit = true; hit; n += stride()) {
		begin(m);
		bool sticky = n / stride() % 2;
		hit = save(m, 2, victim, n, errs[n % SF_ARRAY_LEN(errs)], sticky);
		points += hit;
		for (uint32_t i = 0; i < NRANKS; i++) { /* one verdict, one text */
			ck_assert_msg(outcome[i].code == outcome[0].code,
			              "call %lu, rank %u: %d, %d: %s", n, i, outcome[i].code,
			              outcome[0].code, outcome[i].msg);
			ck_assert_str_eq(outcome[i].msg, outcome[0].msg);
			ck_assert(outcome[i].code == 0 || outcome[i].msg[0]);
		}
		failures += outcome[0].code < 0;
		unsigned version = there(m);
		if (outcome[0].code == 0)
			ck_assert_uint_eq(version, 2);
		else if (!sticky)
			ck_assert_msg(version == m->replace && entries() <= 1u + m->replace,
			              "call %lu: version %u, %u entries: %s", n, version, entries(),
			              outcome[0].msg);
		else /* what it did could not be undone, but then it was whole */
			ck_assert(version == m->replace || version == 2 || m->no_exchange);
		next(m);
	}
	printf("%s, rank %u: %lu calls of %lu, %lu failures\n", m->format, victim, points, n,
	       failures);
	ck_assert_uint_gt(points, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("save_kill");
	TCase *killed = tcase_create("killed"), *failed = tcase_create("failed");
	int n = (int)SF_ARRAY_LEN(manners) * NRANKS;

	tcase_set_timeout(killed, 600);
	tcase_add_loop_test(killed, a_rank_killed_at_any_call_leaves_nothing_that_looks_whole, 0,
	                    n);
	suite_add_tcase(s, killed);
	tcase_set_timeout(failed, 600);
	tcase_add_loop_test(failed, a_rank_that_fails_at_any_call_fails_all_and_nothing_is_left, 0,
	                    n);
	suite_add_tcase(s, failed);
	return sf_test_main(s);
}
