/* The public interface alone: only shardfuse.h, linked with libshardfuse. */
#include "config.h"

#include "tests/lib/library_world.h"

/* A box of the dense bytes of a tensor, at random, and its places. */
struct one_box {
	uint64_t origin[64], extent[64], elements;
	int64_t stride[64];
	bool plain;
	unsigned char *got;
	size_t room;
};

static void random_box(uint64_t *seed, const struct shardfuse_tensor *t, struct one_box *b)
{
	int64_t step = t->elem_bytes;

	b->elements = 1;
	b->plain = sf_test_below(seed, 2) == 0;
	for (unsigned d = t->ndim; d-- > 0;) {
		b->origin[d] = sf_test_below(seed, t->shape[d] + 1);
		b->extent[d] = sf_test_below(seed, t->shape[d] - b->origin[d] + 1);
		b->elements *= b->extent[d];
		b->stride[d] = step;
		step *= (int64_t)b->extent[d] + (b->plain ? 0 : (int64_t)sf_test_below(seed, 3));
	}
	b->room = (size_t)step + t->elem_bytes;
	b->got = malloc(b->room);
	memset(b->got, 0xee, b->room);
}

static void check_box(const struct shardfuse_tensor *t, const struct one_box *b,
                      const unsigned char *dense)
{
	uint64_t index[64] = { 0 };

	for (uint64_t e = 0; e < b->elements; e++) {
		uint64_t from = 0, to = 0;
		for (unsigned d = 0; d < t->ndim; d++) {
			from = from * t->shape[d] + b->origin[d] + index[d];
			to += index[d] * (uint64_t)b->stride[d];
		}
		ck_assert_mem_eq(b->got + to, dense + from * t->elem_bytes, t->elem_bytes);
		for (unsigned d = t->ndim; d > 0 && ++index[d - 1] == b->extent[d - 1]; d--)
			index[d - 1] = 0;
	}
}

struct ended {
	pthread_mutex_t m;
	pthread_cond_t c;
	int times, result;
};

static void on_end(void *arg, int result)
{
	struct ended *e = arg;

	pthread_mutex_lock(&e->m);
	e->times++;
	e->result = result;
	pthread_cond_signal(&e->c);
	pthread_mutex_unlock(&e->m);
}

/* Random boxes with random strides of every tensor, all in one call, against the dense bytes.
 * _i: which checkpoint, waiting or not. */
