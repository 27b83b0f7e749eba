#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#include "ckpt/place.h"
#include "tests/lib/test_stores.h"
#include "base/mem.h"
#include "parse/zstd.h"
#include "read/reader.h"
#include "tests/lib/sf_fake_ckpt.h"

/* The n-th allocation from now fails, once; -1 none. Linked with -Wl,--wrap=malloc and its kin. */
static atomic_long countdown = -1;
static atomic_long failed;

static bool fails(void)
{
	if (atomic_load(&countdown) < 0 || atomic_fetch_sub(&countdown, 1) != 0)
		return false;
	atomic_fetch_add(&failed, 1);
	return true;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
int __real_posix_memalign(void **p, size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}
int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
	return fails() ? ENOMEM : __real_posix_memalign(p, align, n);
}

static struct sf_io io;
static struct fake f;
static struct sf_fault plan;
static struct sf_store *store;
static struct sf_reader *reader;

static void begin(void)
{
	struct sf_store *inner;

	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	fake_random(&f, 77);
	fake_objects(&f);
	plan = (struct sf_fault){ .fail_at = -1 };
	ck_assert_int_eq(sf_store_mem(&io, f.object, FAKE_FILES, &inner, NULL), 0);
	ck_assert_int_eq(sf_store_fault(inner, &plan, &store, NULL), 0);
	fake_finish(&f, store);
	ck_assert_int_eq(sf_reader_new(f.ckpt, store, &reader, NULL), 0);
}

static void end(void)
{
	sf_reader_free(reader);
	sf_store_free(store);
	sf_io_release(&io);
	fake_release(&f);
}

/* All tensors one after another, then all objects, as one virtual file. */
static int emit_all(void *arg, uint64_t off, uint64_t len, struct sf_parts *p, struct sf_error *err)
{
	int r = 0;

	for (uint32_t i = 0; i < f.ntensors && r >= 0; i++)
		r = sf_parts_tensor(p, i, 0, f.t[i].bytes, SF_DTYPE_NONE);
	for (uint32_t i = 0; i < FAKE_OBJECTS && r >= 0; i++)
		r = sf_parts_object(p, i, 0, f.o[i].len);
	return r;
}

static uint64_t all_bytes(void)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < f.ntensors; i++)
		n += f.t[i].bytes;
	for (uint32_t i = 0; i < FAKE_OBJECTS; i++)
		n += f.o[i].len;
	return n;
}

static void check_all(const uint8_t *got)
{
	for (uint32_t i = 0; i < f.ntensors; got += f.t[i++].bytes)
		ck_assert_mem_eq(got, f.t[i].dense, f.t[i].bytes);
	for (uint32_t i = 0; i < FAKE_OBJECTS; got += f.o[i++].len)
		ck_assert_mem_eq(got, f.o[i].at, f.o[i].len);
}

/* Property: whichever request fails, the read fails with its code and a message, and the next read
 * is whole. */
START_TEST(whichever_request_fails_the_read_says_so)
{
	uint64_t bytes;
	uint8_t *got;
	int64_t n;
	int r = -1;

	begin();
	bytes = all_bytes();
	got = malloc(bytes);
	for (n = 0; r != 0; n++) {
		struct sf_read rd = { .emit = emit_all, .len = bytes, .buf = _i & 1 ? got : NULL };
		plan.delay_ms = _i & 2 ? 1 : 0;
		plan.short_read = n & 1;
		plan.code = n % 3 ? -EIO : -ESTALE;
		plan.seen = 0;
		plan.fail_at = n;
		r = sf_read_wait(reader, &rd);
		if (r < 0) {
			ck_assert_int_eq(r, plan.code);
			ck_assert_msg(strstr(rd.err.msg, "injected") != NULL, "%s", rd.err.msg);
			ck_assert_int_eq(rd.niov, 0);
		}
		sf_read_release(&rd);
		ck_assert_int_lt(n, 10000);
		if (n % 16 == 0) { /* forget layouts, files and decoded items */
			sf_reader_free(reader);
			ck_assert_int_eq(sf_reader_new(f.ckpt, store, &reader, NULL), 0);
		}
	}
	ck_assert_int_ge(n, 30);
	struct sf_read rd = { .emit = emit_all, .len = bytes, .buf = got };
	plan.fail_at = -1;
	ck_assert_int_eq(sf_read_wait(reader, &rd), 0);
	check_all(got);
	sf_read_release(&rd);
	free(got);
	end();
}
END_TEST

/* Property: whichever allocation fails, there is -ENOMEM with a message or all the bytes, and no
 * leak (sanitizers). */
