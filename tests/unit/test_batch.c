#include "config.h"

#include "tests/lib/test_stores.h"
#include "parse/zstd.h"
#include "read/reader.h"
#include "tests/lib/sf_fake_ckpt.h"

#define ROWS 10000 /* floats of one item */

/* A tensor of one compressed item in each file; file @missing is not there. */
static void begin(struct fake *f, unsigned missing, struct sf_io *io, struct sf_store **store)
{
	uint64_t shape[1] = { (uint64_t)ROWS * FAKE_FILES };
	struct fake_tensor *t = &f->t[0];
	uint32_t number, place;
	size_t n = 0;

	ck_assert_int_eq(sf_io_init(io, 4, NULL), 0);
	fake_begin(f, 3);
	f->ntensors = 1;
	t->dtype = SF_FLOAT32;
	t->form = FAKE_ZSTD;
	t->bytes = shape[0] * 4;
	t->dense = malloc(t->bytes);
	for (uint64_t i = 0; i < t->bytes; i++)
		t->dense[i] = (uint8_t)sf_test_rand(&f->seed);
	ck_assert_int_ge(sf_ckpt_builder_tensor(f->b, "w", 1, SF_FLOAT32, shape, 1, &number, NULL),
	                 0);
	for (unsigned i = 0; i < FAKE_FILES; i++) {
		uint64_t origin[1] = { (uint64_t)ROWS * i }, extent[1] = { ROWS };
		ck_assert_int_ge(sf_ckpt_builder_chunk(f->b, origin, extent, NULL), 0);
		fake_item(f, &f->file[i], t, shape, 1, origin, extent);
		ck_assert_int_ge(sf_ckpt_builder_place(f->b, f->name[i], strlen(f->name[i]),
		                                       SF_ITEM_TORCH, SF_CODEC_ZSTD, &place, NULL),
		                 0);
		sf_ckpt_builder_set_item(f->b, number, i, place, 0, f->file[i].len);
	}
	fake_objects(f);
	for (unsigned i = 0; i < FAKE_FILES; i++)
		if (i != missing)
			f->object[n++] = f->object[i];
	ck_assert_int_eq(sf_store_mem(io, f->object, n, store, NULL), 0);
	fake_finish(f, *store);
}

static int emit_tensor(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
                       struct sf_error *err)
{
	(void)arg;
	(void)err;
	return sf_parts_tensor(p, 0, off, len, SF_DTYPE_NONE);
}

/* Each wave ends where the next decoded item would not fit; the missing file is the first of one. */
START_TEST(a_missing_file_behind_a_full_wave_is_named)
{
	unsigned missing = (unsigned)_i;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_store *store;
	struct sf_reader *r;
	struct sf_io io;
	struct fake f;
	char name[64];
	uint8_t *got;

	begin(&f, missing, &io, &store);
	sf_budget_set_limit(io.budget, 180000); /* one decoded item, and no second one */
	ck_assert_int_eq(sf_reader_new(f.ckpt, store, &r, NULL), 0);
	got = malloc(f.t[0].bytes);
	for (int again = 0; again < 2; again++) {
		ck_assert_int_eq(sf_read_tensor(r, 0, 0, got, f.t[0].bytes, &err), -EIO);
		snprintf(name, sizeof(name),
		         "tensor 'w', chunk %u: item at 0: file '__%u_0.distcp'", missing, missing);
		ck_assert_msg(strstr(err.msg, name) != NULL, "%s", err.msg);
	}
	struct sf_read rd = { .emit = emit_tensor, .len = f.t[0].bytes, .buf = got };
	ck_assert_int_eq(sf_read_wait(r, &rd), -EIO);
	ck_assert_str_eq(f.ckpt->file[rd.file].name, f.name[missing]);
	sf_read_release(&rd);
	/* what lies before and behind it is there */
	for (unsigned i = 0; i < FAKE_FILES; i++) {
		int want = i == missing ? -EIO : 0;
		ck_assert_int_eq(sf_read_tensor(r, 0, i * ROWS * 4, got, ROWS * 4, &err), want);
		if (!want)
			ck_assert_mem_eq(got, f.t[0].dense + i * ROWS * 4, ROWS * 4);
	}
	free(got);
	sf_reader_free(r);
	sf_store_free(store);
	sf_io_release(&io);
	fake_release(&f);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("batch");
	TCase *t = tcase_create("batch");

	tcase_add_loop_test(t, a_missing_file_behind_a_full_wave_is_named, 0, FAKE_FILES);
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
