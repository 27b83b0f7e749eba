#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/lib/test_stores.h"
#include "base/mem.h"
#include "parse/zstd.h"
#include "read/item_cache_priv.h"
#include "tests/lib/sf_fake_ckpt.h"

#define ITEMS 20
#define LEN 400000

static uint8_t plain[LEN];
static struct sf_buf file;
static uint64_t off[ITEMS + 1];
static struct sf_mem_object object;
static struct sf_io io;
static struct sf_store *store;
static struct sf_source *src;
static struct sf_fault plan;
static struct sf_item_owner owner;

/* ITEMS frames; item i decodes to plain[i..LEN). */
static void begin(unsigned delay)
{
	struct sf_store *inner;
	uint64_t seed = 9;

	memset(&file, 0, sizeof(file));
	for (size_t i = 0; i < LEN; i++)
		plain[i] = (uint8_t)sf_test_rand(&seed);
	for (int i = 0; i < ITEMS; i++) {
		off[i] = file.len;
		fake_zstd(&file, plain + i, LEN - (size_t)i);
	}
	off[ITEMS] = file.len;
	object = (struct sf_mem_object){ "x", file.at, file.len };
	plan = (struct sf_fault){ .fail_at = -1, .delay_ms = delay };
	memset(&owner, 0, sizeof(owner));
	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	ck_assert_int_eq(sf_store_mem(&io, &object, 1, &inner, NULL), 0);
	ck_assert_int_eq(sf_store_fault(inner, &plan, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "x", NULL, &src, NULL), 0);
}

static uint64_t held(void)
{
	struct sf_budget_stat s;

	sf_budget_stat(io.budget, &s);
	return s.held;
}

/* What the first item's load takes. */
static uint64_t claim_of(struct sf_item_cache *c, struct sf_cache_want w)
{
	struct sf_cache_entry e = { .cache = c, .want = w };

	return sf_item_claim(&e);
}

static void end(void)
{
	ck_assert_uint_eq(held(), 0);
	sf_source_unref(src);
	sf_store_free(store);
	sf_io_release(&io);
	sf_buf_release(&file);
}

static struct sf_cache_want want(int i)
{
	return (struct sf_cache_want){ .owner = &owner,
		                       .src = src,
		                       .off = off[i],
		                       .len = off[i + 1] - off[i],
		                       .fetch = SF_FETCH_OBJECT,
		                       .codec = SF_CODEC_ZSTD,
		                       .streams = 1,
		                       .expect = LEN,
		                       .decoded_max = LEN };
}

/* Its owner leaves, and then it goes. */
static void free_cache(struct sf_item_cache *c)
{
	sf_item_cache_end(c, &owner);
	sf_item_cache_drop(c, &owner);
	sf_item_cache_free(c);
	memset(&owner, 0, sizeof(owner));
}

struct wait {
	struct sf_cache_wait w;
	atomic_int done;
	int r;
	const struct sf_cached *item;
};
static void note(struct sf_cache_wait *w, int r, const struct sf_cached *item)
{
	struct wait *x = (struct wait *)w;

	x->r = r;
	x->item = item;
	atomic_store(&x->done, 1);
}
static void load(struct sf_item_cache *c, struct sf_cache_want w, struct wait *x)
{
	memset(x, 0, sizeof(*x));
	x->w.done = note;
	sf_item_cache_load(c, &w, &x->w, true);
}
static int wait_done(struct wait *x)
{
	while (!atomic_load(&x->done))
		usleep(100);
	return x->r;
}

START_TEST(all_who_ask_get_one_load)
{
	struct sf_item_cache *c;
	struct wait x[30];

	begin(20);
	sf_budget_set_limit(io.budget, 64 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	for (int i = 0; i < 30; i++)
		load(c, want(i % 3), &x[i]);
	for (int i = 0; i < 30; i++) {
		ck_assert_int_eq(wait_done(&x[i]), 0);
		ck_assert_uint_eq(x[i].item->len, LEN - i % 3);
		ck_assert_mem_eq(x[i].item->at, plain + i % 3, x[i].item->len);
		sf_cached_unref(c, x[i].item);
	}
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_OBJECT], 3);
	free_cache(c);
	end();
}
END_TEST

