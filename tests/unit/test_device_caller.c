/* Tensors in memory that only the caller can copy from. */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "shardfuse_save.h"
#include "tests/lib/sf_test.h"

#define SECRET 0x5a /* what lies in the memory is not what the tensor has */
#define ROWS 700
#define COLS 1500

static uint8_t *hidden(const float *v, size_t n)
{
	uint8_t *at = malloc(n * sizeof(*v));

	memcpy(at, v, n * sizeof(*v));
	for (size_t i = 0; i < n * sizeof(*v); i++)
		at[i] ^= SECRET;
	return at;
}

/* A kind of memory, and what became of its copies and buffers. */
struct kind {
	bool late;           /* copies are made by sync */
	unsigned fail_stage; /* the n-th call fails */
	unsigned fail_sync;
	_Atomic unsigned stages, syncs, open, buffers;
	void *stream;
};

struct later {
	uint8_t *to;
	const uint8_t *from;
	uint64_t run, step, n;
};

static void copy_rows(const struct later *l)
{
	for (uint64_t i = 0; i < l->n; i++)
		for (uint64_t k = 0; k < l->run; k++)
			l->to[i * l->run + k] = l->from[i * l->step + k] ^ SECRET;
}

static int stage(void *arg, void *to, const void *from, uint64_t run, uint64_t step, uint64_t n,
                 void *stream, void **copy, struct shardfuse_error *err)
{
	struct kind *k = arg;
	struct later *l = malloc(sizeof(*l));

	ck_assert_ptr_eq(stream, k->stream);
	*l = (struct later){ to, from, run, step, n };
	if (atomic_fetch_add(&k->stages, 1) + 1 == k->fail_stage) {
		snprintf(err->msg, sizeof(err->msg), "the device is gone");
		free(l);
		return -EIO;
	}
	if (!k->late) {
		copy_rows(l);
		free(l);
		return 0;
	}
	atomic_fetch_add(&k->open, 1);
	*copy = l;
	return 0;
}

static int sync_copy(void *arg, void *copy, struct shardfuse_error *err)
{
	struct kind *k = arg;
	bool fails = atomic_fetch_add(&k->syncs, 1) + 1 == k->fail_sync;

	(void)err;
	if (!fails)
		copy_rows(copy);
	free(copy);
	atomic_fetch_sub(&k->open, 1);
	return fails ? -ENODEV : 0;
}

static void *make_buffer(void *arg, size_t len)
{
	void *at = NULL;

	atomic_fetch_add(&((struct kind *)arg)->buffers, 1);
	return posix_memalign(&at, 4096, len) == 0 ? at : NULL;
}

static void give_buffer(void *arg, void *at, size_t len)
{
	(void)len;
	atomic_fetch_sub(&((struct kind *)arg)->buffers, 1);
	free(at);
}

static struct shardfuse_staging hooks_of(struct kind *k, bool buffers)
{
	struct shardfuse_staging h = SHARDFUSE_INIT(h);

	h.arg = k;
	h.stage = stage;
	h.sync = k->late ? sync_copy : NULL;
	h.alloc = buffers ? make_buffer : NULL;
	h.release = buffers ? give_buffer : NULL;
	return h;
}

static char dir[64];