START_TEST(whichever_allocation_fails_nothing_is_lost)
{
	uint64_t bytes;
	uint8_t *got;
	long n, hits = 0, whole = 0;

	begin();
	bytes = all_bytes();
	got = malloc(bytes);
	for (n = 0; whole < 3 && n < 20000; n += 1 + n / 60) {
		struct sf_reader *r = NULL;
		struct sf_error err = SF_ERROR_INIT;
		struct sf_read rd = { .emit = emit_all, .len = bytes, .buf = _i & 1 ? got : NULL };
		int e;
		plan.delay_ms = _i & 2 ? 1 : 0;
		atomic_store(&failed, 0);
		atomic_store(&countdown, n);
		e = sf_reader_new(f.ckpt, store, &r, &err);
		if (e >= 0) {
			e = sf_read_wait(r, &rd);
			err = rd.err;
		}
		atomic_store(&countdown, -1);
		hits += atomic_load(&failed);
		if (e < 0) {
			ck_assert_msg(e == -ENOMEM, "allocation %ld: %d %s", n, e, err.msg);
			ck_assert_msg(err.msg[0] != 0, "allocation %ld", n);
		} else if (_i & 1) {
			check_all(got);
		}
		whole += e >= 0 && !atomic_load(&failed);
		if (r)
			sf_read_release(&rd);
		sf_reader_free(r);
	}
	ck_assert_int_ge(hits, 50);
	ck_assert_int_eq(whole, 3);
	free(got);
	end();
}
END_TEST

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int emit_one(void *arg, uint64_t off, uint64_t len, struct sf_parts *p, struct sf_error *err)
{
	return sf_parts_tensor(p, *(uint32_t *)arg, off, len, SF_DTYPE_NONE);
}

struct parked {
	struct sf_read rd;
	uint32_t tensor;
	atomic_int done;
	int r;
	pthread_mutex_t *lock;
};
static void parked_done(struct sf_read *rd, int r)
{
	struct parked *p = (struct parked *)rd;

	if (p->lock) { /* a caller's lock: whoever cancels may hold it */
		pthread_mutex_lock(p->lock);
		pthread_mutex_unlock(p->lock);
	}
	p->r = r;
	atomic_store(&p->done, 1);
}
static void park(struct parked *p, uint32_t tensor, void *buf)
{
	*p = (struct parked){ .tensor = tensor };
	p->rd = (struct sf_read){ .emit = emit_one,
		                  .arg = &p->tensor,
		                  .len = f.t[tensor].bytes,
		                  .buf = buf,
		                  .done = parked_done };
	ck_assert_int_eq(sf_read_start(reader, &p->rd), -EAGAIN);
	sf_read_park(reader, &p->rd);
}

START_TEST(a_stuck_source_ends_reads_at_their_deadline_and_the_rest_goes_on)
{
	struct parked p[20];
	uint8_t *got[20];
	uint64_t t0;
	uint32_t stuck = SF_NONE;

	begin();
	io.timeout_ms = 300;
	for (uint32_t i = 0; i < f.ntensors; i++) {
		uint8_t *all = malloc(f.t[i].bytes + 1);
		if (f.t[i].form == FAKE_TORCH && f.t[i].bytes > 100)
			stuck = i;
		/* what is known: layouts and files of all tensors */
		ck_assert_int_eq(sf_read_tensor(reader, i, 0, all, f.t[i].bytes, NULL), 0);
		free(all);
	}
	ck_assert_uint_ne(stuck, SF_NONE);
	plan.delay_ms = 100000;
	t0 = now_ms();
	for (int i = 0; i < 20; i++) {
		got[i] = malloc(f.t[stuck].bytes);
		memset(got[i], 0x11, f.t[stuck].bytes);
		park(&p[i], stuck, i % 2 ? got[i] : NULL);
	}
	/* decoded items answer at once meanwhile */
	for (uint32_t i = 0; i < f.ntensors; i++) {
		struct sf_read rd = { .emit = emit_one, .arg = &i, .len = f.t[i].bytes };
		if (f.t[i].form == FAKE_ZSTD) {
			ck_assert_int_eq(sf_read_start(reader, &rd), 0);
			sf_read_release(&rd);
		}
	}
	for (int i = 0; i < 20; i++) {
		while (!atomic_load(&p[i].done))
			usleep(500);
		ck_assert_int_eq(p[i].r, -ETIMEDOUT);
		ck_assert_ptr_nonnull(strstr(p[i].rd.err.msg, "300 ms"));
		/* who did not answer, and where */
		ck_assert_msg(strstr(p[i].rd.err.msg, "': no answer to "), "%s", p[i].rd.err.msg);
		ck_assert_uint_ne(p[i].rd.file, SF_NONE);
		ck_assert_uint_ge(now_ms() - t0, 299);
		sf_read_release(&p[i].rd);
		ck_assert_int_eq(got[i][0],
		                 0x11); /* nobody writes into a buffer that was given back */
		free(got[i]);
	}
	end(); /* and it ends, though the source never answered */
}
END_TEST

START_TEST(a_cancelled_read_ends_soon_and_not_in_the_canceller)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct parked p[10];

	begin();
	plan.delay_ms = 100000;
	for (uint32_t i = 0; i < 10; i++) {
		while (f.t[i].bytes == 0)
			i++;
		park(&p[i], i, NULL);
		p[i].lock = &lock;
	}
	for (uint32_t i = 0; i < 10; i++) /* nor did submitting wait for them */
		ck_assert_int_eq(atomic_load(&p[i].done), 0);
	pthread_mutex_lock(&lock);
	for (int i = 9; i >= 0; i--) {
		sf_read_cancel(reader, &p[i].rd);
		sf_read_cancel(reader, &p[i].rd);
	}
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < 10; i++) {
		while (!atomic_load(&p[i].done))
			usleep(500);
		ck_assert_int_eq(p[i].r, -ECANCELED);
		sf_read_cancel(reader, &p[i].rd); /* too late: nothing */
		sf_read_release(&p[i].rd);
		sf_read_cancel(reader, &p[i].rd);
	}
	end();
}
END_TEST

