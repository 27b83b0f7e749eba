#include "config.h"

#include <pthread.h>

#include "base/mem.h"
#include "parse/dtype.h"
#include "read/reader.h"
#include "store/store.h"
#include "tests/lib/sf_fake_ckpt.h"

#define BOXES 5

/* A box and where it goes; @want: what is there afterwards, the bytes between the places too. */
struct box {
	uint32_t tensor;
	enum sf_dtype cast;
	uint64_t origin[8], extent[8], bytes;
	int64_t stride[8];
	uint8_t *room, *want;
	size_t size, first;
};
struct boxes {
	struct box at[BOXES];
	unsigned n;
};

static int emit(void *arg, uint64_t off, uint64_t len, struct sf_parts *p, struct sf_error *err)
{
	const struct boxes *all = arg;
	int r = 0;

	for (unsigned i = 0; i < all->n && r >= 0; i++) {
		const struct box *b = &all->at[i];
		const struct sf_read_box box = { b->origin, b->extent, b->room + b->first,
			                         b->stride };
		r = sf_parts_box(p, b->tensor, &box, b->cast);
	}
	return r;
}

/* The dense bytes of a tensor, cast or not. */
static uint8_t *dense_of(const struct fake_tensor *t, enum sf_dtype cast)
{
	uint64_t n = t->bytes / sf_dtype_info(t->dtype)->bytes;
	uint8_t *p = malloc(n * 16 + 1);

	if (cast == SF_DTYPE_NONE)
		memcpy(p, t->dense, t->bytes);
	else
		sf_dtype_cast(p, cast, t->dense, t->dtype, n);
	return p;
}

static void random_box(const struct fake *f, uint64_t *seed, struct box *b)
{
	static const enum sf_dtype floats[] = { SF_FLOAT32, SF_BFLOAT16, SF_FLOAT64, SF_FLOAT16 };
	const struct sf_tensor *t;
	uint64_t volume = 1, elem, span, at[8] = { 0 };
	unsigned order[8];
	uint8_t *dense;

	memset(b, 0, sizeof(*b));
	b->tensor = (uint32_t)sf_test_below(seed, f->ntensors);
	t = &f->ckpt->tensor[b->tensor];
	if (sf_dtype_info(t->dtype)->is_float && sf_test_below(seed, 3) == 0) {
		b->cast = floats[sf_test_below(seed, SF_ARRAY_LEN(floats))];
		if (b->cast == t->dtype)
			b->cast = SF_DTYPE_NONE;
	}
	elem = span = sf_dtype_info(b->cast ? b->cast : t->dtype)->bytes;
	for (unsigned d = 0; d < t->ndim; d++) {
		size_t k = sf_test_below(seed, d + 1u);
		b->origin[d] = sf_test_below(seed, t->shape[d]);
		b->extent[d] = 1 + sf_test_below(seed, t->shape[d] - b->origin[d]);
		volume *= b->extent[d];
		order[d] = order[k];
		order[k] = d;
	}
	bool plain = sf_test_below(seed, 3) == 0; /* dense, row-major */
	for (unsigned i = 0; i < t->ndim; i++) {
		unsigned d = plain ? t->ndim - 1 - i : order[i];
		bool back = !plain && sf_test_below(seed, 3) == 0;
		b->stride[d] = back ? -(int64_t)span : (int64_t)span;
		b->first += back ? (b->extent[d] - 1) * span : 0;
		span *= b->extent[d];
		if (!plain && sf_test_below(seed, 3) == 0)
			span += elem * sf_test_below(seed, 4);
	}
	b->size = span;
	b->bytes = volume * elem;
	b->room = malloc(b->size);
	b->want = malloc(b->size);
	memset(b->room, 0xaa, b->size);
	memset(b->want, 0xaa, b->size);
	dense = dense_of(&f->t[b->tensor], b->cast);
	for (uint64_t i = 0; i < volume; i++) {
		uint64_t x = 0;
		int64_t to = (int64_t)b->first;
		for (unsigned d = 0; d < t->ndim; d++) {
			x = x * t->shape[d] + b->origin[d] + at[d];
			to += (int64_t)at[d] * b->stride[d];
		}
		memcpy(b->want + to, dense + x * elem, elem);
		for (unsigned d = t->ndim; d-- > 0 && ++at[d] == b->extent[d];)
			at[d] = 0;
	}
	free(dense);
}

