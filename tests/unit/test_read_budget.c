/* Reads that wait for memory: the right bytes from any budget, in turn, and an end by deadline or
 * cancel. */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tests/lib/parts_zeros.h"
#include "tests/lib/test_stores.h"
#include "base/mem.h"
#include "parse/zstd.h"
#include "read/reader.h"
#include "tests/lib/sf_fake_ckpt.h"

static struct sf_io io;
static struct fake f;
static struct sf_fault plan;
static struct sf_store *store;
static struct sf_reader *reader;

/* Frames whose decoder needs more memory than a load begins with: 8 MiB of window, every second
 * one. */
static void enlarge_windows(void)
{
	static const uint8_t head[6] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58 };
	unsigned n = 0;

	for (int i = 0; i < FAKE_FILES; i++)
		for (size_t at = 0; at + sizeof(head) <= f.file[i].len; at++)
			if (memcmp(f.file[i].at + at, head, sizeof(head)) == 0 && n++ % 2)
				f.file[i].at[at + 5] = 0x68;
	ck_assert_uint_gt(n, 4);
}

static void begin(unsigned delay)
{
	struct sf_store *inner;

	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	fake_random(&f, 77);
	enlarge_windows();
	fake_objects(&f);
	plan = (struct sf_fault){ .fail_at = -1 };
	ck_assert_int_eq(sf_store_mem(&io, f.object, FAKE_FILES, &inner, NULL), 0);
	ck_assert_int_eq(sf_store_fault(inner, &plan, &store, NULL), 0);
	fake_finish(&f, store);
	plan.delay_ms = delay;
	ck_assert_int_eq(sf_reader_new(f.ckpt, store, &reader, NULL), 0);
}

static struct sf_budget_stat stat_now(void)
{
	struct sf_budget_stat s;

	sf_budget_stat(io.budget, &s);
	return s;
}

static void end(void)
{
	sf_reader_free(reader);
	ck_assert_uint_eq(stat_now().held, 0); /* all was given back */
	ck_assert_uint_eq(stat_now().waiting, 0);
	sf_store_free(store);
	sf_io_release(&io);
	fake_release(&f);
}

/* Some tensors, objects, bytes and zeros, one behind the other. */
#define ASKS 12
#define ONE 150000 /* bytes: every item fits in, and no two loads at once */
struct ask {
	int what; /* < 0: bytes or zeros; below ntensors a tensor, else an object */
	uint64_t off, len;
};
struct asks {
	struct ask at[ASKS];
	unsigned n;
	uint64_t len;
};

static uint64_t size_of(int what)
{
	return what < 0                      ? 64
	       : (unsigned)what < f.ntensors ? f.t[what].bytes
	                                     : f.o[(unsigned)what - f.ntensors].len;
}

static const uint8_t *dense(const struct ask *a)
{
	static const uint8_t bytes[64] = "bytes that a view makes";
	static const uint8_t zeros[64];

	if (a->what < 0)
		return (a->what == -1 ? bytes : zeros) + a->off;
	if ((unsigned)a->what < f.ntensors)
		return f.t[a->what].dense + a->off;
	return f.o[(unsigned)a->what - f.ntensors].at + a->off;
}

static int emit(void *arg, uint64_t off, uint64_t len, struct sf_parts *p, struct sf_error *err)
{
	const struct asks *all = arg;
	int r = 0;

	for (unsigned i = 0; i < all->n && r >= 0; i++) {
		const struct ask *a = &all->at[i];
		if (a->what == -1)
			r = sf_parts_bytes(p, dense(a), a->len);
		else if (a->what < 0)
			r = parts_zeros(p, a->len);
		else if ((unsigned)a->what < f.ntensors)
			r = sf_parts_tensor(p, (uint32_t)a->what, a->off, a->len, SF_DTYPE_NONE);
		else
			r = sf_parts_object(p, (uint32_t)a->what - f.ntensors, a->off, a->len);
	}
	return r;
}

static void random_asks(struct asks *all, uint64_t *seed)
{
	*all = (struct asks){ .n = 1 + (unsigned)sf_test_below(seed, ASKS) };
	for (unsigned i = 0; i < all->n; i++) {
		struct ask *a = &all->at[i];
		a->what = (int)sf_test_below(seed, f.ntensors + FAKE_OBJECTS + 2) - 2;
		if (i && sf_test_below(seed, 3) == 0)
			a->what = all->at[i - 1].what; /* another part of the same item */
		uint64_t has = size_of(a->what);
		a->off = has ? sf_test_below(seed, has) : 0;
		a->len = has ? 1 + sf_test_below(seed, has - a->off) : 0;
		all->len += a->len;
	}
}

static bool same(const struct asks *all, const struct sf_read *rd)
{
	uint8_t *got = malloc(all->len + 1);
	uint64_t at = 0;
	bool ok;

	for (int i = 0; i < rd->niov; at += rd->iov[i++].iov_len)
		memcpy(got + at, rd->iov[i].iov_base, rd->iov[i].iov_len);
	ok = at == all->len;
	at = 0;
	for (unsigned i = 0; ok && i < all->n; at += all->at[i++].len)
		ok = memcmp(got + at, dense(&all->at[i]), all->at[i].len) == 0;
	free(got);
	return ok;
}

