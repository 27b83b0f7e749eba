#include "config.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "store/filter.h"
#include "tests/lib/cache_world.h"

#define B SF_CACHE_BLOCK

static struct cache_world w;

/* ---- what is fetched, and how often ---- */

START_TEST(a_read_fetches_the_blocks_under_it_once)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 3 * B + 100, 10); /* one block */
	ck_assert_uint_eq(w.far.requests, 1);
	ck_assert_uint_eq(w.far.bytes, B);
	cw_read(&w, src, 3 * B, B);
	cw_read(&w, src, 4 * B - 1, 1);
	ck_assert_uint_eq(w.far.requests, 1);
	cw_read(&w, src, 4 * B - 1, 2); /* what is there is not fetched again */
	ck_assert_uint_eq(w.far.requests, 2);
	ck_assert_uint_eq(w.far.bytes, 2 * B);
	cw_read(&w, src, CW_BYTES - 1, 1); /* the last one is short */
	ck_assert_uint_eq(w.far.bytes, 2 * B + CW_BYTES % B);
	cw_read(&w, src, 0, CW_BYTES);
	ck_assert_uint_eq(w.far.bytes, CW_BYTES);
	w.far.requests = 0;
	cw_read(&w, src, 1, CW_BYTES - 2);
	ck_assert_uint_eq(w.far.requests, 0);
	ck_assert_uint_eq(w.io.counters.cache_fetched_bytes, CW_BYTES);
	ck_assert_uint_eq(w.io.counters.cache_misses, 4);
	ck_assert_uint_eq(w.io.counters.cache_hits, 3);
	/* whole reads, a byte beside one that was missing, all but the missing blocks */
	ck_assert_uint_eq(w.io.counters.cache_hit_bytes,
	                  B + 1 + CW_BYTES - 2 + 1 + 2 * B + CW_BYTES % B);
	sf_source_unref(src);
	cw_end(&w);

	/* another process: all of it is there */
	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES);
	ck_assert_uint_eq(w.far.requests, 0);
	sf_source_unref(src);
	cw_end(&w);

	/* another version: nothing is */
	cw_begin(&w, "two");
	src = cw_open(&w);
	cw_read(&w, src, 0, 1);
	ck_assert_uint_eq(w.far.requests, 1);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(long_reads_are_fetched_in_requests_of_the_sources_length)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, 40 * B);
	ck_assert_uint_eq(w.far.requests, 4); /* of 8 blocks, and one at each end */
	ck_assert_uint_ge(w.far.most, 2);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(without_a_version_nothing_is_kept)
{
	static const char *const tags[] = { "", "W/\"weak\"" };

	for (unsigned i = 0; i < SF_ARRAY_LEN(tags); i++) {
		cw_begin(&w, tags[i]);
		struct sf_source *src = cw_open(&w);
		cw_read(&w, src, 5, 10);
		cw_read(&w, src, 5, 10);
		ck_assert_uint_eq(w.far.requests, 2);
		ck_assert_uint_eq(w.far.bytes, 20);
		sf_source_unref(src);
		cw_end(&w);
	}
	cw_remove(&w);
}
END_TEST

/* ---- lending ---- */

