#include "config.h"

#include "tests/lib/reader_world.h"

static const enum sf_dtype floats[] = { SF_FLOAT32, SF_BFLOAT16, SF_FLOAT64, SF_FLOAT16 };

/* A random part and its bytes at @want. */
static struct ask random_ask(const struct fake *f, uint64_t *seed, uint8_t *want)
{
	static const uint8_t literal[64] = "literal bytes of a header, made by the view";
	struct ask k = { .kind = (int)sf_test_below(seed, 10) };
	const uint8_t *from = literal;
	uint64_t all = sizeof(literal);

	if (k.kind > ASK_BYTES)
		k.kind = ASK_TENSOR;
	if (k.kind == ASK_TENSOR) {
		k.index = (uint32_t)sf_test_below(seed, f->ntensors);
		const struct fake_tensor *t = &f->t[k.index];
		from = t->dense;
		all = t->bytes;
		if (sf_dtype_info(t->dtype)->is_float && sf_test_below(seed, 3) == 0) {
			k.cast = floats[sf_test_below(seed, SF_ARRAY_LEN(floats))];
			uint64_t n = t->bytes / sf_dtype_info(t->dtype)->bytes;
			all = n * sf_dtype_info(k.cast)->bytes;
			uint8_t *cast = malloc(all + 1);
			sf_dtype_cast(cast, k.cast, t->dense, t->dtype, n);
			k.off = sf_test_below(seed, all + 1);
			k.len = sf_test_below(seed, all - k.off + 1);
			memcpy(want, cast + k.off, k.len);
			free(cast);
			return k;
		}
	} else if (k.kind == ASK_OBJECT) {
		k.index = (uint32_t)sf_test_below(seed, FAKE_OBJECTS);
		from = f->o[k.index].at;
		all = f->o[k.index].len;
	} else if (k.kind == ASK_LISTED) {
		k.index = (uint32_t)sf_test_below(seed, f->ckpt->nlisting);
		unsigned i = 0;
		while (strcmp(f->name[i], f->ckpt->listing[k.index].name) != 0)
			i++;
		from = f->file[i].at;
		all = f->file[i].len;
	}
	k.off = sf_test_below(seed, all + 1);
	k.len = sf_test_below(seed, SF_MIN(all - k.off, 50000u) + 1);
	if (k.kind == ASK_BYTES) {
		k.bytes = sf_test_below(seed, 2) ? literal + k.off : NULL;
		if (!k.bytes) {
			memset(want, 0, k.len);
			return k;
		}
	}
	memcpy(want, from + k.off, k.len);
	return k;
}

/* Reads @n random ranges in the ways there are and compares. */
static void compare(struct sf_reader *r, const struct fake *f, uint64_t seed, unsigned n)
{
	uint8_t *want = malloc(ROOM), *got = malloc(ROOM);

	for (unsigned i = 0; i < n; i++) {
		struct asks a = { .n = 1 + (unsigned)sf_test_below(&seed, 6) };
		struct sf_read rd = { .emit = emit, .arg = &a };
		bool own = sf_test_below(&seed, 2);
		for (unsigned k = 0; k < a.n; k++) {
			a.at[k] = random_ask(f, &seed, want + rd.len);
			rd.len += a.at[k].len;
		}
		rd.buf = own ? got : NULL;
		if (own)
			memset(got, 0xaa, rd.len);
		int e = sf_read_wait(r, &rd);
		ck_assert_msg(e == 0, "read %u: %d %s", i, e, rd.err.msg);
		uint64_t sum = 0;
		for (int k = 0; k < rd.niov; k++) {
			if (!own)
				memcpy(got + sum, rd.iov[k].iov_base, rd.iov[k].iov_len);
			sum += rd.iov[k].iov_len;
		}
		ck_assert_uint_eq(sum, rd.len);
		if (memcmp(got, want, rd.len) == 0) {
			sf_read_release(&rd);
			continue;
		}
		for (uint64_t k = 0, part = 0, begin = 0; k < rd.len; k++) {
			while (k - begin >= a.at[part].len)
				begin += a.at[part++].len;
			ck_assert_msg(got[k] == want[k],
			              "read %u, part %d of %u (kind %d, index %u, form %d, off "
			              "%llu, len %llu, cast %d), "
			              "byte %llu: %02x, wanted %02x",
			              i, (int)part, a.n, a.at[part].kind, a.at[part].index,
			              a.at[part].kind == ASK_TENSOR
			                      ? (int)f->t[a.at[part].index].form
			                      : -1,
			              (unsigned long long)a.at[part].off,
			              (unsigned long long)a.at[part].len, a.at[part].cast,
			              (unsigned long long)(k - begin), got[k], want[k]);
		}
		sf_read_release(&rd);
	}
	free(want);
	free(got);
}