START_TEST(it_holds_what_fits_and_forgets_the_oldest)
{
	struct sf_item_cache *c;
	struct wait x;
	struct sf_cache_want w;
	const struct sf_cached *held0;
	int kept = 0;

	begin(0);
	sf_budget_set_limit(io.budget, LEN * 16);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	w = want(0);
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), 0);
	held0 = x.item;
	for (int i = 1; i < ITEMS; i++) {
		w = want(i);
		ck_assert_ptr_null(sf_item_cache_get(c, &w));
		load(c, w, &x);
		ck_assert_int_eq(wait_done(&x), 0);
		sf_cached_unref(c, x.item);
	}
	for (int i = 0; i < ITEMS; i++) {
		const struct sf_cached *got;
		w = want(i);
		got = sf_item_cache_get(c, &w);
		ck_assert(i != ITEMS - 1 || got);
		ck_assert(i != 0 || got == held0); /* it is used */
		ck_assert(i != 1 || !got);
		kept += got != NULL;
		sf_cached_unref(c, got);
	}
	ck_assert_int_ge(kept, 2);
	ck_assert_int_le(kept, 8);
	ck_assert_mem_eq(held0->at, plain, LEN); /* whoever holds it keeps it */
	sf_cached_unref(c, held0);
	free_cache(c);
	end();
}
END_TEST

START_TEST(what_does_not_fit_names_the_numbers_and_the_option)
{
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct wait x;

	begin(0);
	sf_budget_set_limit(io.budget, LEN - 1000);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	load(c, want(0), &x);
	ck_assert_int_eq(wait_done(&x), -E2BIG);
	ck_assert_ptr_nonnull(strstr(x.w.err.msg, "400000"));
	ck_assert_ptr_nonnull(strstr(x.w.err.msg, "399000"));
	ck_assert_ptr_nonnull(strstr(x.w.err.msg, "--memory 399000"));
	w = want(0);
	w.decoded_max = 100; /* metadata allows no more */
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), -E2BIG);
	ck_assert_ptr_nonnull(strstr(x.w.err.msg, "more than 100 bytes"));
	/* a failure is not kept */
	w = want(5);
	w.len -= 10; /* a cut frame */
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), -E2BIG);
	free_cache(c);
	sf_budget_set_limit(io.budget, LEN * 8);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(x.w.err.msg, "'x'"));
	load(c, want(5), &x);
	ck_assert_int_eq(wait_done(&x), 0);
	sf_cached_unref(c, x.item);
	free_cache(c);
	end();
}
END_TEST

START_TEST(all_who_wait_hear_of_a_failure_and_the_next_one_tries_again)
{
	struct sf_item_cache *c;
	struct wait x[5];

	begin(20);
	plan.fail_at = 0;
	plan.code = -EIO;
	sf_budget_set_limit(io.budget, 2 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	for (int i = 0; i < 5; i++)
		load(c, want(0), &x[i]);
	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(wait_done(&x[i]), -EIO);
		ck_assert_ptr_nonnull(strstr(x[i].w.err.msg, "injected"));
	}
	load(c, want(0), &x[0]);
	ck_assert_int_eq(wait_done(&x[0]), 0);
	sf_cached_unref(c, x[0].item);
	free_cache(c);
	end();
}
END_TEST