struct thread {
	pthread_t id;
	uint64_t seed;
	int rounds;
	bool into; /* the caller's buffer */
};

static void *read_some(void *arg)
{
	struct thread *t = arg;

	for (int i = 0; i < t->rounds; i++) {
		struct asks all;
		random_asks(&all, &t->seed);
		uint8_t *buf = t->into ? malloc(all.len + 1) : NULL;
		struct sf_read rd = { .emit = emit, .arg = &all, .len = all.len, .buf = buf };
		int r = sf_read_wait(reader, &rd);
		ck_assert_msg(r == 0, "%d %s", r, rd.err.msg);
		ck_assert(same(&all, &rd));
		sf_read_release(&rd);
		free(buf);
	}
	return NULL;
}

/* Property: whatever the budget, all threads get all their bytes, and it is kept. */
START_TEST(any_budget_gives_the_bytes_in_the_end)
{
	static const uint64_t limits[] = { ONE, 3 * ONE, 3 << 20, 8 << 20, 64 << 20 };
	uint64_t seed = sf_test_seed("any_budget_gives_the_bytes"), limit = limits[_i / 2];
	struct thread t[8];
	struct sf_budget_stat s;

	begin((unsigned)_i % 2);
	io.timeout_ms = 0;
	sf_budget_set_limit(io.budget, limit);
	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		t[i] = (struct thread){ .seed = sf_test_rand(&seed),
			                .rounds = 40,
			                .into = i % 3 == 0 };
		ck_assert_int_eq(pthread_create(&t[i].id, NULL, read_some, &t[i]), 0);
	}
	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++)
		pthread_join(t[i].id, NULL);
	s = stat_now();
	/* the limit, one item and one buffer; headers and spans are added as they come */
	ck_assert_uint_le(s.most, limit + (12 << 20) + SF_ARRAY_LEN(t) * (2 << 20));
	if (limit <= ONE)
		ck_assert_uint_gt(s.waits, 0);
	end();
}
END_TEST

/* ---- an end to the wait ---- */

struct parked {
	struct sf_read rd;
	struct asks all;
	atomic_int done;
	int r;
};
static void parked_done(struct sf_read *rd, int r)
{
	struct parked *p = (struct parked *)rd;

	p->r = r;
	atomic_store(&p->done, 1);
}
static void park(struct parked *p, int what)
{
	*p = (struct parked){ .all = { .n = 1 } };
	p->all.at[0] = (struct ask){ .what = what, .len = size_of(what) };
	p->all.len = p->all.at[0].len;
	p->rd = (struct sf_read){
		.emit = emit, .arg = &p->all, .len = p->all.len, .done = parked_done
	};
	ck_assert_int_eq(sf_read_start(reader, &p->rd), -EAGAIN);
	sf_read_park(reader, &p->rd);
}
static int wait_done(struct parked *p)
{
	while (!atomic_load(&p->done))
		usleep(200);
	return p->r;
}

static int tensor_of(enum fake_form form)
{
	for (unsigned i = 0; i < f.ntensors; i++)
		if (f.t[i].form == form && f.t[i].bytes > 100)
			return (int)i;
	ck_abort();
	return 0;
}

/* Somebody else has it all: of buffers (_i 0) or of items (1). */
START_TEST(who_waits_for_memory_goes_by_deadline_or_cancel)
{
	enum sf_budget_kind kind = _i ? SF_BUDGET_ITEM : SF_BUDGET_BUFFER;
	struct parked p[6];
	uint64_t limit;
	int what;

	begin(1);
	what = tensor_of(_i ? FAKE_ZSTD : FAKE_TORCH);
	limit = sf_budget_limit(io.budget);
	sf_budget_add(io.budget, kind, limit);
	io.timeout_ms = 150;
	io.turn_ms = 150;
	for (int i = 0; i < 6; i++)
		park(&p[i], what);
	for (int i = 0; i < 3; i++)
		sf_read_cancel(reader, &p[i].rd);
	for (int i = 0; i < 6; i++) {
		ck_assert_int_eq(wait_done(&p[i]), i < 3 ? -ECANCELED : -ETIMEDOUT);
		/* what it waited for, not who was slow */
		ck_assert_msg(i < 3 || strstr(p[i].rd.err.msg, "no room in --memory"), "%s",
		              p[i].rd.err.msg);
		sf_read_release(&p[i].rd);
	}
	ck_assert_uint_gt(stat_now().waits, 0);
	ck_assert_uint_eq(stat_now().waiting, 0); /* none stays in the queue */
	io.timeout_ms = 0;
	for (int i = 0; i < 6; i++)
		park(&p[i], what);
	while (stat_now().waiting < (_i ? 1 : 6)) /* of an item that many want one waits */
		usleep(200);
	ck_assert_int_eq(atomic_load(&p[0].done), 0);
	sf_budget_give(io.budget, kind, limit);
	for (int i = 0; i < 6; i++) {
		ck_assert_int_eq(wait_done(&p[i]), 0);
		ck_assert(same(&p[i].all, &p[i].rd));
		sf_read_release(&p[i].rd);
	}
	end();
}
END_TEST

