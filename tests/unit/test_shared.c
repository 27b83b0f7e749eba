/* Readers of one sf_io: items, and buffers that no read has, belong to all of them. */
#include "config.h"

#include "read/item_cache_priv.h"
#include "tests/lib/zstd_items.h"

#define MIB (UINT64_C(1) << 20)

static uint64_t decoded(struct sf_io *io, const struct zitems *z)
{
	return zitems_fetched(io) / z->file[0].len;
}

/* Loads end after they were told of: what is too much goes then. */
static void falls_to(struct sf_io *io, uint64_t limit)
{
	while (zitems_stat(io).held > limit)
		usleep(100);
}

/* Who read a piece is not waited for. */
static void keep_for_nobody(const struct sf_reader *r)
{
	memset(&r->items->keep, 0, sizeof(r->items->keep));
}

START_TEST(what_was_used_last_by_any_reader_is_kept)
{
	const uint64_t item = 12 * MIB;
	struct zitems z[2];
	struct sf_reader *r[2];
	struct sf_io io;

	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	sf_budget_set_limit(io.budget, 5 * item); /* half of it: two of them */
	for (int i = 0; i < 2; i++) {
		zitems_init(&z[i], &io, item, (uint8_t)(i * 100));
		r[i] = zitems_reader(&z[i]);
	}
	keep_for_nobody(r[0]);
	zread_now(r[0], &z[0], 0, 0, MIB);
	zread_now(r[1], &z[1], 0, 0,
	          MIB); /* other bytes, though file, offset and length are the same */
	zread_now(r[0], &z[0], 0, MIB, MIB);
	ck_assert_uint_eq(decoded(&io, z), 2);
	zread_now(r[1], &z[1], 1, 0, MIB);
	falls_to(&io, 2 * item + 2 * MIB);
	ck_assert_uint_eq(decoded(&io, z), 3);
	zread_now(r[0], &z[0], 0, 2 * MIB, MIB); /* used after reader 1's first one: it is there */
	zread_now(r[1], &z[1], 1, MIB, MIB);
	ck_assert_uint_eq(decoded(&io, z), 3);
	zread_now(r[1], &z[1], 0, MIB, MIB); /* this one went */
	ck_assert_uint_eq(decoded(&io, z), 4);
	falls_to(&io, 2 * item + 2 * MIB);
	zread_now(r[0], &z[0], 0, 0, MIB); /* for this one */
	ck_assert_uint_eq(decoded(&io, z), 5);
	falls_to(&io, 2 * item + 2 * MIB);

	sf_reader_free(r[0]);
	falls_to(&io, item + 2 * MIB); /* the other's stays */
	ck_assert_uint_ge(zitems_stat(&io).held, item);
	sf_reader_free(r[1]);
	ck_assert_uint_eq(zitems_stat(&io).held, 0);
	for (int i = 0; i < 2; i++)
		zitems_release(&z[i]);
	sf_io_release(&io);
}
END_TEST

/* Memory for one. */
START_TEST(one_readers_item_throws_out_an_idle_one_of_another)
{
	const uint64_t item = 3 * MIB;
	struct sf_reader *r[2];
	struct zitems z[2];
	struct sf_io io;

	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	sf_budget_set_limit(io.budget, 2 * item + 2 * MIB);
	for (int i = 0; i < 2; i++) {
		zitems_init(&z[i], &io, item, (uint8_t)(i * 100));
		r[i] = zitems_reader(&z[i]);
	}
	keep_for_nobody(r[0]);
	for (uint64_t i = 0; i < 6; i++) { /* in turn: each finds its own gone */
		zread_now(r[i % 2], &z[i % 2], 0, 0, MIB / 2);
		falls_to(&io, item + 2 * MIB);
		zread_now(r[i % 2], &z[i % 2], 0, MIB, MIB / 2); /* but not at once */
		ck_assert_uint_eq(decoded(&io, z), i + 1);
	}
	for (int i = 0; i < 2; i++)
		sf_reader_free(r[i]);
	ck_assert_uint_eq(zitems_stat(&io).held, 0);
	for (int i = 0; i < 2; i++)
		zitems_release(&z[i]);
	sf_io_release(&io);
}
END_TEST