static void compare(struct sf_reader *r, const struct fake *f, uint64_t seed, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct boxes all = { .n = 1 + (unsigned)sf_test_below(&seed, BOXES) };
		struct sf_read rd = { .emit = emit, .arg = &all };
		for (unsigned k = 0; k < all.n; k++) {
			random_box(f, &seed, &all.at[k]);
			rd.len += all.at[k].bytes;
		}
		int e = sf_read_wait(r, &rd);
		ck_assert_msg(e == 0, "read %u: %d %s", i, e, rd.err.msg);
		ck_assert_int_eq(rd.niov, 0);
		sf_read_release(&rd);
		for (unsigned k = 0; k < all.n; k++) {
			struct box *b = &all.at[k];
			for (size_t x = 0; x < b->size; x++)
				ck_assert_msg(b->room[x] == b->want[x],
				              "read %u, box %u of %u (tensor %u, form %d, cast "
				              "%d), byte %zu: %02x, wanted %02x",
				              i, k, all.n, b->tensor, (int)f->t[b->tensor].form,
				              (int)b->cast, x, b->room[x], b->want[x]);
			free(b->room);
			free(b->want);
		}
	}
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

/* _i: 0 memory; 1 files; 2 nothing is answered at once; 3 every fifth is not, in batches of two
 * files */
START_TEST(random_boxes_come_to_their_places_and_nothing_beside_them)
{
	uint64_t seed = sf_test_seed("random_boxes") + (uint64_t)_i;

	for (unsigned round = 0; round < 4; round++) {
		struct sf_store *store, *inner;
		struct sf_fault plan = { .fail_at = -1, .delay_ms = 1 };
		struct thread t[2];
		struct sf_reader *r;
		struct sf_io io;
		struct fake f;
		char dir[256] = "";

		ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
		if (_i == 3)
			ck_assert_int_eq(sf_io_set_open(&io, 8, NULL), 0);
		fake_random(&f, seed + round * 1000);
		fake_objects(&f);
		if (_i == 1) {
			fake_write(&f, dir);
			ck_assert_int_eq(sf_store_open(&io, dir, NULL, &store, NULL), 0);
		} else {
			ck_assert_int_eq(sf_store_mem(&io, f.object, FAKE_FILES, &store, NULL), 0);
		}
		if (_i >= 2) {
			if (_i == 3)
				plan = (struct sf_fault){ .fail_at = -1, .busy_every = 5 };
			inner = store;
			ck_assert_int_eq(sf_store_fault(inner, &plan, &store, NULL), 0);
		}
		fake_finish(&f, store);
		ck_assert_int_eq(sf_reader_new(f.ckpt, store, &r, NULL), 0);
		for (unsigned i = 0; i < SF_ARRAY_LEN(t); i++) {
			t[i] = (struct thread){ .r = r,
				                .f = &f,
				                .seed = seed + round * 10 + i,
				                .n = _i == 2 ? 40 : 150 };
			ck_assert_int_eq(pthread_create(&t[i].id, NULL, compare_thread, &t[i]), 0);
		}
		for (unsigned i = 0; i < SF_ARRAY_LEN(t); i++)
			pthread_join(t[i].id, NULL);
		sf_reader_free(r);
		sf_store_free(store);
		sf_io_release(&io);
		if (*dir)
			fake_remove(&f, dir);
		fake_release(&f);
	}
}
END_TEST