/* Property: reads cancelled at any moment while answers come in end once, with the bytes or
 * -ECANCELED. */
START_TEST(cancelling_at_any_moment_is_safe)
{
	uint64_t seed = sf_test_seed("cancelling_at_any_moment");
	unsigned cancelled = 0, answered = 0;

	begin();
	plan.delay_ms = 2;
	for (int round = 0; round < 60; round++) {
		struct parked p[8];
		unsigned wait = (unsigned)sf_test_below(&seed, 9000);
		for (int i = 0; i < 8; i++) {
			uint32_t t = (uint32_t)sf_test_below(&seed, f.ntensors);
			while (!f.t[t].bytes || f.t[t].form == FAKE_ZSTD)
				t = (t + 1) % f.ntensors;
			park(&p[i], t, NULL);
		}
		usleep(wait);
		for (int i = 0; i < 8; i++)
			sf_read_cancel(reader, &p[i].rd);
		for (int i = 0; i < 8; i++) {
			while (!atomic_load(&p[i].done))
				usleep(100);
			ck_assert(p[i].r == 0 || p[i].r == -ECANCELED);
			uint64_t at = 0;
			for (int k = 0; k < p[i].rd.niov; at += p[i].rd.iov[k++].iov_len)
				ck_assert_mem_eq(p[i].rd.iov[k].iov_base,
				                 f.t[p[i].tensor].dense + at,
				                 p[i].rd.iov[k].iov_len);
			ck_assert_uint_eq(at, p[i].r ? 0 : p[i].rd.len);
			*(p[i].r ? &cancelled : &answered) += 1;
			sf_read_release(&p[i].rd);
		}
	}
	ck_assert_uint_gt(cancelled, 0);
	ck_assert_uint_gt(answered, 0);
	end();
}
END_TEST

/* Files on disk that change under the reader. */
START_TEST(a_changed_file_is_stale_and_never_mixed)
{
	char dir[256], path[300];
	struct sf_error err = SF_ERROR_INIT;
	uint64_t shape[1] = { 30000 };
	struct sf_read rd;
	uint32_t t = 0;
	uint8_t b[16];

	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	fake_begin(&f, 5);
	f.ntensors = 1;
	fake_tensor(&f, 0, FAKE_RAW, shape, 1, SF_FLOAT32);
	fake_write(&f, dir);
	ck_assert_int_eq(sf_store_open(&io, dir, NULL, &store, NULL), 0);
	fake_finish(&f, store);
	snprintf(path, sizeof(path), "%s/%s", dir,
	         sf_place_file(f.ckpt, f.ckpt->tensor[0].place[0])->name);
	if (_i == 1) /* before it was ever opened */
		ck_assert_int_eq(truncate(path, 10), 0);
	if (_i == 2)
		ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(sf_reader_new(f.ckpt, store, &reader, NULL), 0);
	if (_i == 0) {
		ck_assert_int_eq(sf_read_tensor(reader, 0, 0, b, 16, &err), 0);
		ck_assert_mem_eq(b, f.t[0].dense, 16);
		FILE *to = fopen(path, "r+"); /* as many other bytes, later */
		fseek(to, 0, SEEK_SET);
		usleep(20000);
		fputs("other bytes", to);
		fclose(to);
	}
	for (int again = 0; again < 3; again++) {
		ck_assert_int_eq(sf_read_tensor(reader, 0, 0, b, 16, &err), -ESTALE);
		ck_assert_ptr_nonnull(strstr(err.msg, ".distcp"));
		rd = (struct sf_read){ .emit = emit_one, .arg = &t, .len = 16 };
		ck_assert_int_eq(sf_read_wait(reader, &rd), -ESTALE);
		sf_read_release(&rd);
	}
	sf_reader_free(reader);
	sf_store_free(store);
	sf_io_release(&io);
	fake_remove(&f, dir);
	fake_release(&f);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("reader_faults");
	TCase *t = tcase_create("reader_faults");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, whichever_request_fails_the_read_says_so, 0, 4);
	tcase_add_loop_test(t, whichever_allocation_fails_nothing_is_lost, 0, 4);
	tcase_add_test(t, a_stuck_source_ends_reads_at_their_deadline_and_the_rest_goes_on);
	tcase_add_test(t, a_cancelled_read_ends_soon_and_not_in_the_canceller);
	tcase_add_test(t, cancelling_at_any_moment_is_safe);
	tcase_add_loop_test(t, a_changed_file_is_stale_and_never_mixed, 0, 3);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	struct sf_unzstd *z;

	if (sf_unzstd_new(&z, NULL) < 0)
		return sf_test_skip("built without zstd");
	sf_unzstd_free(z);
	return sf_test_main(suite());
}