START_TEST(what_is_there_is_lent_and_stays_while_it_is)
{
	struct sf_source *src;
	struct sf_lease lease;
	struct iovec iov;
	uint8_t got[1000];

	cw_begin(&w, NULL);
	src = cw_open(&w);
	ck_assert_int_eq(sf_source_lend(src, 10, 1000, SF_FETCH_TENSOR, &lease), -EAGAIN);
	iov = (struct iovec){ got, 1000 };
	ck_assert_int_eq(sf_source_try(src, 10, &iov, 1, 1000, SF_FETCH_TENSOR, NULL), -EAGAIN);
	cw_read(&w, src, 0, 1);
	ck_assert_int_eq(sf_source_lend(src, 10, 1000, SF_FETCH_TENSOR, &lease), 0);
	ck_assert_int_eq(sf_source_try(src, 10, &iov, 1, 1000, SF_FETCH_TENSOR, NULL), 0);
	ck_assert_mem_eq(got, w.bytes + 10, 1000);
	ck_assert_int_eq(sf_source_lend(src, B - 1, 2, SF_FETCH_TENSOR, &(struct sf_lease){ 0 }),
	                 -EAGAIN);
	/* evicted, closed: what is lent is lent */
	ck_assert_int_eq(unlink(cw_file(&w, ".data")), 0);
	ck_assert_int_eq(unlink(cw_file(&w, ".map")), 0);
	sf_source_unref(src);
	ck_assert_mem_eq(lease.at, w.bytes + 10, 1000);
	sf_lease_release(&lease);
	ck_assert_uint_eq(w.far.requests, 1);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

static int lent(struct sf_source *src, uint64_t off)
{
	struct sf_lease lease;
	int r = sf_source_lend(src, off, 100, SF_FETCH_TENSOR, &lease);

	if (r == 0) {
		ck_assert_mem_eq(lease.at, w.bytes + off, 100);
		sf_lease_release(&lease);
	}
	return r;
}

/* More than is checked at once, and nothing but lends: what is checked moves on with the reader. */
START_TEST(who_is_lent_all_of_it_reads_on_without_a_wait)
{
	const size_t n = 40u << 20;
	struct sf_store *far, *store;
	struct sf_source *src;

	cw_begin(&w, NULL);
	free(w.bytes);
	w.bytes = malloc(n);
	for (size_t i = 0; i < n; i++)
		w.bytes[i] = (uint8_t)(i * 2654435761u >> 13);
	w.object.at = w.bytes;
	w.object.len = n;
	struct sf_far large = { .etag = "large" };
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(sf_store_far(&w.io, &w.object, 1, &large, &far, NULL), 0);
		ck_assert_int_eq(sf_store_cached(far, w.cache, &store, NULL), 0);
		ck_assert_int_eq(store->ops->open(store, "a/x", NULL, &src, NULL), 0);
		cw_read(&w, src, 0, i ? B : n);
		for (uint64_t at = B; i && at < n; at += B) {
			for (int k = 0; k < 2000 && lent(src, at); k++)
				usleep(5000);
			ck_assert_int_eq(lent(src, at), 0);
		}
		sf_source_unref(src);
		sf_store_free(store);
	}
	ck_assert_uint_eq(large.bytes, n);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(what_lies_on_disk_is_checked_ahead_of_who_reads_on)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, 30 * B); /* and not the rest */
	sf_source_unref(src);
	cw_end(&w);

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 5 * B, 1); /* who reads here and there reads no more than that */
	usleep(50000);
	ck_assert_int_eq(lent(src, 6 * B), -EAGAIN);
	cw_read(&w, src, 6 * B, 1);
	for (int i = 0; i < 2000 && lent(src, 29 * B); i++)
		usleep(5000);
	ck_assert_int_eq(lent(src, 29 * B), 0);
	for (uint64_t i = 7; i < 29; i++)
		ck_assert_int_eq(lent(src, i * B), 0);
	ck_assert_int_eq(lent(src, 30 * B), -EAGAIN); /* not there, and not fetched for it */
	ck_assert_uint_eq(w.far.requests, 0);
	cw_read(&w, src, 0, CW_BYTES);
	ck_assert_uint_eq(w.far.bytes, CW_BYTES - 30 * B);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* ---- many at once ---- */

#define READERS 8
static struct sf_source *shared[READERS];
static _Atomic unsigned failures;

static void *reader(void *arg)
{
	const uintptr_t who = (uintptr_t)arg;
	uint64_t state = 7 + who / 2; /* two of each kind ask for the same */

	for (int i = 0; i < 40; i++) {
		uint64_t off = sf_test_below(&state, CW_BYTES - 1),
			 len = 1 + sf_test_below(&state, SF_MIN(CW_BYTES - off, 5 * B) - 1);
		struct sf_lease lease;
		failures += cw_read_err(&w, shared[who], off, len, NULL) != 0;
		if (sf_source_lend(shared[who], off, len, SF_FETCH_TENSOR, &lease) == 0) {
			failures += memcmp(lease.at, w.bytes + off, len) != 0;
			sf_lease_release(&lease);
		}
	}
	return NULL;
}