struct thread {
	pthread_t id;
	struct sf_reader *r;
	const struct fake *f;
	uint64_t seed;
	unsigned n;
};
static void *compare_thread(void *arg)
{
	struct thread *t = arg;

	compare(t->r, t->f, t->seed, t->n);
	return NULL;
}

/* Property: any ranges of tensors in any item form, objects and files, put together in any way, are
 * the dense bytes. */
START_TEST(random_reads_give_the_dense_bytes)
{
	uint64_t seed = sf_test_seed("random_reads") + (uint64_t)_i;
	unsigned rounds = _i == 2 ? 2 : 6, reads = _i == 2 ? 50 : 200;

	for (unsigned round = 0; round < rounds; round++) {
		struct sf_store *store;
		struct sf_reader *r;
		struct sf_fault plan;
		struct sf_io io;
		struct fake f;
		char dir[256];
		ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
		if (_i == 3) {
			ck_assert_int_eq(sf_io_set_open(&io, 8, NULL), 0);
			ck_assert_int_eq(sf_guard_install(), 0);
			io.guard = true;
		}
		fake_random(&f, seed + round * 1000);
		open_reader(&f, &io, _i, &plan, dir, &store, &r);
		struct thread t[4];
		for (unsigned i = 0; i < SF_ARRAY_LEN(t); i++) {
			t[i] = (struct thread){
				.r = r, .f = &f, .seed = seed + round * 1000 + i, .n = reads
			};
			ck_assert_int_eq(pthread_create(&t[i].id, NULL, compare_thread, &t[i]), 0);
		}
		for (unsigned i = 0; i < SF_ARRAY_LEN(t); i++)
			pthread_join(t[i].id, NULL);
		close_reader(&f, &io, dir, store, r);
	}
}
END_TEST

struct objects_seen {
	const struct fake *f;
	unsigned seen[FAKE_OBJECTS], large;
};
static int see_object(void *arg, uint32_t object, const uint8_t *item, uint64_t len,
                      struct sf_error *err)
{
	struct objects_seen *s = arg;

	s->seen[object]++;
	ck_assert_uint_eq(len, s->f->o[object].len);
	if (!item)
		s->large++;
	else
		ck_assert_mem_eq(item, s->f->o[object].at, len);
	return 0;
}

START_TEST(whole_objects_come_once_and_long_ones_by_length)
{
	uint64_t seed = sf_test_seed("whole_objects");
	struct sf_store *store;
	struct sf_reader *r;
	struct sf_fault plan;
	struct sf_io io;
	struct fake f;
	char dir[256];
	uint32_t all[FAKE_OBJECTS];

	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	fake_random(&f, seed);
	open_reader(&f, &io, _i, &plan, dir, &store, &r);
	for (unsigned i = 0; i < FAKE_OBJECTS; i++)
		all[i] = i;
	for (uint64_t limit = 0; limit < 6000; limit += 500) {
		struct objects_seen s = { .f = &f };
		struct sf_error err = SF_ERROR_INIT;
		unsigned large = 0;
		ck_assert_msg(sf_read_objects(r, all, FAKE_OBJECTS, limit, see_object, &s, &err) ==
		                      0,
		              "%s", err.msg);
		for (unsigned i = 0; i < FAKE_OBJECTS; i++) {
			uint64_t len = f.o[i].len;
			uint8_t tail[5000];
			ck_assert_uint_eq(s.seen[i], 1);
			large += f.o[i].len > limit;
			ck_assert_int_eq(
				sf_read_object_range(r, i, len / 2, tail, len - len / 2, NULL), 0);
			ck_assert_mem_eq(tail, f.o[i].at + len / 2, len - len / 2);
			ck_assert_int_lt(sf_read_object_range(r, i, len, tail, 1, &err), 0);
		}
		ck_assert_uint_eq(s.large, large);
	}
	close_reader(&f, &io, dir, store, r);
}
END_TEST

/* One tensor of rows*cols floats cut in FAKE_FILES columns or rows, torch items, for counting and
 * timing. */
