#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "view_world.h"

/* A file whose byte i is i * 7 + i / 256, in records of random lengths, empty ones too; every other
 * record by two parts. */
struct made {
	struct sf_vfile f;
	uint64_t start[64];
	_Atomic int prepared, freed;
	int fail; /* prepare fails so many times */
};

static uint8_t byte_at(uint64_t i)
{
	return (uint8_t)(i * 7 + i / 256);
}

static int made_emit(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                     struct sf_parts *parts, struct sf_error *err)
{
	uint8_t text[4096];
	(void)err;

	ck_assert_uint_gt(len, 0);
	ck_assert_uint_le(f->start[rec] + off + len, f->start[rec + 1]);
	for (uint64_t i = 0; i < len; i++)
		text[i] = byte_at(f->start[rec] + off + i);
	uint64_t half = rec % 2 ? len / 2 : 0;
	int r = half ? sf_parts_bytes(parts, text, half) : 0;
	return r < 0 ? r : sf_parts_bytes(parts, text + half, len - half);
}

static int made_prepare(struct sf_vfile *f, struct sf_error *err)
{
	struct made *m = (struct made *)f;

	atomic_fetch_add(&m->prepared, 1);
	usleep(20000); /* others come meanwhile */
	if (m->fail > 0) {
		m->fail--;
		return sf_fail(err, -EIO, "not now");
	}
	f->nrec = 63;
	f->start = m->start;
	f->size = m->start[63];
	return 0;
}

static void made_free(struct sf_vfile *f)
{
	atomic_fetch_add(&((struct made *)f)->freed, 1);
}

static const struct sf_vfile_ops made_ops = { made_prepare, made_emit, made_free };

static void make(struct made *m, struct sf_reader *r, uint64_t *rnd)
{
	memset(m, 0, sizeof(*m));
	sf_vfile_init(&m->f, &made_ops, r);
	for (int i = 0; i < 63; i++)
		m->start[i + 1] =
			m->start[i] + (sf_test_below(rnd, 3) ? sf_test_below(rnd, 60) : 0);
}

START_TEST(any_range_is_that_of_the_whole)
{
	uint64_t rnd = sf_test_seed("any_range_is_that_of_the_whole");
	struct vw w;
	struct made m;
	uint8_t buf[8192];

	vw_init(&w);
	vw_flat(&w, "x", 1);
	vw_open(&w);
	for (int round = 0; round < 50; round++) {
		make(&m, w.reader, &rnd);
		ck_assert_int_eq(sf_vfile_prepare(&m.f, NULL), 0);
		for (int i = 0; i < 100; i++) {
			uint64_t off = sf_test_below(&rnd, m.f.size + 3),
				 len = sf_test_below(&rnd, 2000);
			uint64_t want = off >= m.f.size ? 0 : SF_MIN(len, m.f.size - off);
			ck_assert_int_eq(sf_vfile_pread(&m.f, off, buf, len, NULL), (int64_t)want);
			for (uint64_t k = 0; k < want; k++)
				if (buf[k] !=
				    byte_at(off + k)) /* an assertion a byte would take seconds */
					ck_abort_msg("byte %d of the range at %d", (int)k,
					             (int)off);
		}
		sf_vfile_unref(&m.f);
		ck_assert_int_eq(m.freed, 1);
	}
	vw_close(&w);
}
END_TEST

static void *prepare_it(void *arg)
{
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_eq(sf_vfile_prepare(arg, &err), 0);
	return NULL;
}

START_TEST(many_threads_prepare_once)
{
	uint64_t rnd = 1, size;
	pthread_t thread[6];
	struct made m;

	make(&m, NULL, &rnd);
	ck_assert_int_eq(sf_vfile_size(&m.f, &size), -EAGAIN);
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, prepare_it, &m.f), 0);
	for (int i = 0; i < 6; i++)
		pthread_join(thread[i], NULL);
	ck_assert_int_eq(m.prepared, 1);
	ck_assert_int_eq(sf_vfile_size(&m.f, &size), 0);
	ck_assert_uint_eq(size, m.start[63]);
	sf_vfile_unref(&m.f);
}
END_TEST

START_TEST(a_failure_to_prepare_is_not_kept)
{
	uint64_t rnd = 1, size;
	struct sf_error err = SF_ERROR_INIT;
	struct made m;

	make(&m, NULL, &rnd);
	m.fail = 2;
	ck_assert_int_eq(sf_vfile_prepare(&m.f, &err), -EIO);
	ck_assert_str_eq(err.msg, "not now");
	ck_assert_int_eq(sf_vfile_size(&m.f, &size), -EAGAIN);
	ck_assert_int_eq(sf_vfile_prepare(&m.f, NULL), -EIO);
	ck_assert_int_eq(sf_vfile_prepare(&m.f, &err), 0);
	ck_assert_int_eq(sf_vfile_size(&m.f, &size), 0);
	sf_vfile_ref(&m.f);
	sf_vfile_unref(&m.f);
	ck_assert_int_eq(m.freed, 0);
	sf_vfile_unref(&m.f);
	ck_assert_int_eq(m.freed, 1);
}
END_TEST

START_TEST(a_range_past_the_end_is_refused)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_vfile *f;

	ck_assert_int_eq(sf_view_bytes(NULL, "abc", 3, &f, &err), 0);
	ck_assert_int_eq(sf_vfile_emit(f, 2, 2, NULL, &err), -EINVAL);
	ck_assert_int_eq(sf_vfile_emit(f, UINT64_MAX, 2, NULL, &err), -EINVAL);
	ck_assert_int_eq(sf_vfile_emit(f, 3, 0, NULL, &err), 0);
	sf_vfile_unref(f);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("vfile");
	TCase *t = tcase_create("all");

	tcase_add_test(t, any_range_is_that_of_the_whole);
	tcase_add_test(t, many_threads_prepare_once);
	tcase_add_test(t, a_failure_to_prepare_is_not_kept);
	tcase_add_test(t, a_range_past_the_end_is_refused);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