START_TEST(readers_at_once_fetch_each_block_once)
{
	pthread_t thread[READERS];

	cw_begin(&w, NULL);
	w.far.reorder = _i & 1;
	w.far.inline_of = _i & 2 ? 3 : 0;
	for (uintptr_t i = 0; i < READERS; i++)
		shared[i] = cw_open(&w); /* each its own source, as two views have */
	for (uintptr_t i = 0; i < READERS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, reader, (void *)i), 0);
	for (uintptr_t i = 0; i < READERS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(failures, 0);
	ck_assert_uint_le(w.far.bytes, CW_BYTES);
	ck_assert_uint_eq(w.io.counters.cache_fetched_bytes, w.far.bytes);
	for (unsigned i = 0; i < READERS; i++)
		sf_source_unref(shared[i]);
	struct sf_budget_stat stat;
	sf_budget_stat(w.io.budget, &stat);
	ck_assert_uint_eq(stat.held, 0);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* ---- ends before the end ---- */

struct asked {
	struct sf_io_req req;
	struct iovec iov;
	uint8_t *at;
	_Atomic int r; /* 1: not yet */
};

static void answered(struct sf_io_req *req, int r)
{
	sf_container_of(req, struct asked, req)->r = r;
}

static void ask(struct asked *a, struct sf_source *src, uint64_t off, uint64_t len)
{
	memset(a, 0, sizeof(*a));
	a->r = 1;
	a->at = malloc(len);
	a->iov = (struct iovec){ a->at, len };
	a->req = (struct sf_io_req){ .off = off,
		                     .len = len,
		                     .iov = &a->iov,
		                     .niov = 1,
		                     .kind = SF_FETCH_TENSOR,
		                     .done = answered };
	if (sf_source_submit(src, &a->req)) /* it has ended */
		a->r = a->req.r;
}

static int outcome(struct asked *a)
{
	while (a->r == 1)
		sched_yield();
	return a->r;
}

START_TEST(one_readers_cancel_is_no_others)
{
	struct sf_source *src;
	struct asked one, two, three;

	cw_begin(&w, NULL);
	w.far.hold_until = 2; /* the first request stays until there is another */
	src = cw_open(&w);
	ask(&one, src, 0, 100);
	while (!w.far.requests)
		sched_yield();
	ask(&two, src, 50, 100);  /* waits for the first one's block */
	ask(&three, src, 90, 20); /* so does this */
	src->ops->cancel(src, &three.req);
	ck_assert_int_eq(outcome(&three), -ECANCELED);
	ck_assert_ptr_nonnull(strstr(three.req.err.msg, "canceled"));
	ck_assert_int_eq(one.r, 1);
	cw_read(&w, src, 20 * B, 1);
	ck_assert_int_eq(outcome(&one), 0);
	ck_assert_int_eq(outcome(&two), 0);
	ck_assert_mem_eq(two.at, w.bytes + 50, 100);
	src->ops->cancel(src, &three.req); /* long gone */
	free(one.at);
	free(two.at);
	free(three.at);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(a_canceled_fetch_is_made_anew_for_who_waits)
{
	struct sf_source *src;
	struct asked one, two;

	for (int i = 0; i < 20; i++) {
		cw_begin(&w, NULL);
		src = cw_open(&w);
		ask(&one, src, 0, 100);
		if (i & 1)
			while (!w.far.requests)
				sched_yield();
		ask(&two, src, 50, 100);
		src->ops->cancel(src, &one.req);
		int r = outcome(&one);
		ck_assert(r == 0 || r == -ECANCELED);
		ck_assert_int_eq(outcome(&two), 0);
		ck_assert_mem_eq(two.at, w.bytes + 50, 100);
		free(one.at);
		free(two.at);
		sf_source_unref(src);
		cw_end(&w);
		cw_remove(&w);
	}
}
END_TEST

START_TEST(a_failure_is_told_to_all_who_wait_and_nothing_is_kept)
{
	struct sf_fault plan = { .fail_at = 0, .code = -EIO, .busy = true };
	char at[] = "http://there";
	struct sf_far far = { .etag = "f" };
	struct sf_store *mem, *faulty, *store;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_source *src;

	cw_begin(&w, NULL);
	ck_assert_int_eq(sf_store_far(&w.io, &w.object, 1, &far, &mem, NULL), 0);
	mem->at = at;
	ck_assert_int_eq(sf_store_fault(mem, &plan, &faulty, NULL), 0);
	ck_assert_str_eq(faulty->at, at); /* filters say the same */
	ck_assert_int_eq(sf_store_cached(faulty, w.cache, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "a/x", NULL, &src, NULL), 0);
	ck_assert_int_eq(cw_read_err(&w, src, 0, 100, &err), -EIO);
	ck_assert_ptr_nonnull(strstr(err.msg, "injected"));
	cw_read(&w, src, 0, 100); /* asked again */
	sf_source_unref(src);
	sf_store_free(store);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* The deadline that a fetch missed is that of the read which began it. */
START_TEST(one_readers_timeout_is_no_others)
{
	struct sf_fault plan = { .fail_at = 0, .code = -ETIMEDOUT, .delay_ms = 100 };
	struct sf_far far = { .etag = "f" };
	struct sf_store *mem, *faulty, *store;
	struct sf_source *src;
	struct asked a[3];
	unsigned late = 0;

	cw_begin(&w, NULL);
	ck_assert_int_eq(sf_store_far(&w.io, &w.object, 1, &far, &mem, NULL), 0);
	ck_assert_int_eq(sf_store_fault(mem, &plan, &faulty, NULL), 0);
	ck_assert_int_eq(sf_store_cached(faulty, w.cache, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "a/x", NULL, &src, NULL), 0);
	for (unsigned i = 0; i < SF_ARRAY_LEN(a); i++)
		ask(&a[i], src, 100 * i, 100);
	for (unsigned i = 0; i < SF_ARRAY_LEN(a); i++) {
		int r = outcome(&a[i]);
		late += r == -ETIMEDOUT;
		ck_assert_msg(r == 0 || r == -ETIMEDOUT, "%d %s", r, a[i].req.err.msg);
		if (r == 0)
			ck_assert_mem_eq(a[i].at, w.bytes + 100 * i, 100);
		free(a[i].at);
	}
	ck_assert_uint_eq(late, 1);
	sf_source_unref(src);
	sf_store_free(store);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* A source that looks at the cache while something is asked of it: where a lock of the cache is held
 * meanwhile, it never answers. */
static struct sf_source *outer;

static void look_and_submit(struct sf_source *src, struct sf_io_req *req)
{
	uint8_t byte;
	struct iovec iov = { &byte, 1 };

	failures += sf_source_try(outer, 0, &iov, 1, 1, SF_FETCH_TENSOR, NULL) != -EAGAIN;
	sf_filter_submit(src, req);
}

static int wrap_looking(void *arg, struct sf_source *src, struct sf_source **ret,
                        struct sf_error *err)
{
	static const struct sf_source_ops ops = { .submit = look_and_submit };
	struct sf_filter *f = calloc(1, sizeof(*f));

	(void)arg, (void)err;
	ck_assert_ptr_nonnull(f);
	sf_filter_init(f, &ops, src);
	*ret = &f->s;
	return 0;
}

START_TEST(nothing_is_locked_while_something_is_asked_for)
{
	struct sf_far far = { .etag = "f" };
	struct sf_store *mem, *looking, *store;

	cw_begin(&w, NULL);
	ck_assert_int_eq(sf_store_far(&w.io, &w.object, 1, &far, &mem, NULL), 0);
	ck_assert_int_eq(sf_store_filter(mem, wrap_looking, NULL, NULL, &looking, NULL), 0);
	ck_assert_int_eq(sf_store_cached(looking, w.cache, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "a/x", NULL, &outer, NULL), 0);
	cw_read(&w, outer, 20 * B, 1);
	cw_read(&w, outer, 10, 1);
	ck_assert_uint_eq(far.requests, 2);
	ck_assert_uint_eq(failures, 0);
	sf_source_unref(outer);
	sf_store_free(store);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* Two servers may call what they have the same. */
START_TEST(another_server_is_another_object)
{
	static char at[2][16] = { "http://one", "http://two" };

	cw_begin(&w, NULL);
	for (int i = 0; i < 4; i++) {
		struct sf_far far = { .etag = "same" };
		struct sf_store *mem, *store;
		struct sf_source *src;
		ck_assert_int_eq(sf_store_far(&w.io, &w.object, 1, &far, &mem, NULL), 0);
		mem->at = at[i & 1];
		ck_assert_int_eq(sf_store_cached(mem, w.cache, &store, NULL), 0);
		ck_assert_int_eq(store->ops->open(store, "a/x", NULL, &src, NULL), 0);
		cw_read(&w, src, 0, 100);
		ck_assert_uint_eq(far.requests > 0, i < 2);
		sf_source_unref(src);
		sf_store_free(store);
	}
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* ---- what lies on disk ---- */

START_TEST(the_files_are_ours_alone_and_name_no_secret)
{
	struct sf_source *src;
	struct stat st;

	cw_begin(&w, NULL);
	umask(0);
	src = cw_open(&w);
	cw_read(&w, src, 20 * B, 1);
	ck_assert_int_eq(stat(cw_file(&w, ".data"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_uint_eq((uint64_t)st.st_size, CW_BYTES);
	ck_assert_uint_le((uint64_t)st.st_blocks * 512, 2 * B); /* the rest are holes */
	ck_assert_int_eq(stat(cw_file(&w, ".map"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

static void flip(const char *path, uint64_t *state)
{
	int fd = open(path, O_RDWR);
	struct stat st;
	uint8_t byte;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	if (st.st_size) {
		off_t at = (off_t)sf_test_below(state, (size_t)st.st_size);
		ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
		byte ^= (uint8_t)(1u << sf_test_below(state, 8));
		ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
	}
	close(fd);
}

START_TEST(damage_on_disk_is_a_miss)
{
	uint64_t state = sf_test_seed("damage");

	for (int round = 0; round < 60; round++) {
		cw_begin(&w, NULL);
		struct sf_source *src = cw_open(&w);
		cw_read(&w, src, 0, CW_BYTES);
		sf_source_unref(src);
		cw_end(&w);
		for (size_t n = 1 + sf_test_below(&state, 4); n; n--) {
			const char *path = cw_file(&w, sf_test_below(&state, 2) ? ".map" : ".data");
			struct stat st;
			switch (sf_test_below(&state, 8)) {
			case 0:
				ck_assert_int_eq(stat(path, &st), 0);
				ck_assert_int_eq(
					truncate(path, (off_t)sf_test_below(
							       &state, (size_t)st.st_size + 9)),
					0);
				break;
			case 1:
				ck_assert_int_eq(truncate(path, 0), 0);
				break;
			default:
				flip(path, &state);
			}
		}
	}
	cw_remove(&w);
}
END_TEST

/* Somebody puts another object's files, whole and right, in the place of ours. */
START_TEST(files_of_another_object_are_not_ours)
{
	char map[400], data[400], other_map[400], other_data[400];
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);
	snprintf(map, sizeof(map), "%s", cw_file(&w, ".map"));
	snprintf(data, sizeof(data), "%s", cw_file(&w, ".data"));
	snprintf(other_map, sizeof(other_map), "%s/m", w.dir);
	snprintf(other_data, sizeof(other_data), "%s/d", w.dir);
	ck_assert_int_eq(rename(map, other_map), 0);
	ck_assert_int_eq(rename(data, other_data), 0);
	for (size_t i = 0; i < CW_BYTES; i++)
		w.bytes[i] ^= 0xff; /* the next version */
	cw_begin(&w, "two");
	src = cw_open(&w);
	cw_read(&w, src, 0, 1);
	sf_source_unref(src);
	cw_end(&w);
	snprintf(map, sizeof(map), "%s", cw_file(&w, ".map"));
	snprintf(data, sizeof(data), "%s", cw_file(&w, ".data"));
	if (_i & 1)
		ck_assert_int_eq(rename(other_map, map), 0);
	if (_i & 2)
		ck_assert_int_eq(rename(other_data, data), 0);
	cw_begin(&w, "two");
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(a_file_cut_while_it_is_open_is_a_miss)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES);
	ck_assert_int_eq(truncate(cw_file(&w, ".data"), 0), 0);
	cw_read(&w, src, 0, CW_BYTES);
	cw_read(&w, src, 5, CW_BYTES - 5);
	cw_read(&w, src, 5, CW_BYTES - 5);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* ---- no room ---- */

START_TEST(a_disk_that_refuses_is_said_once_and_done_without)
{
	struct rlimit old, lim;
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, 1);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
	lim = (struct rlimit){ 5 * B, old.rlim_max };
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &lim), 0);
	for (uint64_t i = 0; i < 40; i++)
		cw_read(&w, src, i * B, B);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
	const char *said = strstr(w.logged, "File too large: nothing more is kept");
	ck_assert_ptr_nonnull(said);
	ck_assert_ptr_null(strstr(said + 1, "File too"));
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(no_more_is_kept_than_was_allowed)
{
	struct sf_source *src;
	struct stat st;

	cw_begin_size(&w, NULL, 10 * B);
	src = cw_open(&w);
	for (uint64_t i = 0; i < 40; i++)
		cw_read(&w, src, i * B + 7, 100);
	ck_assert_int_eq(stat(cw_file(&w, ".data"), &st), 0);
	ck_assert_uint_le((uint64_t)st.st_blocks * 512, 10 * B);
	/* what nobody keeps is not rounded up */
	ck_assert_uint_lt(w.far.bytes, 11 * B);
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(nor_by_many_at_once)
{
	struct asked a[30];
	struct sf_source *src;
	struct stat st;

	cw_begin_size(&w, NULL, 10 * B);
	w.far.hold_until = 8; /* nothing has come before many are under way */
	src = cw_open(&w);
	for (unsigned i = 0; i < SF_ARRAY_LEN(a); i++)
		ask(&a[i], src, i * B + 7, 100);
	for (unsigned i = 0; i < SF_ARRAY_LEN(a); i++) {
		ck_assert_int_eq(outcome(&a[i]), 0);
		ck_assert_mem_eq(a[i].at, w.bytes + i * B + 7, 100);
		free(a[i].at);
	}
	ck_assert_int_eq(stat(cw_file(&w, ".data"), &st), 0);
	ck_assert_uint_le((uint64_t)st.st_blocks * 512, 10 * B);
	ck_assert_uint_ge((uint64_t)st.st_blocks * 512, 9 * B);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(without_memory_the_read_goes_through)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	sf_budget_set_limit(w.io.budget, 1);
	cw_read(&w, src, 0, 20 * B); /* one run at a time */
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

static void clean(void)
{
	memset(&w, 0, sizeof(w));
	failures = 0;
}

int main(void)
{
	Suite *s = suite_create("cache");
	TCase *t = tcase_create("cache");

	tcase_add_checked_fixture(t, clean, NULL);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_read_fetches_the_blocks_under_it_once);
	tcase_add_test(t, long_reads_are_fetched_in_requests_of_the_sources_length);
	tcase_add_test(t, without_a_version_nothing_is_kept);
	tcase_add_test(t, what_is_there_is_lent_and_stays_while_it_is);
	tcase_add_test(t, what_lies_on_disk_is_checked_ahead_of_who_reads_on);
	tcase_add_test(t, who_is_lent_all_of_it_reads_on_without_a_wait);
	tcase_add_loop_test(t, readers_at_once_fetch_each_block_once, 0, 4);
	tcase_add_test(t, one_readers_cancel_is_no_others);
	tcase_add_test(t, a_canceled_fetch_is_made_anew_for_who_waits);
	tcase_add_test(t, a_failure_is_told_to_all_who_wait_and_nothing_is_kept);
	tcase_add_test(t, one_readers_timeout_is_no_others);
	tcase_add_test(t, nothing_is_locked_while_something_is_asked_for);
	tcase_add_test(t, another_server_is_another_object);
	tcase_add_test(t, the_files_are_ours_alone_and_name_no_secret);
	tcase_add_test(t, damage_on_disk_is_a_miss);
	tcase_add_loop_test(t, files_of_another_object_are_not_ours, 0, 4);
	tcase_add_test(t, a_file_cut_while_it_is_open_is_a_miss);
	tcase_add_test(t, a_disk_that_refuses_is_said_once_and_done_without);
	tcase_add_test(t, no_more_is_kept_than_was_allowed);
	tcase_add_test(t, nor_by_many_at_once);
	tcase_add_test(t, without_memory_the_read_goes_through);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