/* A read of many items that do not fit together: one after another, while others want them too. */
START_TEST(a_read_of_more_items_than_fit_holds_one_at_a_time)
{
	struct parked p[8];
	struct asks all = { .n = 0 };

	begin(1);
	io.timeout_ms = 0;
	sf_budget_set_limit(io.budget, ONE);
	for (unsigned i = 0; i < f.ntensors + FAKE_OBJECTS && all.n < ASKS; i++) {
		bool taken_whole = i >= f.ntensors
		                           ? (i - f.ntensors) % 2
		                           : f.t[i].form == FAKE_ZSTD || f.t[i].form == FAKE_BLOB;
		if (!taken_whole)
			continue;
		all.at[all.n++] = (struct ask){ .what = (int)i, .len = size_of((int)i) };
		all.len += size_of((int)i);
	}
	ck_assert_uint_ge(all.n, 8);
	for (int i = 0; i < 8; i++) {
		p[i] = (struct parked){ .all = all };
		for (unsigned k = 0; k < all.n; k++) /* each in another order */
			p[i].all.at[k] = all.at[(k + (unsigned)i * 3) % all.n];
		p[i].rd = (struct sf_read){
			.emit = emit, .arg = &p[i].all, .len = all.len, .done = parked_done
		};
		sf_read_park(reader, &p[i].rd);
	}
	for (int i = 0; i < 8; i++) {
		ck_assert_msg(wait_done(&p[i]) == 0, "%s", p[i].rd.err.msg);
		ck_assert(same(&p[i].all, &p[i].rd));
		sf_read_release(&p[i].rd);
	}
	end();
}
END_TEST

/* Two that begin side by side, and then need the whole budget each: the read that holds one and
 * waits for the other would never see it. */
START_TEST(items_that_need_more_than_they_began_with_come_one_after_another)
{
	struct parked p[4];
	struct asks all = { .n = 0 };

	begin((unsigned)_i);
	io.timeout_ms = 0;
	sf_budget_set_limit(io.budget, 8 << 20);
	for (unsigned i = 0; i < f.ntensors && all.n < ASKS; i++)
		if (f.t[i].form == FAKE_ZSTD) {
			all.at[all.n++] = (struct ask){ .what = (int)i, .len = f.t[i].bytes };
			all.len += f.t[i].bytes;
		}
	ck_assert_uint_ge(all.n, 3);
	for (int i = 0; i < 4; i++) {
		p[i] = (struct parked){ .all = all };
		p[i].rd = (struct sf_read){
			.emit = emit, .arg = &p[i].all, .len = all.len, .done = parked_done
		};
		sf_read_park(reader, &p[i].rd);
	}
	for (int i = 0; i < 4; i++) {
		ck_assert_msg(wait_done(&p[i]) == 0, "%s", p[i].rd.err.msg);
		ck_assert(same(&p[i].all, &p[i].rd));
		sf_read_release(&p[i].rd);
	}
	end();
}
END_TEST

/* Bytes that the view made are held by each read while it waits for its buffer: more than the
 * budget, of all. */
START_TEST(reads_that_hold_bytes_while_they_wait_have_their_turn)
{
	struct parked p[8];
	struct asks all = { .n = ASKS };

	begin(1);
	io.timeout_ms = 0;
	sf_budget_set_limit(io.budget, 1000);
	for (unsigned i = 0; i < ASKS; i++) {
		all.at[i] = (struct ask){ .what = i ? -1 : tensor_of(FAKE_TORCH) };
		all.at[i].len = size_of(all.at[i].what);
		all.len += all.at[i].len;
	}
	for (int i = 0; i < 8; i++) {
		p[i] = (struct parked){ .all = all };
		p[i].rd = (struct sf_read){
			.emit = emit, .arg = &p[i].all, .len = all.len, .done = parked_done
		};
		sf_read_park(reader, &p[i].rd);
	}
	for (int i = 0; i < 8; i++) {
		ck_assert_msg(wait_done(&p[i]) == 0, "%s", p[i].rd.err.msg);
		ck_assert(same(&p[i].all, &p[i].rd));
		sf_read_release(&p[i].rd);
	}
	end();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("read_budget");
	TCase *t = tcase_create("read_budget");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, any_budget_gives_the_bytes_in_the_end, 0, 10);
	tcase_add_loop_test(t, who_waits_for_memory_goes_by_deadline_or_cancel, 0, 2);
	tcase_add_test(t, a_read_of_more_items_than_fit_holds_one_at_a_time);
	tcase_add_loop_test(t, items_that_need_more_than_they_began_with_come_one_after_another, 0,
	                    2);
	tcase_add_test(t, reads_that_hold_bytes_while_they_wait_have_their_turn);
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