START_TEST(boxes_are_the_dense_tensor_cut)
{
	static const char *const which[] = { "dcp/fsdp4/ckpt", "dcp/columns/ckpt",
		                             "dcp/mesh2x2/ckpt", "dcp/dtypes/ckpt" };
	uint64_t seed = sf_test_seed("boxes");
	struct shardfuse *h = open_data(which[_i / 2]);
	uint64_t n = count_of(h, 0);
	struct shardfuse_read *rd = calloc(n, sizeof(*rd));
	struct shardfuse_tensor *t = calloc(n, sizeof(*t));
	struct one_box *box = calloc(n, sizeof(*box));
	unsigned char **dense = calloc(n, sizeof(*dense));
	struct shardfuse_error err = { { 0 } };
	int r;

	for (uint64_t i = 0; i < n; i++) {
		t[i].struct_size = sizeof(*t);
		ck_assert_int_eq(shardfuse_tensor_info(h, i, &t[i], NULL), 0);
		dense[i] = malloc(t[i].bytes + 1);
		r = shardfuse_tensor_read(h, i, 0, dense[i], t[i].bytes, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
		random_box(&seed, &t[i], &box[i]);
		rd[i].struct_size = sizeof(*rd);
		rd[i].tensor = i;
		rd[i].origin = box[i].origin;
		rd[i].extent = box[i].extent;
		rd[i].stride = box[i].plain ? NULL : box[i].stride;
		rd[i].buf = box[i].got;
		rd[i].result = 77;
	}
	if (_i % 2) {
		struct ended e = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 77 };
		struct shardfuse_request *req;
		ck_assert_int_eq(shardfuse_read_start(h, rd, n, on_end, &e, &req, &err), 0);
		pthread_mutex_lock(&e.m);
		while (!e.times)
			pthread_cond_wait(&e.c, &e.m);
		pthread_mutex_unlock(&e.m);
		ck_assert_int_eq(e.result, 0);
		ck_assert_int_eq(shardfuse_request_finish(req), 0);
		ck_assert_int_eq(e.times, 1);
	} else {
		r = shardfuse_read(h, rd, n, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
	}
	for (uint64_t i = 0; i < n; i++) {
		ck_assert_int_eq(rd[i].result, 0);
		check_box(&t[i], &box[i], dense[i]);
		free(box[i].got);
		free(dense[i]);
	}
	free(rd);
	free(t);
	free(box);
	free(dense);
	shardfuse_close(h);
}
END_TEST

/* Each read has its own result; the others are read. */
START_TEST(a_read_that_fails_does_not_end_the_others)
{
	struct shardfuse *h = open_data("dcp/fsdp4/ckpt");
	struct shardfuse_error err = { { 0 } }, own = { { 0 } };
	struct shardfuse_tensor t = SHARDFUSE_INIT(t);
	struct shardfuse_read rd[3];
	uint64_t far[64];

	ck_assert_int_eq(shardfuse_tensor_info(h, 0, &t, NULL), 0);
	for (unsigned d = 0; d < 64; d++)
		far[d] = UINT64_MAX;
	unsigned char *a = malloc(t.bytes + 1), *b = malloc(t.bytes + 1);
	for (unsigned i = 0; i < 3; i++)
		rd[i] = (struct shardfuse_read){ .struct_size = sizeof(rd[i]), .err = &own };
	rd[0].buf = a;
	rd[1].origin = far;
	rd[1].buf = a;
	rd[2].buf = b;
	ck_assert_int_eq(shardfuse_read(h, rd, 3, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "dimension 0"));
	ck_assert_str_eq(own.msg, err.msg);
	ck_assert_int_eq(rd[0].result, 0);
	ck_assert_int_eq(rd[1].result, -EINVAL);
	ck_assert_int_eq(rd[2].result, 0);
	ck_assert_mem_eq(a, b, t.bytes);
	rd[1].off = 1; /* a box and a range */
	ck_assert_int_eq(shardfuse_read(h, rd, 3, &err), -EINVAL);
	rd[1].struct_size--;
	ck_assert_int_eq(shardfuse_read(h, rd, 3, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "struct_size"));
	ck_assert_int_eq(shardfuse_read(h, NULL, 0, &err), 0);
	free(a);
	free(b);
	shardfuse_close(h);
}
END_TEST

/* Whenever it comes: each read was read whole, or says that it was not. */
START_TEST(a_request_that_is_cancelled_ends)
{
	struct shardfuse *h = open_data("dcp/fsdp4/ckpt");
	uint64_t n = count_of(h, 0);

	for (unsigned round = 0; round < 50; round++) {
		struct shardfuse_read *rd = calloc(n, sizeof(*rd));
		struct ended e = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 77 };
		struct shardfuse_request *req;
		bool canceled = false;
		for (uint64_t i = 0; i < n; i++) {
			struct shardfuse_tensor t = SHARDFUSE_INIT(t);
			ck_assert_int_eq(shardfuse_tensor_info(h, i, &t, NULL), 0);
			rd[i].struct_size = sizeof(*rd);
			rd[i].tensor = i;
			rd[i].buf = malloc(t.bytes + 1);
		}
		ck_assert_int_eq(shardfuse_read_start(h, rd, n, on_end, &e, &req, NULL), 0);
		if (round % 2)
			sched_yield();
		shardfuse_request_cancel(req);
		int r = shardfuse_request_finish(req);
		ck_assert_int_eq(e.times, 1);
		ck_assert_int_eq(e.result, r);
		for (uint64_t i = 0; i < n; i++) {
			ck_assert(rd[i].result == 0 || rd[i].result == -ECANCELED);
			canceled |= rd[i].result != 0;
			free(rd[i].buf);
		}
		ck_assert_int_eq(r, canceled ? -ECANCELED : 0);
		free(rd);
	}
	shardfuse_close(h);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("library_boxes");
	TCase *tc = tcase_create("shardfuse.h");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, boxes_are_the_dense_tensor_cut, 0, 8);
	tcase_add_test(tc, a_read_that_fails_does_not_end_the_others);
	tcase_add_test(tc, a_request_that_is_cancelled_ends);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