START_TEST(many_readers_keep_the_buffers_of_one)
{
	struct sf_reader *r[20];
	struct zitems z;
	struct sf_io io;

	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	zitems_init(&z, &io, 4096, 0);
	for (size_t i = 0; i < SF_ARRAY_LEN(r); i++) {
		r[i] = zitems_reader(&z);
		ck_assert_ptr_eq(io.reading.at, r[0]->shared);
	}
	for (size_t i = 0; i < SF_ARRAY_LEN(r); i++) {
		zread_now(r[i], &z, 0, 0, 4096);
		while (atomic_load(&r[i]->live)) /* its steps end after it was answered */
			usleep(100);
		ck_assert_uint_eq(io.reading.at->locked.nfree, 1);
	}
	/* those of readers that are gone are the others' */
	for (size_t i = 0; i + 1 < SF_ARRAY_LEN(r); i++)
		sf_reader_free(r[i]);
	ck_assert_uint_eq(io.reading.at->locked.nfree, 1);
	ck_assert_uint_ge(zitems_stat(&io).held, 1 << 16);
	sf_reader_free(r[SF_ARRAY_LEN(r) - 1]);
	ck_assert_ptr_null(io.reading.at);
	ck_assert_uint_eq(zitems_stat(&io).held, 0);
	zitems_release(&z);
	sf_io_release(&io);
}
END_TEST

#define THREADS 4
#define ROUNDS 50

struct opener {
	pthread_t id;
	struct zitems *z;
	unsigned number;
};

static void *open_and_close(void *arg)
{
	struct opener *o = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct sf_reader *r = zitems_reader(o->z);
		unsigned tensor = (i + o->number) % ZITEMS;
		zread_now(r, o->z, tensor, i, 3000);
		zread_now(r, o->z, tensor, 5000, 3000);
		zread_now(r, o->z, (tensor + 1) % ZITEMS, 0, o->z->bytes);
		sf_reader_free(r);
	}
	return NULL;
}

/* Each takes its own along, while others go on. _i: memory for all, for some, for one. */
START_TEST(two_hundred_readers_leave_nothing)
{
	static const uint64_t limits[] = { 64 << 20, 400000, 120000 };
	struct opener o[THREADS];
	struct zitems z[2];
	struct sf_io io;

	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	sf_budget_set_limit(io.budget, limits[_i]);
	for (int i = 0; i < 2; i++)
		zitems_init(&z[i], &io, 100000, (uint8_t)(i * 100));
	for (unsigned i = 0; i < THREADS; i++) {
		o[i] = (struct opener){ .z = &z[i % 2], .number = i };
		ck_assert_int_eq(pthread_create(&o[i].id, NULL, open_and_close, &o[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(o[i].id, NULL);
	ck_assert_uint_eq(io.readers, THREADS * ROUNDS);
	ck_assert_ptr_null(io.reading.at);
	ck_assert_uint_eq(zitems_stat(&io).held, 0);
	for (int i = 0; i < 2; i++)
		zitems_release(&z[i]);
	sf_io_release(&io);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("shared");
	TCase *t = tcase_create("shared");
	int skip = zitems_skip();

	if (skip)
		return skip;
	tcase_set_timeout(t, 60);
	tcase_add_test(t, what_was_used_last_by_any_reader_is_kept);
	tcase_add_test(t, one_readers_item_throws_out_an_idle_one_of_another);
	tcase_add_test(t, many_readers_keep_the_buffers_of_one);
	tcase_add_loop_test(t, two_hundred_readers_leave_nothing, 0, 3);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
