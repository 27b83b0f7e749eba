#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "parse/pickle_read.h"
#include "save/dcp_meta_write.h"
#include "tests/lib/sf_test.h"

static const struct sf_dcp_meta_options options = {
	.storage_info_module = "torch.distributed.checkpoint.filesystem"
};

struct out {
	struct sf_buf buf;
	size_t pieces, most, fail_at;
};

static int take(void *arg, const void *at, size_t len, struct sf_error *err)
{
	struct out *o = arg;

	sf_buf_add(&o->buf, at, len);
	o->most = SF_MAX(o->most, len);
	return ++o->pieces == o->fail_at ? sf_fail(err, -ENOSPC, "full") : sf_buf_check(&o->buf);
}

/* w: float32 [4, 3] in two rows of ranks; step: an object at ("opt", 7). */
struct small {
	struct sf_global_plan g;
	struct sf_global_key key[2];
	uint64_t shape[2], coords[8], off[3], len[3];
	uint32_t rank[3], file[3];
	struct shardfuse_save_step step[2];
};
static void small_plan(struct small *s)
{
	*s = (struct small){ .shape = { 4, 3 },
		             .coords = { 0, 0, 2, 3, 2, 0, 2, 3 },
		             .off = { 0, 64, UINT64_C(1) << 40 },
		             .len = { 1000, 1001, 1002 },
		             .rank = { 0, 1, 1 },
		             .file = { 0, 2, 2 },
		             .step = { { "opt", 0 }, { NULL, 7 } } };
	s->key[0] = (struct sf_global_key){ .key = "w",
		                            .key_len = 1,
		                            .kind = SF_SAVE_TENSOR,
		                            .dtype = SF_FLOAT32,
		                            .ndim = 2,
		                            .requires_grad = true,
		                            .shape = s->shape,
		                            .nchunks = 2 };
	s->key[1] = (struct sf_global_key){ .key = "opt.7",
		                            .key_len = 5,
		                            .kind = SF_SAVE_OBJECT,
		                            .npath = 2,
		                            .path = s->step,
		                            .first = 2,
		                            .nchunks = 1 };
	s->g = (struct sf_global_plan){ .nranks = 2,
		                        .key = s->key,
		                        .nkeys = 2,
		                        .nchunks = 3,
		                        .coords = s->coords,
		                        .rank = s->rank,
		                        .file = s->file,
		                        .off = s->off,
		                        .len = s->len };
}

static const struct sf_pv *parse(const struct out *o, struct sf_arena *arena)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_pv *root;
	size_t used;

	ck_assert_msg(sf_pickle_parse(o->buf.at, o->buf.len, NULL, arena, &root, &used, &err) == 0,
	              "%s", err.msg);
	ck_assert_uint_eq(used, o->buf.len);
	return root;
}

static bool is_class(const struct sf_pv *v, const char *module, const char *name)
{
	return v && (v->kind == SF_PV_OBJECT || v->kind == SF_PV_CALL) &&
	       sf_pv_is_global(v->call.callable, module, name);
}

static void check_dims(const struct sf_pv *v, const uint64_t *want, size_t n)
{
	ck_assert(is_class(v, "torch", "Size"));
	const struct sf_pv *dims = v->call.args->seq.at[0];
	uint64_t found;
	ck_assert_uint_eq(dims->seq.n, n);
	for (size_t k = 0; k < n; k++) {
		ck_assert(sf_pv_u64(dims->seq.at[k], &found));
		ck_assert_uint_eq(found, want[k]);
	}
}

static uint64_t number(const struct sf_pv *v, const char *name)
{
	uint64_t n = 0;

	ck_assert(sf_pv_u64(sf_pv_get(v, name), &n));
	return n;
}

#define META "torch.distributed.checkpoint.metadata"