static void one_big(struct fake *f, uint64_t rows, uint64_t cols, bool columns)
{
	uint64_t shape[2] = { rows, cols };
	struct fake_tensor *t = &f->t[0];
	uint32_t number, place;

	fake_begin(f, 1);
	f->ntensors = 1;
	t->dtype = SF_FLOAT32;
	t->form = FAKE_TORCH;
	t->bytes = rows * cols * 4;
	t->dense = malloc(t->bytes);
	for (uint64_t k = 0; k < rows * cols; k++)
		memcpy(t->dense + k * 4, &(uint32_t){ (uint32_t)k * 2654435761u }, 4);
	ck_assert_int_ge(sf_ckpt_builder_tensor(f->b, "w", 1, SF_FLOAT32, shape, 2, &number, NULL),
	                 0);
	for (unsigned i = 0; i < FAKE_FILES; i++) {
		uint64_t n = columns ? cols : rows, from = n * i / FAKE_FILES,
			 to = n * (i + 1) / FAKE_FILES;
		uint64_t origin[2] = { columns ? 0 : from, columns ? from : 0 };
		uint64_t extent[2] = { columns ? rows : to - from, columns ? to - from : cols };
		ck_assert_int_ge(sf_ckpt_builder_chunk(f->b, origin, extent, NULL), 0);
		fake_item(f, &f->file[i], t, shape, 2, origin, extent);
		ck_assert_int_ge(sf_ckpt_builder_place(f->b, f->name[i], strlen(f->name[i]),
		                                       SF_ITEM_TORCH, SF_CODEC_NONE, &place, NULL),
		                 0);
		sf_ckpt_builder_set_item(f->b, number, i, place, 0, f->file[i].len);
	}
}

/* The promise: a read fetches what it asks for, and each item's header once. */
START_TEST(a_tensor_is_fetched_once_with_a_header_an_item)
{
	struct sf_store *store;
	struct sf_reader *r;
	struct sf_fault plan;
	struct sf_io io;
	struct fake f;
	char dir[256];
	uint8_t *got;

	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	bool slices = _i >= 6; /* longer than one slice: several ask for the same header at once */
	one_big(&f, slices ? 1200 : 1000, 1000, _i & 1);
	open_reader(&f, &io, _i / 2 % 3, &plan, dir, &store, &r);
	got = malloc(f.t[0].bytes);
	for (int again = 0; again < 2; again++) {
		struct sf_error err = SF_ERROR_INIT;
		ck_assert_msg(sf_read_tensor(r, 0, 0, got, f.t[0].bytes, &err) == 0, "%s", err.msg);
		ck_assert_mem_eq(got, f.t[0].dense, f.t[0].bytes);
		ck_assert_uint_le(io.counters.fetched_bytes[SF_FETCH_TENSOR],
		                  (again + 1) * f.t[0].bytes * 105 / 100);
		ck_assert_uint_ge(io.counters.fetched_bytes[SF_FETCH_TENSOR],
		                  (again + 1) * f.t[0].bytes);
		ck_assert_uint_le(io.counters.fetched_requests[SF_FETCH_HEADER],
		                  FAKE_FILES * (slices ? 4 : 1));
		ck_assert_uint_le(io.counters.fetched_bytes[SF_FETCH_HEADER],
		                  io.counters.fetched_requests[SF_FETCH_HEADER] * 4096);
	}
	free(got);
	close_reader(&f, &io, dir, store, r);
}
END_TEST

struct tensor_thread {
	pthread_t id;
	struct sf_reader *r;
	const struct fake *f;
};
static void *tensor_thread(void *arg)
{
	const struct tensor_thread *t = arg;
	const struct fake_tensor *w = &t->f->t[0];
	struct asks a = { .at = { { ASK_TENSOR, 0, 0, w->bytes, SF_DTYPE_NONE, NULL } }, .n = 1 };

	for (int i = 0; i < 20; i++) {
		struct sf_read rd = { .emit = emit, .arg = &a, .len = w->bytes };
		uint64_t at = 0;
		int r = sf_read_wait(t->r, &rd);
		ck_assert_msg(r == 0, "%s", rd.err.msg);
		for (int k = 0; k < rd.niov; at += rd.iov[k++].iov_len)
			ck_assert_mem_eq(rd.iov[k].iov_base, w->dense + at, rd.iov[k].iov_len);
		ck_assert_uint_eq(at, w->bytes);
		sf_read_release(&rd);
	}
	return NULL;
}