static void begin_dir(void)
{
	snprintf(dir, sizeof(dir), "/tmp/sf-caller-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void end_dir(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	ck_assert_int_eq(system(cmd), 0);
}

static float value(uint64_t i)
{
	return (float)(i % 100003) * 0.5f;
}

/* One dense, one transposed, one in the host's memory. */
static int save(struct kind *k, const struct shardfuse_staging *h, struct shardfuse_save_keep *keep,
                bool background, struct shardfuse_error *err)
{
	const uint64_t shape[2] = { ROWS, COLS }, turned[2] = { COLS, ROWS },
		       stride[2] = { 1, COLS };
	struct shardfuse_save_options opt = SHARDFUSE_INIT(opt);
	struct shardfuse_save_tensor t = SHARDFUSE_INIT(t);
	struct shardfuse_save_request *req;
	struct shardfuse_save *s;
	float *v = malloc(sizeof(*v) * ROWS * COLS);
	uint8_t *at;
	int r;

	for (uint64_t i = 0; i < (uint64_t)ROWS * COLS; i++)
		v[i] = value(i);
	at = hidden(v, (size_t)ROWS * COLS);
	opt.keep = keep;
	opt.overwrite = SHARDFUSE_REPLACE;
	opt.staging = 1 << 20; /* less than a tensor has */
	char path[128];
	snprintf(path, sizeof(path), "%s/c", dir);
	ck_assert_int_eq(shardfuse_save_begin(path, &opt, NULL, &s, err), 0);
	t.key = "dense";
	t.dtype = "float32";
	t.ndim = 2;
	t.shape = shape;
	t.at = at;
	t.device = SHARDFUSE_CALLER;
	t.stream = k->stream;
	t.staging = h;
	ck_assert_int_eq(shardfuse_save_add_tensor(s, &t, err), 0);
	t.key = "turned";
	t.shape = turned;
	t.stride = stride;
	ck_assert_int_eq(shardfuse_save_add_tensor(s, &t, err), 0);
	t = (struct shardfuse_save_tensor)SHARDFUSE_INIT(t);
	t.key = "host";
	t.dtype = "float32";
	t.ndim = 2;
	t.shape = shape;
	t.at = v;
	ck_assert_int_eq(shardfuse_save_add_tensor(s, &t, err), 0);
	if (background) {
		r = shardfuse_save_commit_async(s, &req, err);
		if (r >= 0)
			r = shardfuse_save_wait(req, err);
	} else {
		r = shardfuse_save_commit(s, err);
	}
	shardfuse_save_free(s);
	free(at);
	free(v);
	return r;
}

static void check_tensor(struct shardfuse *h, const char *key, bool turned)
{
	struct shardfuse_error err;
	int64_t i = shardfuse_tensor_find(h, key, strlen(key), &err);
	float *v = malloc(sizeof(*v) * ROWS * COLS);

	ck_assert_int_ge(i, 0);
	ck_assert_msg(shardfuse_tensor_read(h, (uint64_t)i, 0, v, sizeof(*v) * ROWS * COLS, &err) >= 0, "%s",
	              err.msg);
	for (uint64_t r = 0; r < ROWS; r++)
		for (uint64_t c = 0; c < COLS; c++)
			ck_assert(v[turned ? c * ROWS + r : r * COLS + c] == value(r * COLS + c));
	free(v);
}

static void check_saved(void)
{
	struct shardfuse_error err;
	struct shardfuse *h;
	char path[128];

	snprintf(path, sizeof(path), "%s/c", dir);
	ck_assert_msg(shardfuse_open(NULL, path, NULL, &h, &err) == 0, "%s", err.msg);
	check_tensor(h, "dense", false);
	check_tensor(h, "turned", true);
	check_tensor(h, "host", false);
	shardfuse_close(h);
}

/* _i & 1: copies are late; & 2: buffers are the caller's; & 4: in the background. Twice through one keep. */
START_TEST(bytes_come_by_the_hooks)
{
	struct kind k = { .late = _i & 1, .stream = &k };
	struct shardfuse_staging h = hooks_of(&k, _i & 2);
	struct shardfuse_save_keep *keep;
	struct shardfuse_error err;

	begin_dir();
	ck_assert_int_eq(shardfuse_save_keep_new(&keep, &err), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_msg(save(&k, &h, keep, _i & 4, &err) == 0, "%s", err.msg);
		check_saved();
		ck_assert_uint_eq(k.open, 0);
		ck_assert_uint_eq(k.buffers, 0); /* they go with their save, the keep stays */
	}
	ck_assert_uint_gt(k.stages, 2);
	ck_assert_uint_eq(k.syncs, k.late ? k.stages : 0);
	shardfuse_save_keep_free(keep);
	end_dir();
}
END_TEST

/* _i: which call fails: stage or sync, the first or a later one. */
START_TEST(a_hook_that_fails_fails_the_save)
{
	struct kind k = { .late = true,
		          .fail_stage = _i < 2 ? 1 + 2 * (unsigned)_i : 0,
		          .fail_sync = _i < 2 ? 0 : 1 + 2 * ((unsigned)_i - 2) };
	struct shardfuse_staging h = hooks_of(&k, true);
	struct shardfuse_error err;
	char path[128];

	begin_dir();
	snprintf(path, sizeof(path), "%s/c", dir);
	ck_assert_int_eq(save(&k, &h, NULL, false, &err), _i < 2 ? -EIO : -ENODEV);
	ck_assert_ptr_nonnull(strstr(err.msg, _i < 2 ? "stage: the device is gone" : "sync"));
	ck_assert(_i >= 2 || strstr(err.msg, "dense"));
	ck_assert_uint_eq(k.open, 0);
	ck_assert_uint_eq(k.buffers, 0);
	ck_assert_int_ne(access(path, F_OK), 0);
	end_dir();
}
END_TEST

START_TEST(hooks_that_make_no_sense_are_refused)
{
	const uint64_t shape = 1;
	struct kind k = { .late = false };
	struct shardfuse_staging good = hooks_of(&k, false), bad[9];
	struct shardfuse_save_tensor t = SHARDFUSE_INIT(t);
	struct shardfuse_error err;
	struct shardfuse_save *s;
	const float v = 1;
	char name[16];

	t.key = "t";
	t.dtype = "float32";
	t.ndim = 1;
	t.shape = &shape;
	t.at = &v;
	for (int i = 0; i < 9; i++)
		bad[i] = good;
	bad[0].stage = NULL;
	bad[1].alloc = make_buffer;
	bad[2].release = give_buffer;
	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(shardfuse_save_begin("/tmp/never", NULL, NULL, &s, &err), 0);
		t.device = i == 3 ? SHARDFUSE_HOST : SHARDFUSE_CALLER;
		t.staging = i < 3 ? &bad[i] : i == 3 ? &good : NULL;
		ck_assert_int_eq(shardfuse_save_add_tensor(s, &t, &err), -EINVAL);
		ck_assert_ptr_nonnull(strstr(err.msg, "staging hooks"));
		shardfuse_save_free(s);
	}
	ck_assert_int_eq(shardfuse_save_begin("/tmp/never", NULL, NULL, &s, &err), 0);
	t.device = SHARDFUSE_CALLER;
	for (int i = 0; i < 9; i++) {
		bad[i] = good;
		t.staging = &bad[i];
		t.key = name;
		snprintf(name, sizeof(name), "t%d", i);
		ck_assert_int_eq(shardfuse_save_add_tensor(s, &t, &err), i < 8 ? 0 : -E2BIG);
	}
	shardfuse_save_free(s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("device_caller");
	TCase *t = tcase_create("device_caller");

	tcase_add_loop_test(t, bytes_come_by_the_hooks, 0, 8);
	tcase_add_loop_test(t, a_hook_that_fails_fails_the_save, 0, 4);
	tcase_add_test(t, hooks_that_make_no_sense_are_refused);
	tcase_set_timeout(t, 120);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
