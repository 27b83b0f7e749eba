/* Whole saves by ranks that are threads: waited for, in the background, driven by test and wait, called off,
 * one after another through one keep; read back by the library's other half. */
#include "config.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "shardfuse_save.h"
#include "tests/lib/sf_test.h"

#define RANKS 4
#define ROWS 12 /* of all ranks */
#define COLS 5

static char dir[64];

static void begin_dir(void)
{
	snprintf(dir, sizeof(dir), "/tmp/sf-save-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void end_dir(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	ck_assert_int_eq(system(cmd), 0);
}

static const char *target(char buf[256], int step)
{
	snprintf(buf, 256, "%s/step%d", dir, step);
	return buf;
}

static bool is_there(const char *path, const char *suffix)
{
	char name[512];

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	return access(name, F_OK) == 0;
}

/* What a rank does, and what came of it. */
struct one {
	struct shardfuse_comm comm;
	struct shardfuse_save_options opt;
	struct shardfuse_save_keep *keep;
	int step, steps;
	bool async, poll, cancel, abort,
		bare; /* bare: the communicator may not be used by threads */
	int r;
	struct shardfuse_error err;
	float w[ROWS / RANKS * COLS], b[3];
};

static float element(int step, unsigned i)
{
	return (float)(step * 1000 + (int)i);
}

static int add(struct one *o, struct shardfuse_save *s, int step)
{
	const uint64_t shape[2] = { ROWS, COLS }, extent[2] = { ROWS / RANKS, COLS }, three = 3;
	uint64_t offset[2] = { (uint64_t)o->comm.rank * (ROWS / RANKS), 0 };
	struct shardfuse_save_tensor t = SHARDFUSE_INIT(t);
	char json[64];
	int r;

	for (unsigned i = 0; i < SF_ARRAY_LEN(o->w); i++)
		o->w[i] = element(step, o->comm.rank * (ROWS / RANKS) * COLS + i);
	for (unsigned i = 0; i < 3; i++)
		o->b[i] = element(step, i);
	t.key = "w";
	t.dtype = "float32";
	t.ndim = 2;
	t.shape = shape;
	t.offset = offset;
	t.extent = extent;
	t.at = o->w;
	r = shardfuse_save_add_tensor(s, &t, &o->err);
	if (r < 0)
		return r;
	t = (struct shardfuse_save_tensor)SHARDFUSE_INIT(t);
	t.key = "b";
	t.dtype = "float32";
	t.ndim = 1;
	t.shape = &three;
	t.at = o->b;
	r = shardfuse_save_add_tensor(s, &t, &o->err);
	snprintf(json, sizeof(json), "{\"step\": %d}", step);
	return r < 0 ? r : shardfuse_save_add_json(s, "state", json, &o->err);
}

static int in_background(struct one *o, struct shardfuse_save *s)
{
	struct shardfuse_save_request *req;
	uint64_t total;
	int r = shardfuse_save_commit_async(s, &req, &o->err);

	if (r < 0)
		return r;
	memset(o->w, 0xff, sizeof(o->w)); /* ours again */
	memset(o->b, 0xff, sizeof(o->b));
	if (o->cancel)
		shardfuse_save_cancel(req);
	while (o->poll && !shardfuse_save_test(req))
		usleep(100);
	ck_assert_uint_le(shardfuse_save_progress(req, &total), total);
	r = shardfuse_save_wait(req, &o->err);
	return r;
}

static int save(struct one *o, int step)
{
	struct shardfuse_save_options opt = o->opt;
	struct shardfuse_save *s;
	char path[256];
	int r;

	opt.keep = o->keep;
	r = shardfuse_save_begin(target(path, step), &opt, &o->comm, &s, &o->err);
	if (r < 0)
		return r;
	r = add(o, s, step);
	ck_assert_msg(r >= 0, "%s", o->err.msg);
	if (o->abort)
		r = shardfuse_save_abort(s, "as the test wants", &o->err);
	else
		r = o->async ? in_background(o, s) : shardfuse_save_commit(s, &o->err);
	shardfuse_save_free(s);
	return r;
}

static void *run_rank(void *arg)
{
	struct one *o = arg;

	o->r = 0;
	for (int i = 0; i < o->steps && o->r >= 0; i++)
		o->r = save(o, o->step + i);
	return NULL;
}

static void run_all(struct one o[RANKS])
{
	struct shardfuse_comm comm[RANKS];
	pthread_t thread[RANKS];
	struct shardfuse_error err;

	ck_assert_int_eq(shardfuse_comm_threads(RANKS, comm, &err), 0);
	for (unsigned i = 0; i < RANKS; i++) {
		o[i].comm = comm[i];
		if (o[i].bare)
			o[i].comm.threads = 0;
		o[i].opt.struct_size = sizeof(o[i].opt);
		o[i].opt.timeout_ms = 60000;
		o[i].steps = SF_MAX(o[i].steps, 1);
		if (o[i].steps > 1)
			ck_assert_int_eq(shardfuse_save_keep_new(&o[i].keep, &err), 0);
		ck_assert_int_eq(pthread_create(&thread[i], NULL, run_rank, &o[i]), 0);
	}
	for (unsigned i = 0; i < RANKS; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < RANKS; i++) {
		shardfuse_save_keep_free(o[i].keep);
		shardfuse_comm_free(&comm[i]);
	}
}

static void check_step(int step)
{
	struct shardfuse *h;
	struct shardfuse_error err = { "" };
	float w[ROWS * COLS], b[3];
	char path[256], want[32], *json;

	ck_assert_msg(shardfuse_open(NULL, target(path, step), NULL, &h, &err) == 0, "%s", err.msg);
	int64_t tw = shardfuse_tensor_find(h, "w", 1, NULL),
		tb = shardfuse_tensor_find(h, "b", 1, NULL);
	ck_assert_int_ge(tw, 0);
	ck_assert_int_ge(tb, 0);
	ck_assert_int_eq(shardfuse_tensor_read(h, (uint64_t)tw, 0, w, sizeof(w), &err), 0);
	ck_assert_int_eq(shardfuse_tensor_read(h, (uint64_t)tb, 0, b, sizeof(b), &err), 0);
	for (unsigned i = 0; i < ROWS * COLS; i++)
		ck_assert(w[i] == element(step, i));
	for (unsigned i = 0; i < 3; i++)
		ck_assert(b[i] == element(step, i));
	ck_assert_int_eq(shardfuse_object_json(h, 0, &json, &err), 0);
	snprintf(want, sizeof(want), "\"step\": %d", step);
	ck_assert_msg(strstr(json, want) != NULL, "%s has no %s", json, want);
	shardfuse_free(json);
	shardfuse_close(h);
	ck_assert(!is_there(path, "-tmp"));
}

static void check_ok(const struct one o[RANKS])
{
	for (unsigned i = 0; i < RANKS; i++)
		ck_assert_msg(o[i].r == 0, "rank %u: %d %s", i, o[i].r, o[i].err.msg);
	for (int s = 0; s < o[0].steps; s++)
		check_step(o[0].step + s);
}

START_TEST(all_ranks_save_one_checkpoint)
{
	struct one o[RANKS] = { { .step = 1 }, { .step = 1 }, { .step = 1 }, { .step = 1 } };

	begin_dir();
	run_all(o);
	check_ok(o);
	end_dir();
}
END_TEST

/* _i & 1: polled; & 2: by ranks whose communicator no other thread may use; & 4: through one keep, steps
 * whose objects get longer */
START_TEST(in_the_background)
{
	struct one o[RANKS] = { 0 };

	begin_dir();
	for (unsigned i = 0; i < RANKS; i++) {
		o[i].async = true;
		o[i].poll = _i & 1;
		o[i].bare = _i & 2;
		o[i].step = 8;
		o[i].steps = _i & 4 ? 4 : 1; /* 8 … 11 */
	}
	run_all(o);
	check_ok(o);
	end_dir();
}
END_TEST

START_TEST(one_that_aborts_fails_all)
{
	struct one o[RANKS] = { 0 };
	char path[256];

	begin_dir();
	o[2].abort = true;
	run_all(o);
	for (unsigned i = 0; i < RANKS; i++) {
		ck_assert_int_eq(o[i].r, i == 2 ? 0 : -ECANCELED);
		if (i != 2)
			ck_assert_str_eq(o[i].err.msg, "rank 2: as the test wants");
	}
	ck_assert(!is_there(target(path, 0), "") && !is_there(path, "-tmp"));
	end_dir();
}
END_TEST

/* What could not be added is not left out in silence, nor is it told to one rank alone. */
START_TEST(a_failed_add_fails_the_commit)
{
	struct shardfuse_save_tensor t = SHARDFUSE_INIT(t);
	struct shardfuse_save *s;
	struct shardfuse_error err, why;
	char path[256];

	begin_dir();
	ck_assert_int_eq(shardfuse_save_begin(target(path, 0), NULL, NULL, &s, &err), 0);
	t.key = "w";
	t.dtype = "bf16";
	t.at = path;
	ck_assert_int_eq(shardfuse_save_add_tensor(s, &t, &why), -EINVAL);
	ck_assert_int_eq(shardfuse_save_add_json(s, "step", "1", &err), 0);
	ck_assert_int_eq(shardfuse_save_commit(s, &err), -EINVAL);
	ck_assert_str_eq(err.msg, why.msg);
	shardfuse_save_free(s);
	ck_assert(!is_there(path, "") && !is_there(path, "-tmp"));
	end_dir();
}
END_TEST

/* A request that nobody waited for ends before what it works on goes. */
START_TEST(a_save_is_freed_with_its_request)
{
	struct shardfuse_save_request *req;
	struct shardfuse_save *s;
	struct shardfuse_error err;
	char path[256];

	begin_dir();
	ck_assert_int_eq(shardfuse_save_begin(target(path, 0), NULL, NULL, &s, &err), 0);
	ck_assert_int_eq(shardfuse_save_add_json(s, "step", "1", &err), 0);
	ck_assert_int_eq(shardfuse_save_commit_async(s, &req, &err), 0);
	shardfuse_save_free(s);
	ck_assert(is_there(path, "/.metadata") && !is_there(path, "-tmp"));
	end_dir();
}
END_TEST

/* Called off by one: none or all have it, and all say the same. */
START_TEST(one_that_cancels_fails_all_or_none)
{
	struct one o[RANKS] = { 0 };
	char path[256];

	begin_dir();
	for (unsigned i = 0; i < RANKS; i++)
		o[i].async = true;
	o[1].cancel = true;
	run_all(o);
	for (unsigned i = 1; i < RANKS; i++)
		ck_assert_int_eq(o[i].r, o[0].r);
	if (o[0].r == 0)
		check_step(0);
	else
		ck_assert(!is_there(target(path, 0), "") && !is_there(path, "-tmp"));
	end_dir();
}
END_TEST

/* What is there stays, all ranks say so; replaced when asked. */
START_TEST(what_is_there_is_refused_or_replaced)
{
	struct one o[RANKS] = { 0 }, again[RANKS] = { 0 };

	begin_dir();
	run_all(o);
	check_ok(o);
	run_all(again);
	for (unsigned i = 0; i < RANKS; i++) {
		ck_assert_int_eq(again[i].r, -EEXIST);
		ck_assert_str_eq(again[i].err.msg, again[0].err.msg);
	}
	for (unsigned i = 0; i < RANKS; i++)
		again[i] = (struct one){ .opt.overwrite = SHARDFUSE_REPLACE };
	check_step(0);
	run_all(again);
	check_ok(again);
	end_dir();
}
END_TEST

/* Another through the same keep is refused while one is under way. */
START_TEST(a_keep_has_one_save_at_a_time)
{
	struct shardfuse_save_options opt = SHARDFUSE_INIT(opt);
	struct shardfuse_comm comm[1];
	struct shardfuse_save_request *req[2];
	struct shardfuse_save *s[1], *other;
	struct shardfuse_error err;
	char path[256];

	begin_dir();
	ck_assert_int_eq(shardfuse_comm_threads(1, comm, &err), 0);
	ck_assert_int_eq(shardfuse_save_keep_new(&opt.keep, &err), 0);
	opt.refuse_busy = 1;
	ck_assert_int_eq(shardfuse_save_begin(target(path, 0), &opt, &comm[0], &s[0], &err), 0);
	ck_assert_int_eq(shardfuse_save_add_json(s[0], "a", "1", &err), 0);
	ck_assert_int_eq(shardfuse_save_commit_async(s[0], &req[0], &err), 0);
	ck_assert_int_eq(shardfuse_save_begin(target(path, 1), &opt, &comm[0], &other, &err), 0);
	ck_assert_int_eq(shardfuse_save_add_json(other, "a", "2", &err), 0);
	int r = shardfuse_save_commit_async(other, &req[1], &err);
	ck_assert(r == 0 || r == -EBUSY); /* the first may have ended */
	if (r == 0)
		ck_assert_int_eq(shardfuse_save_wait(req[1], &err), 0);
	ck_assert_int_eq(shardfuse_save_wait(req[0], &err), 0);
	shardfuse_save_free(s[0]);
	shardfuse_save_free(other);
	shardfuse_save_keep_free(opt.keep);
	shardfuse_comm_free(&comm[0]);
	end_dir();
}
END_TEST

START_TEST(what_cannot_be_saved_is_said_at_once)
{
	struct shardfuse_save_options opt = SHARDFUSE_INIT(opt);
	struct shardfuse_error err;
	struct shardfuse_save *s;
	const char *variables[] = { "run_name", "a" };

	opt.format = "zip";
	ck_assert_int_eq(shardfuse_save_begin("/tmp/x", &opt, NULL, &s, &err), -EINVAL);
	ck_assert_str_eq(err.msg, "format 'zip': there are dcp, megatron, olmo");
	opt.format = NULL;
	ck_assert_int_eq(shardfuse_save_begin("", &opt, NULL, &s, &err), -EINVAL);
	ck_assert_int_eq(shardfuse_save_begin("s3://secret@b/x", NULL, NULL, &s, &err), -EINVAL);
	ck_assert_ptr_null(strstr(err.msg, "secret"));
	opt.variable = variables;
	opt.nvariable = 1;
	ck_assert_int_eq(shardfuse_save_begin("/tmp/{run}/x", &opt, NULL, &s, &err), -EINVAL);
	ck_assert_str_eq(
		err.msg,
		"target: unknown variable {run}; known are {rank}, {world_size}, {run_name}");
	begin_dir();
	char path[256];
	snprintf(path, sizeof(path), "%s/{run_name}-{world_size}", dir);
	ck_assert_int_eq(shardfuse_save_begin(path, &opt, NULL, &s, &err), 0);
	ck_assert_int_eq(shardfuse_save_commit(s, &err), -EINVAL); /* empty */
	ck_assert_int_eq(shardfuse_save_commit(s, &err), -EINVAL); /* once is enough */
	shardfuse_save_free(s);
	ck_assert_int_eq(shardfuse_save_begin(path, &opt, NULL, &s, &err), 0);
	ck_assert_int_eq(shardfuse_save_add_json(s, "a", "[1, 2.5, null]", &err), 0);
	ck_assert_int_eq(shardfuse_save_commit(s, &err), 0);
	shardfuse_save_free(s);
	ck_assert(is_there(dir, "/a-1/.metadata"));
	end_dir();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("save");
	TCase *t = tcase_create("save");

	tcase_add_test(t, all_ranks_save_one_checkpoint);
	tcase_add_loop_test(t, in_the_background, 0, 8);
	tcase_add_test(t, one_that_aborts_fails_all);
	tcase_add_test(t, a_failed_add_fails_the_commit);
	tcase_add_test(t, a_save_is_freed_with_its_request);
	tcase_add_test(t, one_that_cancels_fails_all_or_none);
	tcase_add_test(t, what_is_there_is_refused_or_replaced);
	tcase_add_test(t, a_keep_has_one_save_at_a_time);
	tcase_add_test(t, what_cannot_be_saved_is_said_at_once);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