/* Two files kept and two held by reads under way, however many those are and of how many files
 * each: a process that may open no more must do. */
START_TEST(reads_under_way_share_a_few_open_files)
{
	struct tensor_thread t[16];
	struct sf_store *store;
	struct sf_reader *r;
	struct sf_fault plan;
	struct rlimit lim;
	struct sf_io io;
	struct fake f;
	char dir[256];

	ck_assert_int_eq(sf_io_init(&io, 8, NULL), 0);
	ck_assert_int_eq(sf_io_set_open(&io, 2, NULL), 0);
	one_big(&f, 96, 1000, _i); /* of rows, what is long enough to be lent */
	open_reader(&f, &io, 1, &plan, dir, &store, &r);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
	rlim_t before = lim.rlim_cur;
	int next = dup(0); /* the lowest that is free */
	ck_assert_int_ge(next, 0);
	close(next);
	/* and what each thread of the pool may just be closing: it left the LRU before */
	lim.rlim_cur = (rlim_t)next + 4 + 8;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	for (unsigned i = 0; i < SF_ARRAY_LEN(t); i++) {
		t[i] = (struct tensor_thread){ .r = r, .f = &f };
		ck_assert_int_eq(pthread_create(&t[i].id, NULL, tensor_thread, &t[i]), 0);
	}
	for (unsigned i = 0; i < SF_ARRAY_LEN(t); i++)
		pthread_join(t[i].id, NULL);
	lim.rlim_cur = before;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	close_reader(&f, &io, dir, store, r);
}
END_TEST

/* Property: rows of shards that are long enough to be lent, from anywhere to anywhere, in order
 * between the others. */
START_TEST(lent_rows_of_column_shards_come_in_order)
{
	uint64_t seed = sf_test_seed("lent_rows");
	struct sf_store *store;
	struct sf_reader *r;
	struct sf_fault plan;
	struct sf_io io;
	struct fake f;
	char dir[256];
	unsigned lent = 0;
	uint8_t *got;

	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	one_big(&f, 60, _i & 1 ? 20000 : 2000 * FAKE_FILES, true);
	open_reader(&f, &io, _i / 2, &plan, dir, &store, &r);
	got = malloc(f.t[0].bytes + 17);
	for (int i = 0; i < 60; i++) {
		struct asks a = { .n = 3 };
		uint64_t off = sf_test_below(&seed, f.t[0].bytes),
			 len = 1 + sf_test_below(&seed, f.t[0].bytes - off), at = 0;
		a.at[0] = (struct ask){ .kind = ASK_BYTES, .len = 17 };
		a.at[1] = (struct ask){ .kind = ASK_TENSOR, .off = off, .len = len };
		a.at[2] = (struct ask){ .kind = ASK_TENSOR,
			                .off = 0,
			                .len = off }; /* the other side, behind it */
		struct sf_read rd = { .emit = emit, .arg = &a, .len = 17 + len + off };
		ck_assert_int_eq(sf_read_wait(r, &rd), 0);
		ck_assert_int_lt(rd.niov, 1024);
		lent += (unsigned)rd.niov > 20;
		for (int k = 0; k < rd.niov; at += rd.iov[k++].iov_len)
			memcpy(got + at, rd.iov[k].iov_base, rd.iov[k].iov_len);
		ck_assert(memcmp(got + 17, f.t[0].dense + off, len) == 0);
		ck_assert(memcmp(got + 17 + len, f.t[0].dense, off) == 0);
		ck_assert_uint_eq(at, rd.len);
		sf_read_release(&rd);
	}
	ck_assert_uint_gt(lent, 5);
	free(got);
	close_reader(&f, &io, dir, store, r);
}
END_TEST

/* More long runs than a reply has iovecs: some are copied. */
START_TEST(a_reply_of_very_many_runs_has_few_iovecs)
{
	struct asks a = { .n = 1 };
	struct sf_read rd = { .emit = emit, .arg = &a };
	struct sf_store *store;
	struct sf_reader *r;
	struct sf_fault plan;
	struct sf_io io;
	struct fake f;
	char dir[256];
	uint64_t at = 0;

	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	one_big(&f, 100, 1024 * FAKE_FILES, true); /* 1,200 runs of 4 KiB */
	open_reader(&f, &io, 0, &plan, dir, &store, &r);
	rd.len = f.t[0].bytes;
	a.at[0] = (struct ask){ .kind = ASK_TENSOR, .len = rd.len };
	ck_assert_int_eq(sf_read_wait(r, &rd), 0);
	ck_assert_int_gt(rd.niov, 100);
	ck_assert_int_lt(rd.niov, 1024);
	for (int k = 0; k < rd.niov; at += rd.iov[k++].iov_len)
		ck_assert_mem_eq(rd.iov[k].iov_base, f.t[0].dense + at, rd.iov[k].iov_len);
	ck_assert_uint_eq(at, rd.len);
	sf_read_release(&rd);
	close_reader(&f, &io, dir, store, r);
}
END_TEST