START_TEST(its_end_ends_loads_that_hang)
{
	struct sf_item_cache *c;
	struct wait x[3];

	begin(100000);
	sf_budget_set_limit(io.budget, 2 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	for (int i = 0; i < 3; i++)
		load(c, want(i), &x[i]);
	free_cache(c);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(wait_done(&x[i]), -ECANCELED);
	end();
}
END_TEST

/* Behind one that takes its time, more than the stack has room for if each began the next. */
START_TEST(thousands_that_fail_at_once_do_not_nest)
{
	enum { BAD = 20000 };
	struct sf_item_cache *c;
	struct wait first, *x = calloc(BAD, sizeof(*x));

	begin(200);
	sf_budget_set_limit(io.budget, 2 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	load(c, want(0), &first);
	for (int i = 0; i < BAD; i++) {
		struct sf_cache_want w = want(0);
		w.off = file.len + 1 + (uint64_t)i; /* past the end: no request is made for it */
		w.len = 1 << 20;
		load(c, w, &x[i]);
	}
	ck_assert_int_eq(wait_done(&first), 0);
	sf_cached_unref(c, first.item);
	for (int i = 0; i < BAD; i++)
		ck_assert_int_eq(wait_done(&x[i]), -EBADMSG);
	free_cache(c);
	free(x);
	end();
}
END_TEST

/* What a load will hold is taken to be four times its size: two fit. */
START_TEST(no_more_loads_run_than_fit)
{
	struct sf_item_cache *c;
	struct wait x[ITEMS];
	uint64_t each;

	begin(100000);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	each = claim_of(c, want(0));
	ck_assert_uint_ge(each, LEN);
	sf_budget_set_limit(io.budget, 2 * each);
	for (int i = 0; i < ITEMS; i++)
		load(c, want(i), &x[i]);
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_OBJECT], 2);
	ck_assert_uint_le(held(), 2 * each);
	free_cache(c);
	for (int i = 0; i < ITEMS; i++)
		ck_assert_int_eq(wait_done(&x[i]), -ECANCELED);
	ck_assert_uint_eq(held(), 0);
	/* one that takes all there is runs, alone */
	io.counters.fetched_requests[SF_FETCH_OBJECT] = 0;
	sf_budget_set_limit(io.budget, each - 1);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	for (int i = 0; i < 3; i++)
		load(c, want(i), &x[i]);
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_OBJECT], 1);
	free_cache(c);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(wait_done(&x[i]), -ECANCELED);
	end();
}
END_TEST

/* Each load in its turn, in the order in which they were asked for. */
START_TEST(loads_that_wait_come_in_order_and_one_that_is_given_up_does_not)
{
	struct sf_cache_entry *unwanted;
	struct sf_item_cache *c;
	struct wait x[ITEMS], again;
	struct sf_cache_want w;

	begin(3);
	sf_budget_set_limit(io.budget, LEN); /* one at a time */
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	for (int i = 0; i < ITEMS; i++)
		load(c, want(i), &x[i]);
	load(c, want(7), &again); /* two wait for this one */
	ck_assert(sf_item_cache_cancel(c, &x[5].w, &unwanted));
	ck_assert_ptr_nonnull(unwanted);
	sf_item_cache_give_up(c, unwanted);
	ck_assert(!sf_item_cache_cancel(c, &x[5].w, &unwanted));
	ck_assert(sf_item_cache_cancel(c, &x[7].w, &unwanted));
	ck_assert_ptr_null(unwanted);
	sf_item_cache_give_up(c, unwanted);
	for (int i = 0; i < ITEMS; i++) {
		struct wait *y = i == 7 ? &again : &x[i];
		if (i == 5)
			continue;
		ck_assert_int_eq(wait_done(y), 0);
		for (int k = i + 1; k < ITEMS; k++) /* its turn comes when this one is let go */
			ck_assert_int_eq(atomic_load(&x[k].done), 0);
		ck_assert_uint_eq(y->item->len, LEN - i);
		ck_assert(!sf_item_cache_cancel(c, &y->w, &unwanted));
		sf_cached_unref(c, y->item);
	}
	w = want(5);
	ck_assert_ptr_null(sf_item_cache_get(c, &w));
	ck_assert_int_eq(atomic_load(&x[5].done), 0);
	ck_assert_int_eq(atomic_load(&x[7].done), 0);
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_OBJECT], ITEMS - 1);
	free_cache(c);
	end();
}
END_TEST