static void check_storage(const struct small *s, const struct sf_pv *storage)
{
	static const char *const path[] = { "__0_0.distcp", "__1_2.distcp", "__1_2.distcp" };

	ck_assert_uint_eq(storage->seq.n, 6);
	for (unsigned c = 0; c < 3; c++) {
		const struct sf_pv *index = storage->seq.at[2 * c],
				   *info = storage->seq.at[2 * c + 1];
		ck_assert(is_class(index, META, "MetadataIndex"));
		ck_assert(is_class(info, options.storage_info_module, "_StorageInfo"));
		ck_assert(sf_pv_is_str(sf_pv_get(index, "fqn"), c < 2 ? "w" : "opt.7"));
		ck_assert(sf_pv_is_str(sf_pv_get(info, "relative_path"), path[c]));
		ck_assert_uint_eq(number(info, "offset"), s->off[c]);
		ck_assert_uint_eq(number(info, "length"), s->len[c]);
		if (c == 2) {
			ck_assert_int_eq(sf_pv_get(index, "index")->kind, SF_PV_NONE);
			ck_assert_ptr_null(sf_pv_get(index, "offset"));
		} else {
			ck_assert_uint_eq(number(index, "index"), c);
			check_dims(sf_pv_get(index, "offset"), s->coords + 4 * c, 2);
		}
	}
}

START_TEST(a_small_plan_becomes_torchs_metadata)
{
	struct small s;
	struct out o = { 0 };
	struct sf_arena arena = { 0 };
	struct sf_error err = SF_ERROR_INIT;

	small_plan(&s);
	ck_assert_msg(sf_dcp_meta_write(&s.g, &options, take, &o, &err) == 0, "%s", err.msg);
	const struct sf_pv *root = parse(&o, &arena);
	ck_assert(is_class(root, META, "Metadata"));
	const struct sf_pv *state = sf_pv_get(root, "state_dict_metadata"),
			   *w = sf_pv_get(state, "w"), *planner = sf_pv_get(root, "planner_data");
	ck_assert_uint_eq(state->seq.n, 4);
	ck_assert(is_class(w, META, "TensorStorageMetadata"));
	ck_assert(is_class(sf_pv_get(state, "opt.7"), META, "BytesStorageMetadata"));
	check_dims(sf_pv_get(w, "size"), s.shape, 2);
	const struct sf_pv *props = sf_pv_get(w, "properties");
	ck_assert(is_class(props, META, "TensorProperties"));
	ck_assert(sf_pv_is_global(props->call.args->seq.at[0], "torch", "float32"));
	ck_assert(props->call.args->seq.at[2]->b);
	const struct sf_pv *chunks = sf_pv_get(w, "chunks");
	ck_assert_uint_eq(chunks->seq.n, 2);
	for (unsigned c = 0; c < 2; c++) {
		ck_assert(is_class(chunks->seq.at[c], META, "ChunkStorageMetadata"));
		check_dims(sf_pv_get(chunks->seq.at[c], "offsets"), s.coords + 4 * c, 2);
		check_dims(sf_pv_get(chunks->seq.at[c], "sizes"), s.coords + 4 * c + 2, 2);
	}
	ck_assert(sf_pv_is_str(sf_pv_get(planner, "w")->seq.at[0], "w"));
	ck_assert_uint_eq(sf_pv_get(planner, "opt.7")->seq.n, 2);
	ck_assert(sf_pv_is_str(sf_pv_get(planner, "opt.7")->seq.at[0], "opt"));
	ck_assert_int_eq(sf_pv_get(planner, "opt.7")->seq.at[1]->i, 7);
	check_storage(&s, sf_pv_get(root, "storage_data"));
	sf_arena_release(&arena);
	sf_buf_release(&o.buf);
}
END_TEST

START_TEST(transforms_are_said_of_every_item)
{
	const struct sf_dcp_meta_options zstd = { .storage_info_module = "a.b",
		                                  .zstd = "stream.zstd/1" };
	struct small s;
	struct out o = { 0 };
	struct sf_arena arena = { 0 };
	struct sf_error err = SF_ERROR_INIT;

	small_plan(&s);
	ck_assert_msg(sf_dcp_meta_write(&s.g, &zstd, take, &o, &err) == 0, "%s", err.msg);
	const struct sf_pv *storage = sf_pv_get(parse(&o, &arena), "storage_data");
	for (unsigned c = 0; c < 3; c++) {
		const struct sf_pv *info = storage->seq.at[2 * c + 1];
		const struct sf_pv *list = sf_pv_get(info, "transform_descriptors");
		ck_assert(is_class(info, "a.b", "_StorageInfo"));
		ck_assert_uint_eq(list->seq.n, 1);
		ck_assert(sf_pv_is_str(list->seq.at[0], "stream.zstd/1"));
	}
	sf_arena_release(&arena);
	sf_buf_release(&o.buf);
}
END_TEST

