#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/dcp/dcp_lower.h"
#include "tests/lib/sf_fake_ckpt.h"
#include "tests/lib/store_far.h"

/* What lowering has to look at in stored items, on a server: rounds are counted, not time. */

#define FILES 300
#define BYTES 4 /* of a tensor */

static struct sf_io io;
static struct sf_far far;
static struct sf_store *store;
static struct dcp_meta m;
static struct sf_mem_object object[FILES];
static struct sf_objinfo listed[FILES];
static char name[FILES][32];
static struct sf_buf file[FILES];
static uint32_t nfiles;

static void add_bytes(uint32_t i, const void *at, size_t len)
{
	sf_buf_add(&file[i], at, len);
}

static void add_blob(uint32_t i)
{
	static const char head[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[4],"
				   "\"data_offsets\":[0,4]}}";
	uint8_t len[8];

	sf_put_le64(len, strlen(head));
	add_bytes(i, len, 8);
	add_bytes(i, head, strlen(head));
	add_bytes(i, "\1\2\3\4", BYTES);
}

/* An item of @i's file as long as its payload, at @off. */
static void add_tensor(uint32_t i, uint32_t k, uint32_t transform, uint64_t off)
{
	const uint64_t zero = 0, extent = BYTES;
	struct dcp_tensor t = {
		.shape0 = m.dims.n, .nruns = 1, .nchunks = 1, .dtype = SF_UINT8, .ndim = 1
	};
	struct dcp_item item = { .off = off, .len = BYTES };
	uint32_t path;
	char text[32];

	snprintf(text, sizeof(text), "t%u.%u", i, k);
	ck_assert_int_ge(dcp_meta_str(&m, text, strlen(text), &t.name), 0);
	ck_assert_int_ge(dcp_meta_str(&m, name[i], strlen(name[i]), &path), 0);
	ck_assert_int_ge(dcp_meta_place(&m, path, transform, &item.place), 0);
	ck_assert_int_ge(dcp_u64s_push(&m.dims, extent), 0);
	ck_assert_int_ge(dcp_meta_chunk(&m, &zero, &extent, 1, &t.run0), 0);
	m.item.at[m.run.at[t.run0].chunk0] = item;
	ck_assert_int_ge(dcp_keys_push(&m.key, (struct dcp_key){ t.name, (uint32_t)m.tensor.n }),
	                 0);
	ck_assert_int_ge(dcp_tensors_push(&m.tensor, t), 0);
}

static void begin(unsigned inflight)
{
	far = (struct sf_far){
		.hints = { .range_max = 1 << 20, .head_guess = 2048, .inflight = inflight }
	};
	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	for (uint32_t i = 0; i < nfiles; i++) {
		ck_assert_int_eq(sf_buf_check(&file[i]), 0);
		object[i] = (struct sf_mem_object){ name[i], file[i].at, file[i].len };
		listed[i] = (struct sf_objinfo){ .name = name[i], .size = file[i].len };
	}
	ck_assert_int_eq(sf_store_far(&io, object, nfiles, &far, &store, NULL), 0);
}

/* So many files, named in the order of a listing. */
static void begin_files(uint32_t n)
{
	nfiles = n;
	for (uint32_t i = 0; i < n; i++) {
		snprintf(name[i], sizeof(name[i]), "__%03u_0.distcp", i);
		file[i] = (struct sf_buf){ 0 };
	}
}

static int lower(struct sf_ckpt **ret, struct sf_error *err)
{
	const struct sf_format_dir src = {
		.store = store, .files = listed, .nfiles = nfiles, .dir = ""
	};
	struct sf_ckpt_builder *b;
	int r;

	ck_assert_int_eq(sf_ckpt_builder_new("dcp", "far", &b, NULL), 0);
	ck_assert_int_ge(sf_ckpt_builder_listing(b, listed, nfiles, NULL), 0);
	r = dcp_lower(&m, &src, b, err);
	if (r >= 0)
		r = sf_ckpt_builder_finish(b, ret, err);
	if (r < 0)
		sf_ckpt_builder_free(b);
	return r;
}

static void end(void)
{
	sf_store_free(store);
	sf_io_release(&io);
	dcp_meta_release(&m);
	m = (struct dcp_meta){ 0 };
	for (uint32_t i = 0; i < nfiles; i++)
		sf_buf_release(&file[i]);
}

static const struct sf_place *place_of(const struct sf_ckpt *ckpt, uint32_t tensor)
{
	return &ckpt->place[ckpt->tensor[tensor].place[0]];
}

/* A blob in one file, an archive that is as long as its payload in the next, and so on. */
START_TEST(many_files_are_looked_into_side_by_side)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt *ckpt = NULL;

	begin_files(FILES);
	for (uint32_t i = 0; i < FILES; i++) {
		if (i % 2)
			add_bytes(i, "PK\3\4 and what is behind it", 26);
		else
			add_blob(i);
		add_tensor(i, 0, DCP_PLAIN, 0);
		add_tensor(i, 1, DCP_PLAIN, 0);
	}
	begin(50);
	ck_assert_msg(lower(&ckpt, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(ckpt->ntensors, 2 * FILES);
	for (uint32_t i = 0; i < ckpt->ntensors; i++)
		ck_assert_int_eq(place_of(ckpt, i)->form,
		                 i / 2 % 2 ? SF_ITEM_TORCH : SF_ITEM_ST_BLOB);
	ck_assert_uint_eq(far.requests, FILES); /* each once */
	ck_assert_uint_gt(far.most, 25);
	ck_assert_uint_le(far.most, 50);
	ck_assert_uint_lt(far.rounds, 50); /* one by one they are 300 */
	ck_assert_uint_eq(far.blind_opens, 0);
	sf_ckpt_free(ckpt);
	end();
}
END_TEST

/* Behind zstd a blob begins where the empty streams of its tensors end: of many, further off than
 * the first look reaches. */
START_TEST(blobs_behind_many_streams_are_found_side_by_side)
{
	static const uint8_t empty[9] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 1, 0, 0 };
	const uint32_t tensors = 2000, n = 20;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt *ckpt = NULL;

	begin_files(n);
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < tensors; k++) {
			add_tensor(i, k, DCP_ZSTD, file[i].len);
			add_bytes(i, empty, sizeof(empty));
		}
		if (i != 7) /* that one is cut there */
			add_blob(i);
	}
	begin(50);
	ck_assert_msg(lower(&ckpt, &err) == 0, "%s", err.msg);
	for (uint32_t i = 0; i < ckpt->ntensors; i += tensors - 1) {
		const struct sf_place *p = place_of(ckpt, i);
		ck_assert_int_eq(p->form, i / tensors == 7 ? SF_ITEM_TORCH : SF_ITEM_ST_BLOB);
		if (p->form == SF_ITEM_ST_BLOB)
			ck_assert_uint_eq(ckpt->tensor[i].off[0], 9 * tensors);
	}
	ck_assert_uint_gt(far.most, n / 2);
	ck_assert_uint_lt(far.rounds, n); /* one by one they are 60 */
	sf_ckpt_free(ckpt);
	end();
}
END_TEST