/* A view that gives another number of bytes than it was asked for, or bytes that are not there. */
START_TEST(what_a_view_gives_wrongly_is_refused)
{
	static const struct {
		struct asks a;
		int r;
		const char *words[2];
	} cases[] = {
		{ { { { ASK_BYTES, .len = 101 } }, 1 }, -ERANGE, { "100", "7" } },
		{ { { { ASK_BYTES, .len = 60 }, { ASK_TENSOR, .len = 41 } }, 2 },
		  -ERANGE,
		  { "100", "7" } },
		{ { { { ASK_BYTES, .len = 60 }, { ASK_TENSOR, .len = 39 } }, 2 },
		  -EIO,
		  { "99", "100" } },
		{ { { { ASK_BYTES, .len = 0 } }, 1 }, -EIO, { " 0 of", "100" } },
		{ { { { ASK_TENSOR, .off = 9901, .len = 100 } }, 1 }, -ERANGE, { "100", "7" } },
		{ { { { ASK_TENSOR, .off = UINT64_MAX, .len = 100 } }, 1 },
		  -ERANGE,
		  { "100", "7" } },
		{ { { { ASK_TENSOR, .off = 4951, .len = 100, .cast = SF_BFLOAT16 } }, 1 },
		  -ERANGE,
		  { "100", "7" } },
		{ { { { ASK_TENSOR, .len = 100, .cast = SF_INT32 } }, 1 },
		  -ERANGE,
		  { "100", "7" } },
		{ { { { ASK_TENSOR, .index = 1, .len = 100 } }, 1 }, -ERANGE, { "100", "7" } },
		{ { { { ASK_OBJECT, .len = 100 } }, 1 }, -ERANGE, { "100", "7" } },
		{ { { { ASK_LISTED, .index = FAKE_FILES, .len = 100 } }, 1 },
		  -ERANGE,
		  { "100", "7" } },
		{ { { { ASK_TENSOR, .off = 9900, .len = 100 } }, 1 }, 0, { "", "" } },
		{ { { { ASK_TENSOR, .off = 4900, .len = 100, .cast = SF_BFLOAT16 } }, 1 },
		  0,
		  { "", "" } },
	};
	struct sf_store *store;
	struct sf_reader *r;
	struct sf_fault plan;
	struct sf_io io;
	struct fake f;
	char dir[256];

	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	one_item(&f, SF_FLOAT32, 50, 50, false, false, 0, 0);
	open_reader(&f, &io, 0, &plan, dir, &store, &r);
	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		uint8_t got[100];
		struct sf_read rd = {
			.emit = emit, .arg = (void *)&cases[i].a, .off = 7, .len = 100, .buf = got
		};
		int e = sf_read_wait(r, &rd);
		ck_assert_msg(e == cases[i].r, "case %zu: %d %s", i, e, rd.err.msg);
		if (e < 0)
			ck_assert_msg(strstr(rd.err.msg, cases[i].words[0]) &&
			                      strstr(rd.err.msg, cases[i].words[1]),
			              "case %zu: %s", i, rd.err.msg);
		sf_read_release(&rd);
	}
	close_reader(&f, &io, dir, store, r);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("reader");
	TCase *t = tcase_create("reader");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, random_reads_give_the_dense_bytes, 0, 4);
	tcase_add_loop_test(t, whole_objects_come_once_and_long_ones_by_length, 0, 3);
	tcase_add_loop_test(t, a_tensor_is_fetched_once_with_a_header_an_item, 0, 12);
	tcase_add_loop_test(t, reads_under_way_share_a_few_open_files, 0, 2);
	tcase_add_loop_test(t, lent_rows_of_column_shards_come_in_order, 0, 4);
	tcase_add_test(t, a_reply_of_very_many_runs_has_few_iovecs);
	tcase_add_test(t, what_a_view_gives_wrongly_is_refused);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return run_with_zstd(suite);
}