/* However they lie where they go: not one for each row or element. */
START_TEST(a_transposed_box_takes_a_few_requests_a_chunk)
{
	const uint64_t shape[] = { 1024, 1024 }, n = 1024;
	float *room = malloc(n * n * sizeof(*room));
	struct boxes all = { .n = 1 };
	struct sf_read rd = { .emit = emit, .arg = &all, .len = n * n * sizeof(*room) };
	struct sf_store *store;
	struct sf_reader *r;
	struct sf_io io;
	struct fake f;
	uint64_t requests;

	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	fake_begin(&f, 7 + (uint64_t)_i);
	f.ntensors = 1;
	fake_tensor(&f, 0, FAKE_RAW, shape, 2, SF_FLOAT32);
	fake_objects(&f);
	ck_assert_int_eq(sf_store_mem(&io, f.object, FAKE_FILES, &store, NULL), 0);
	fake_finish(&f, store);
	ck_assert_int_eq(sf_reader_new(f.ckpt, store, &r, NULL), 0);
	all.at[0] = (struct box){ .extent = { n, n },
		                  .stride = { sizeof(*room), (int64_t)(n * sizeof(*room)) },
		                  .room = (uint8_t *)room };
	ck_assert_msg(sf_read_wait(r, &rd) == 0, "%s", rd.err.msg);
	sf_read_release(&rd);
	requests = io.counters.fetched_requests[SF_FETCH_TENSOR];
	ck_assert_uint_gt(requests, 0);
	ck_assert_msg(requests <= f.ckpt->tensor[0].nchunks + 8, "%llu requests for %u chunks",
	              (unsigned long long)requests, f.ckpt->tensor[0].nchunks);
	for (uint64_t i = 0; i < n * n; i++)
		ck_assert(memcmp(&room[i % n * n + i / n], f.t[0].dense + i * sizeof(*room),
		                 sizeof(*room)) == 0);
	free(room);
	sf_reader_free(r);
	sf_store_free(store);
	sf_io_release(&io);
	fake_release(&f);
}
END_TEST

/* What a box may not be: past its tensor, cast to or from what is no float, beside other parts. */
static int emit_wrong(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
                      struct sf_error *err)
{
	const struct fake *f = arg;
	const uint64_t zero[8] = { 0 }, past[8] = { f->ckpt->tensor[0].shape[0] + 1, 1 };
	const uint64_t one[8] = { 1, 1 }, huge[8] = { UINT64_MAX, 1 };
	const int64_t stride[8] = { 4, 4 };
	static char room[16];

	ck_assert_int_eq(sf_parts_box(p, 0, &(struct sf_read_box){ zero, past, room, stride }, 0),
	                 -ERANGE);
	ck_assert_int_eq(sf_parts_box(p, 0, &(struct sf_read_box){ past, zero, room, stride }, 0),
	                 -ERANGE);
	ck_assert_int_eq(sf_parts_box(p, 0, &(struct sf_read_box){ one, huge, room, stride }, 0),
	                 -ERANGE);
	ck_assert_int_eq(sf_parts_box(p, 1, &(struct sf_read_box){ zero, one, room, stride }, 0),
	                 -ERANGE);
	ck_assert_int_eq(
		sf_parts_box(p, 0, &(struct sf_read_box){ zero, one, room, stride }, SF_INT8),
		-ERANGE);
	ck_assert_int_eq(sf_parts_box(p, 0, &(struct sf_read_box){ zero, zero, room, stride }, 0),
	                 0);
	ck_assert_int_eq(sf_parts_bytes(p, "abcd", 4), 0);
	return sf_parts_box(p, 0, &(struct sf_read_box){ zero, one, room, stride }, 0);
}

START_TEST(a_box_that_is_none_is_refused)
{
	const uint64_t shape[] = { 3, 2 };
	struct sf_store *store;
	struct sf_reader *r;
	struct sf_io io;
	struct fake f;
	char buf[8];
	struct sf_read rd = { .emit = emit_wrong, .arg = &f, .len = 8, .buf = buf };

	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	fake_begin(&f, 7);
	f.ntensors = 1;
	fake_tensor(&f, 0, FAKE_RAW, shape, 2, SF_FLOAT32);
	fake_objects(&f);
	ck_assert_int_eq(sf_store_mem(&io, f.object, FAKE_FILES, &store, NULL), 0);
	fake_finish(&f, store);
	ck_assert_int_eq(sf_reader_new(f.ckpt, store, &r, NULL), 0);
	ck_assert_int_eq(sf_read_wait(r, &rd), -ERANGE);
	sf_read_release(&rd);
	sf_reader_free(r);
	sf_store_free(store);
	sf_io_release(&io);
	fake_release(&f);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("read_boxes");
	TCase *tc = tcase_create("read_boxes");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, random_boxes_come_to_their_places_and_nothing_beside_them, 0, 4);
	tcase_add_loop_test(tc, a_transposed_box_takes_a_few_requests_a_chunk, 0, 4);
	tcase_add_test(tc, a_box_that_is_none_is_refused);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