/* What cannot be had for good is guessed; any other failure is the load's. */
START_TEST(a_look_that_fails_fails_the_load_if_it_may_be_better_next_time)
{
	static const int codes[] = { -ENOENT, -EBADMSG, -EIO, -ETIMEDOUT, -ESTALE };
	const bool lasting = _i < 2;

	for (int64_t at = 0; at < 5; at++) {
		struct sf_fault plan = { .fail_at = at, .code = codes[_i] };
		struct sf_error err = SF_ERROR_INIT;
		struct sf_ckpt *ckpt = NULL;
		unsigned guessed = 0;
		int r;

		begin_files(5);
		for (uint32_t i = 0; i < 5; i++) {
			add_bytes(i, "PK\3\4 and what is behind it", 26);
			add_tensor(i, 0, DCP_PLAIN, 0);
		}
		begin(3);
		ck_assert_int_eq(sf_store_fault(store, &plan, &store, NULL), 0);
		r = lower(&ckpt, &err);
		if (lasting) {
			ck_assert_msg(r == 0, "%s", err.msg);
			for (uint32_t i = 0; i < ckpt->ntensors; i++)
				guessed += place_of(ckpt, i)->form == SF_ITEM_ST_BLOB;
			ck_assert_uint_eq(guessed, 1);
		} else {
			ck_assert_int_eq(r, codes[_i]);
			ck_assert_msg(strstr(err.msg, "looking at an item") &&
			                      strstr(err.msg, "injected"),
			              "%s", err.msg);
		}
		sf_ckpt_free(ckpt);
		end();
	}
}
END_TEST

