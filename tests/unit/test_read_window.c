#include "config.h"

#include <string.h>

#include "read/read_window.h"
#include "tests/lib/reader_world.h"
#include "tests/lib/store_far.h"

#define SLICE 4096u
#define SLICES 25 /* the last is shorter */
#define BYTES ((SLICES - 1) * SLICE + 100)

/* A tensor of BYTES in a store of which all or some reads wait. */
struct world {
	struct fake f;
	struct sf_io io;
	struct sf_store *store;
	struct sf_reader *r;
	struct sf_fault plan;
	struct sf_far far; /* if something hangs */
};

static void open_world(struct world *w)
{
	struct sf_store *inner;

	ck_assert_int_eq(sf_io_init(&w->io, 4, NULL), 0);
	one_item(&w->f, SF_UINT8, 1, BYTES, false, true, 0, 0);
	fake_objects(&w->f);
	if (w->far.hangs) {
		ck_assert_int_eq(
			sf_store_far(&w->io, w->f.object, FAKE_FILES, &w->far, &w->store, NULL), 0);
	} else {
		ck_assert_int_eq(sf_store_mem(&w->io, w->f.object, FAKE_FILES, &inner, NULL), 0);
		ck_assert_int_eq(sf_store_fault(inner, &w->plan, &w->store, NULL), 0);
	}
	fake_finish(&w->f, w->store);
	ck_assert_int_eq(sf_reader_new(w->f.ckpt, w->store, &w->r, NULL), 0);
}

static void close_world(struct world *w)
{
	sf_reader_free(w->r);
	sf_store_free(w->store);
	sf_io_release(&w->io);
	fake_release(&w->f);
}

static int emit_w(void *arg, uint64_t off, uint64_t len, struct sf_parts *p, struct sf_error *err)
{
	_Atomic unsigned *emitted = arg;

	(void)err;
	atomic_fetch_add(emitted, 1);
	return sf_parts_tensor(p, 0, off, len, SF_DTYPE_NONE);
}

struct taken {
	uint8_t at[BYTES];
	uint64_t n;
	unsigned slices, fails_at;
};

static int take(void *arg, const struct sf_read *rd, struct sf_error *err)
{
	struct taken *t = arg;

	ck_assert_uint_eq(rd->off, t->n); /* in order */
	if (t->slices++ == t->fails_at)
		return sf_fail(err, -EPIPE, "nobody wants more");
	for (int i = 0; i < rd->niov; t->n += rd->iov[i++].iov_len)
		memcpy(t->at + t->n, rd->iov[i].iov_base, rd->iov[i].iov_len);
	return 0;
}

/* _i: every read waits, some do, none does. */
static struct sf_fault waits(int i)
{
	return (struct sf_fault){ .fail_at = -1,
		                  .delay_ms = i == 0 ? 1 : 0,
		                  .busy_every = i == 1 ? 3 : 0 };
}