/* Its turn comes between the two halves of giving it up: the load is called off by then. */
START_TEST(an_item_may_have_its_turn_while_it_is_given_up)
{
	struct sf_cache_entry *unwanted;
	struct sf_item_cache *c;
	struct wait x;

	begin(0);
	sf_budget_set_limit(io.budget, LEN);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	sf_budget_add(io.budget, SF_BUDGET_ITEM, LEN);
	load(c, want(0), &x);
	ck_assert(sf_item_cache_cancel(c, &x.w, &unwanted));
	ck_assert_ptr_nonnull(unwanted);
	sf_budget_give(io.budget, SF_BUDGET_ITEM, LEN);
	while (held()) /* it gives back what it was granted */
		usleep(100);
	usleep(1000);
	sf_item_cache_give_up(c, unwanted);
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_OBJECT], 0);
	free_cache(c);
	end();
}
END_TEST

START_TEST(who_holds_an_item_is_told_that_there_is_no_room)
{
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct wait x, y;

	begin(0);
	sf_budget_set_limit(io.budget, LEN + 1000);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	load(c, want(0), &x);
	ck_assert_int_eq(wait_done(&x), 0);
	w = want(1);
	y = (struct wait){ .w.done = note };
	ck_assert_int_eq(sf_item_cache_load(c, &w, &y.w, false), SF_CACHE_FULL);
	ck_assert_int_eq(atomic_load(&y.done), 0);
	ck_assert_int_eq(sf_item_cache_load(c, &w, &y.w, true), SF_CACHE_QUEUED);
	ck_assert_int_eq(atomic_load(&y.done), 0);
	struct wait z = { .w.done = note };
	ck_assert_int_eq(sf_item_cache_load(c, &w, &z.w, false), SF_CACHE_FULL);
	sf_cached_unref(c, x.item); /* goes, since somebody waits */
	ck_assert_int_eq(wait_done(&y), 0);
	w = want(0);
	ck_assert_ptr_null(sf_item_cache_get(c, &w));
	sf_cached_unref(c, y.item);
	w = want(1); /* kept: nobody waits now. But no more than half of the budget is */
	ck_assert_ptr_null(sf_item_cache_get(c, &w));
	sf_budget_set_limit(io.budget, 20 * LEN);
	for (int i = 0; i < ITEMS; i++) {
		load(c, want(i), &x);
		ck_assert_int_eq(wait_done(&x), 0);
		sf_cached_unref(c, x.item);
		while (held() > 10 * LEN) /* the load's thread lets go last */
			usleep(100);
	}
	ck_assert_uint_ge(held(), 8 * LEN);
	/* all of it for somebody else */
	ck_assert(sf_budget_take(io.budget, SF_BUDGET_BUFFER, 1));
	ck_assert(sf_budget_take(io.budget, SF_BUDGET_MADE, 1));
	ck_assert(sf_budget_take(io.budget, SF_BUDGET_MADE, 20 * LEN - 2));
	ck_assert_uint_eq(held(), 20 * LEN);
	sf_budget_give(io.budget, SF_BUDGET_MADE, 20 * LEN - 1);
	sf_budget_give(io.budget, SF_BUDGET_BUFFER, 1);
	free_cache(c);
	end();
}
END_TEST