/* Files that are not there, not listed, or too short for a look: the guess. */
START_TEST(what_is_not_there_is_guessed)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt *ckpt = NULL;

	begin_files(3);
	for (uint32_t i = 0; i < 3; i++) {
		add_bytes(i, "12345678x", i == 0 ? 9 : 8);
		add_tensor(i, 0, DCP_PLAIN, i == 0 ? UINT64_MAX - 3 : 0);
		add_tensor(i, 1, DCP_ZSTD, i == 0 ? UINT64_MAX - 3 : 0);
	}
	begin(8);
	nfiles = 2;
	object[1].name = "gone";
	ck_assert_msg(lower(&ckpt, &err) == 0, "%s", err.msg);
	for (uint32_t i = 0; i < 6; i++)
		ck_assert_int_eq(place_of(ckpt, i)->form, i % 2 ? SF_ITEM_TORCH : SF_ITEM_ST_BLOB);
	ck_assert_uint_eq(far.requests, 0);
	sf_ckpt_free(ckpt);
	nfiles = 3;
	end();
}
END_TEST

/* Items that hold no dense tensor: each is looked at, for its class. One in eight is of a length of
 * its own. */
START_TEST(what_is_no_dense_tensor_is_looked_at_side_by_side)
{
	static const char pickle[] = "\x80\x02"
				     "ctorch._utils\n_rebuild_other\n)R.";
	const struct sf_buf pkl = { .at = (uint8_t *)pickle, .len = sizeof(pickle) - 1 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt *ckpt = NULL;

	begin_files(FILES);
	for (uint32_t i = 0; i < FILES; i++) {
		uint8_t data[3000] = { 0 };
		fake_zip(&file[i], &pkl, data, i % 8 ? BYTES : i * 8, false);
		add_tensor(i, 0, DCP_PLAIN, 0);
		m.item.at[m.item.n - 1].len = file[i].len;
		if (i % 16 == 15)
			m.tensor.at[m.tensor.n - 1].dtype = SF_DTYPE_NONE;
	}
	begin(50);
	ck_assert_msg(lower(&ckpt, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(ckpt->nobjects, FILES);
	for (uint32_t i = 0; i < FILES; i++)
		ck_assert_str_eq(ckpt->object[i].subclass->name, "torch._utils._rebuild_other");
	ck_assert_uint_eq(far.requests, FILES); /* each once */
	ck_assert_uint_gt(far.most, 25);
	ck_assert_uint_lt(far.rounds, 50); /* one by one they are 300 */
	sf_ckpt_free(ckpt);
	end();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("far_looks");
	TCase *t = tcase_create("far_looks");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, many_files_are_looked_into_side_by_side);
	tcase_add_test(t, blobs_behind_many_streams_are_found_side_by_side);
	tcase_add_loop_test(t, a_look_that_fails_fails_the_load_if_it_may_be_better_next_time, 0,
	                    5);
	tcase_add_test(t, what_is_not_there_is_guessed);
	tcase_add_test(t, what_is_no_dense_tensor_is_looked_at_side_by_side);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