/* One tensor of many chunks: pieces of a frame each, a MiB at most, and no chunk is lost where one
 * ends. */
START_TEST(many_chunks_come_in_pieces)
{
	enum { N = 60000 };
	static uint64_t coords[2 * N], off[N], len[N], shape = N;
	static uint32_t rank[N], file[N];
	struct sf_global_key key = {
		.key = "w", .key_len = 1, .dtype = SF_INT8, .ndim = 1, .shape = &shape, .nchunks = N
	};
	struct sf_global_plan g = { .nranks = N,
		                    .key = &key,
		                    .nkeys = 1,
		                    .nchunks = N,
		                    .coords = coords,
		                    .rank = rank,
		                    .file = file,
		                    .off = off,
		                    .len = len };
	struct out o = { 0 };
	struct sf_arena arena = { 0 };
	struct sf_error err = SF_ERROR_INIT;

	for (unsigned i = 0; i < N; i++) {
		coords[2 * i] = i;
		coords[2 * i + 1] = 1;
		rank[i] = N - 1 - i;
		off[i] = len[i] = i;
	}
	ck_assert_msg(sf_dcp_meta_write(&g, &options, take, &o, &err) == 0, "%s", err.msg);
	ck_assert_uint_gt(o.pieces, 4);
	ck_assert_uint_le(o.most, 1 << 20);
	const struct sf_pv *root = parse(&o, &arena), *storage = sf_pv_get(root, "storage_data"),
			   *chunks =
				   sf_pv_get(sf_pv_get(sf_pv_get(root, "state_dict_metadata"), "w"),
	                                     "chunks");
	ck_assert_uint_eq(chunks->seq.n, N);
	ck_assert_uint_eq(storage->seq.n, 2 * N);
	for (unsigned i = 0; i < N; i++) {
		char name[40];
		check_dims(sf_pv_get(chunks->seq.at[i], "offsets"), coords + 2 * i, 1);
		ck_assert_uint_eq(number(storage->seq.at[2 * i], "index"), i);
		ck_assert_uint_eq(number(storage->seq.at[2 * i + 1], "length"), i);
		snprintf(name, sizeof(name), "__%u_0.distcp", N - 1 - i);
		ck_assert(
			sf_pv_is_str(sf_pv_get(storage->seq.at[2 * i + 1], "relative_path"), name));
	}
	sf_arena_release(&arena);
	for (size_t n = o.pieces, at = 1; at <= n; at++) {
		struct out full = { .fail_at = at };
		ck_assert_int_eq(sf_dcp_meta_write(&g, &options, take, &full, &err), -ENOSPC);
		ck_assert_str_eq(err.msg, "full");
		ck_assert_uint_eq(full.pieces, at);
		sf_buf_release(&full.buf);
	}
	sf_buf_release(&o.buf);
}
END_TEST

START_TEST(a_name_may_be_long_and_any_bytes)
{
	const size_t n = 3 << 20;
	char *name = malloc(n);
	struct small s;
	struct out o = { 0 };
	struct sf_arena arena = { 0 };
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_ptr_nonnull(name);
	memset(name, 'x', n);
	small_plan(&s);
	s.key[0].key = name;
	s.key[0].key_len = (uint32_t)n;
	s.key[1].key = "\xff";
	s.key[1].key_len = 1;
	ck_assert_msg(sf_dcp_meta_write(&s.g, &options, take, &o, &err) == 0, "%s", err.msg);
	const struct sf_pv *state = sf_pv_get(parse(&o, &arena), "state_dict_metadata");
	ck_assert_uint_eq(state->seq.at[0]->str.len, n);
	ck_assert_mem_eq(state->seq.at[0]->str.at, name, n);
	ck_assert(sf_pv_is_str(state->seq.at[2], "\xed\xb3\xbf")); /* U+DCFF */
	sf_arena_release(&arena);
	sf_buf_release(&o.buf);
	free(name);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dcp_meta_write");
	TCase *t = tcase_create("all");

	tcase_add_test(t, a_small_plan_becomes_torchs_metadata);
	tcase_add_test(t, transforms_are_said_of_every_item);
	tcase_add_test(t, many_chunks_come_in_pieces);
	tcase_add_test(t, a_name_may_be_long_and_any_bytes);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