/* More inside than was thought, a larger window than usual: it begins anew with more. */
START_TEST(a_load_that_needs_more_begins_anew)
{
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct sf_budget_stat s;
	struct wait x;

	begin(0);
	sf_budget_set_limit(io.budget, 64 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	w = want(0);
	w.expect = 100;
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), 0);
	ck_assert_uint_eq(x.item->len, LEN);
	ck_assert_mem_eq(x.item->at, plain, LEN);
	sf_cached_unref(c, x.item);
	ck_assert_uint_gt(io.counters.fetched_requests[SF_FETCH_OBJECT], 2);

	file.at[off[1] + 5] = 0x70; /* 16 MiB */
	load(c, want(1), &x);
	ck_assert_int_eq(wait_done(&x), 0);
	ck_assert_mem_eq(x.item->at, plain + 1, LEN - 1);
	sf_cached_unref(c, x.item);
	sf_budget_stat(io.budget, &s);
	ck_assert_uint_ge(s.most, 16 << 20);

	file.at[off[2] + 5] = 0x88; /* 128 MiB, of 64 */
	load(c, want(2), &x);
	ck_assert_int_eq(wait_done(&x), -E2BIG);
	ck_assert_ptr_nonnull(
		strstr(x.w.err.msg, "more than 33554432 bytes; --memory is 67108864"));
	free_cache(c);
	end();
}
END_TEST

/* One who may not wait, because of what it holds, is told when the item goes back to wait. */
START_TEST(who_may_not_wait_is_told_when_a_load_begins_anew)
{
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct wait x, y = { .w.done = note };

	begin(20);
	file.at[off[1] + 5] = 0x68; /* 8 MiB */
	sf_budget_set_limit(io.budget, 8 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	load(c, want(0), &x);
	ck_assert_int_eq(wait_done(&x), 0);
	w = want(1);
	ck_assert_int_eq(sf_item_cache_load(c, &w, &y.w, false), SF_CACHE_BEGUN);
	ck_assert_int_eq(wait_done(&y), -EAGAIN);
	ck_assert(y.w.again);
	sf_cached_unref(c, x.item); /* had it not been told, nobody would come to this */
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), 0);
	ck_assert_mem_eq(x.item->at, plain + 1, LEN - 1);
	sf_cached_unref(c, x.item);
	free_cache(c);
	end();
}
END_TEST

START_TEST(an_item_is_known_by_file_offset_and_kind)
{
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct wait x;

	begin(0);
	sf_budget_set_limit(io.budget, 2 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	w = want(0);
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), 0);
	sf_cached_unref(c, x.item);
	const struct sf_cached *got = sf_item_cache_get(c, &w);
	ck_assert_ptr_eq(got, x.item);
	sf_cached_unref(c, got);
	w.kind = SF_CACHED_BLOB;
	ck_assert_ptr_null(sf_item_cache_get(c, &w));
	w = want(0);
	w.file = 1;
	ck_assert_ptr_null(sf_item_cache_get(c, &w));
	w = want(1);
	ck_assert_ptr_null(sf_item_cache_get(c, &w));
	free_cache(c);
	end();
}
END_TEST

/* Two owners that ask for the same bytes: each has its own, and takes it along. */
START_TEST(what_is_one_owners_no_other_sees)
{
	struct sf_item_owner other = { .ending = false };
	const struct sf_cached *got;
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct wait x, y;
	uint64_t one;

	begin(0);
	sf_budget_set_limit(io.budget, 64 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	load(c, want(0), &x);
	ck_assert_int_eq(wait_done(&x), 0);
	sf_cached_unref(c, x.item);
	w = want(0);
	w.owner = &other;
	ck_assert_ptr_null(sf_item_cache_get(c, &w));
	load(c, w, &y);
	ck_assert_int_eq(wait_done(&y), 0);
	ck_assert_ptr_ne(y.item, x.item);
	sf_cached_unref(c, y.item);
	sf_item_cache_end(c, &owner);
	sf_item_cache_end(c, &other); /* what is there stays */
	one = held() / 2;
	sf_item_cache_drop(c, &owner);
	ck_assert_uint_eq(held(), one);
	got = sf_item_cache_get(c, &w);
	ck_assert_ptr_eq(got, y.item);
	sf_cached_unref(c, got);
	load(c, want(0), &x); /* no new ones */
	ck_assert_int_eq(wait_done(&x), -ECANCELED);
	sf_item_cache_drop(c, &other);
	ck_assert_uint_eq(held(), 0);
	sf_item_cache_free(c);
	end();
}
END_TEST

/* What the wall clock says: an hour more while it is ahead. */
static _Atomic bool ahead;

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	long r = syscall(SYS_clock_gettime, clock, ret);

	if (ahead && clock == CLOCK_REALTIME)
		ret->tv_sec += 3600;
	return (int)r;
}