START_TEST(slices_come_in_order_and_are_the_whole)
{
	static struct taken t;
	static uint8_t buf[BYTES];
	struct world w = { .plan = waits(_i) };
	_Atomic unsigned emitted = 0;
	struct sf_read all = { .emit = emit_w, .arg = (void *)&emitted, .len = BYTES };
	struct sf_error err = SF_ERROR_INIT;

	t = (struct taken){ .fails_at = UINT32_MAX }; /* without forks it is another test's */
	open_world(&w);
	ck_assert_msg(sf_read_slices(w.r, &all, SLICE, take, &t, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(t.slices, SLICES);
	ck_assert_uint_eq(t.n, BYTES);
	ck_assert_mem_eq(t.at, w.f.t[0].dense, BYTES);
	/* to a place, from the middle on */
	all.off = 1000;
	all.len = BYTES - 1000;
	all.buf = buf;
	ck_assert_msg(sf_read_slices(w.r, &all, SLICE, NULL, NULL, &err) == 0, "%s", err.msg);
	ck_assert_mem_eq(buf, w.f.t[0].dense + 1000, all.len);
	all.len = 0;
	ck_assert_int_eq(sf_read_slices(w.r, &all, SLICE, take, &t, &err), 0);
	ck_assert_uint_eq(t.slices, SLICES);
	close_world(&w);
}
END_TEST

/* Who takes them, or a read, fails: no slice is taken behind it, and few more are begun. */
START_TEST(after_a_failure_nothing_is_begun)
{
	static struct taken t;
	struct world w = { .plan = waits(_i) };
	_Atomic unsigned emitted = 0;
	const struct sf_read all = { .emit = emit_w, .arg = (void *)&emitted, .len = BYTES };
	struct sf_error err = SF_ERROR_INIT;

	t = (struct taken){ .fails_at = 5 };
	open_world(&w);
	ck_assert_int_eq(sf_read_slices(w.r, &all, SLICE, take, &t, &err), -EPIPE);
	ck_assert_str_eq(err.msg, "nobody wants more");
	ck_assert_uint_eq(t.slices, 6);
	ck_assert_uint_eq(t.n, 5 * SLICE);
	ck_assert_uint_le(atomic_load(&emitted), 6 + 3);
	close_world(&w);

	t = (struct taken){ .fails_at = UINT32_MAX };
	w = (struct world){ .plan = waits(_i) };
	w.plan.fail_at = 3;
	w.plan.code = -EIO;
	atomic_store(&emitted, 0);
	err.msg[0] = 0;
	open_world(&w);
	ck_assert_int_eq(sf_read_slices(w.r, &all, SLICE, take, &t, &err), -EIO);
	ck_assert_str_ne(err.msg, "");
	ck_assert_uint_lt(t.slices, SLICES - 8);
	ck_assert_mem_eq(t.at, w.f.t[0].dense, t.n);
	close_world(&w);
}
END_TEST

static bool always(const struct sf_io_req *req)
{
	(void)req;
	return true;
}

START_TEST(a_window_has_as_many_reads_as_it_says_and_a_cancel_ends_them)
{
	static struct sf_read_window win;
	static struct world w = { .far = { .hangs = always } };
	_Atomic unsigned emitted = 0;
	struct sf_window_read *rd[3];

	open_world(&w);
	sf_read_window_init(&win, w.r, 3);
	for (int i = 0; i < 3; i++) {
		rd[i] = sf_read_window_take(&win);
		ck_assert_ptr_nonnull(rd[i]);
		rd[i]->rd = (struct sf_read){ .emit = emit_w, .arg = (void *)&emitted, .len = 10 };
	}
	ck_assert_ptr_null(sf_read_window_take(&win));
	sf_read_window_start(rd[0]);
	sf_read_window_start(rd[1]);
	pthread_mutex_lock(&win.m);
	sf_read_window_cancel_locked(&win);
	pthread_mutex_unlock(&win.m);
	sf_read_window_start(rd[2]); /* begun too late */
	for (int i = 0; i < 3; i++) {
		sf_read_window_wait(rd[i]);
		ck_assert_int_eq(rd[i]->r, -ECANCELED);
		sf_read_window_give(rd[i]);
		ck_assert_uint_eq(win.under_way, 2u - (unsigned)i);
	}
	ck_assert_ptr_eq(sf_read_window_take(&win), rd[0]);
	sf_read_window_give(rd[0]);
	sf_read_window_release(&win);
	atomic_store(&w.far.let_go, true);
	close_world(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("read_window");
	TCase *tc = tcase_create("read_window");

	tcase_set_timeout(tc, 30);
	tcase_add_loop_test(tc, slices_come_in_order_and_are_the_whole, 0, 3);
	tcase_add_loop_test(tc, after_a_failure_nothing_is_begun, 0, 3);
	tcase_add_test(tc, a_window_has_as_many_reads_as_it_says_and_a_cancel_ends_them);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