static struct sf_source_ops deaf_ops;
static struct sf_io_req *_Atomic deaf_req;
static _Atomic unsigned cancels;

static void deaf_submit(struct sf_source *s, struct sf_io_req *req)
{
	(void)s;
	deaf_req = req;
}

static void deaf_cancel(struct sf_source *s, struct sf_io_req *req)
{
	(void)s;
	(void)req;
	cancels++;
}

static void *end_the_second(void *arg)
{
	(void)arg;
	while (cancels < 2)
		usleep(1000);
	sf_io_req_end(deaf_req, -ECANCELED);
	return NULL;
}

/* A request that is cancelled too early is cancelled again soon, whoever sets the clock meanwhile. */
START_TEST(a_clock_that_is_set_keeps_no_end_waiting)
{
	struct sf_item_cache *c;
	pthread_t thread;
	struct wait x;

	begin(0);
	deaf_ops = *src->ops;
	deaf_ops.submit = deaf_submit;
	deaf_ops.cancel = deaf_cancel;
	deaf_ops.lend = NULL;
	src->ops = &deaf_ops;
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	load(c, want(0), &x);
	while (!deaf_req)
		usleep(1000);
	ck_assert_int_eq(pthread_create(&thread, NULL, end_the_second, NULL), 0);
	ahead = true;
	free_cache(c);
	ahead = false;
	pthread_join(thread, NULL);
	ck_assert_int_eq(x.r, -ECANCELED);
	end();
}
END_TEST

/* _i: bytes of the file from the blob on; of 8 its header's length is whole, and says too much. */
START_TEST(a_blob_at_the_very_end_of_its_file_is_refused)
{
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct wait x;

	begin(0);
	sf_budget_set_limit(io.budget, 2 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	w = want(0);
	w.kind = SF_CACHED_BLOB;
	w.off = file.len - (uint64_t)_i;
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), -EBADMSG);
	ck_assert_msg(strstr(x.w.err.msg,
	                     _i < 8 ? "a safetensors blob at" : "safetensors header at") != NULL,
	              "%s", x.w.err.msg);
	free_cache(c);
	end();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("item_cache");
	TCase *t = tcase_create("item_cache");

	tcase_add_test(t, all_who_ask_get_one_load);
	tcase_add_test(t, it_holds_what_fits_and_forgets_the_oldest);
	tcase_add_test(t, what_does_not_fit_names_the_numbers_and_the_option);
	tcase_add_test(t, all_who_wait_hear_of_a_failure_and_the_next_one_tries_again);
	tcase_add_test(t, its_end_ends_loads_that_hang);
	tcase_add_test(t, thousands_that_fail_at_once_do_not_nest);
	tcase_add_test(t, no_more_loads_run_than_fit);
	tcase_add_test(t, loads_that_wait_come_in_order_and_one_that_is_given_up_does_not);
	tcase_add_test(t, an_item_may_have_its_turn_while_it_is_given_up);
	tcase_add_test(t, who_holds_an_item_is_told_that_there_is_no_room);
	tcase_add_test(t, who_may_not_wait_is_told_when_a_load_begins_anew);
	tcase_add_test(t, a_load_that_needs_more_begins_anew);
	tcase_add_test(t, an_item_is_known_by_file_offset_and_kind);
	tcase_add_test(t, a_clock_that_is_set_keeps_no_end_waiting);
	tcase_add_test(t, what_is_one_owners_no_other_sees);
	tcase_add_loop_test(t, a_blob_at_the_very_end_of_its_file_is_refused, 6, 9);
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
