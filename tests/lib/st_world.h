/* Objects with tensors in them, and safetensors files of those read back. */
#ifndef SF_TESTS_LIB_ST_WORLD_H
#define SF_TESTS_LIB_ST_WORLD_H

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include "parse/safetensors.h"
#include "pt_world.h"

/* A file read back, and its list of what is left out as text. */
struct read_back {
	uint8_t *at;
	uint64_t len;
	struct sf_arena arena;
	struct sf_st_header head;
	char skipped[4096];
};

static inline struct sf_vfile *make(struct world *w, struct sf_selection sel)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_vfile *f = NULL;

	if (!sel.entry) {
		sel.entry = w->all;
		sel.n = w->n;
	}
	ck_assert_msg(sf_view_safetensors(w->cat, w->reader, &sel, &f, &err) >= 0, "%s", err.msg);
	return f;
}

/* The order is the official writer's, all bytes are some tensor's, the size is the one that was
 * told. */
static inline void read_back(struct sf_vfile *f, struct read_back *rb)
{
	struct sf_error err = SF_ERROR_INIT;
	uint64_t at = 0;

	memset(rb, 0, sizeof(*rb));
	rb->at = world_read(f, &rb->len);
	ck_assert_uint_ge(rb->len, 8);
	uint64_t head = sf_le64(rb->at);
	ck_assert_uint_eq(head % 8, 0);
	ck_assert_uint_le(head, rb->len - 8);
	ck_assert_msg(sf_st_parse(rb->at + 8, head, &rb->arena, &rb->head, &err) >= 0, "%s",
	              err.msg);
	ck_assert_uint_eq(rb->head.data_off + rb->head.data_len, rb->len);
	for (size_t i = 0; i < rb->head.n; i++) {
		const struct sf_st_tensor *t = &rb->head.at[i], *before = t - 1;
		ck_assert_uint_eq(t->begin, at);
		at = t->end;
		if (i == 0)
			continue;
		int a = sf_dtype_info(before->dtype)->st_order,
		    b = sf_dtype_info(t->dtype)->st_order;
		ck_assert_msg(a > b || (a == b && strcmp(before->name, t->name) < 0),
		              "'%s' before '%s'", before->name, t->name);
	}
	const char *s = memmem(rb->at + 8, head, "\"shardfuse.skipped\":\"", 21);
	const char *end =
		s ? memmem(s, head - (size_t)(s - (const char *)rb->at - 8), "]\"", 2) : NULL;
	if (end) /* quotes in it are behind a backslash */
		snprintf(rb->skipped, sizeof(rb->skipped), "%.*s", (int)(end - s - 20), s + 21);
}

static inline void release(struct read_back *rb)
{
	free(rb->at);
	sf_arena_release(&rb->arena);
}

static inline const struct sf_st_tensor *find(const struct read_back *rb, const char *name)
{
	for (size_t i = 0; i < rb->head.n; i++)
		if (strcmp(rb->head.at[i].name, name) == 0)
			return &rb->head.at[i];
	return NULL;
}

static inline void check(const struct read_back *rb, const char *name, const void *want, size_t len)
{
	const struct sf_st_tensor *t = find(rb, name);

	ck_assert_msg(t != NULL, "'%s' is missing; skipped: %s", name, rb->skipped);
	ck_assert_uint_eq(t->end - t->begin, len);
	ck_assert_mem_eq(rb->at + rb->head.data_off + t->begin, want, len);
}

static inline void check_skipped(const struct read_back *rb, const char *name, const char *why)
{
	char want[256];

	snprintf(want, sizeof(want), "{\\\"key\\\": \\\"%s\\\", \\\"why\\\": \\\"%s", name, why);
	ck_assert_msg(strstr(rb->skipped, want) != NULL, "'%s': '%s' is not in %s", name, why,
	              rb->skipped);
}

static inline void put_str(struct sf_buf *b, const char *s)
{
	uint8_t len[4];

	sf_put_le32(len, (uint32_t)strlen(s));
	sf_buf_byte(b, 'X');
	sf_buf_add(b, len, 4);
	sf_buf_str(b, s);
}

static inline void put_int(struct sf_buf *b, uint32_t i)
{
	uint8_t v[4];

	sf_put_le32(v, i);
	sf_buf_byte(b, 'J');
	sf_buf_add(b, v, 4);
}

/* A view of a storage; elements. */
struct view {
	const char *cls, *key;
	uint32_t count, off, ndim, shape[4], stride[4];
};
static inline void put_tensor(struct sf_buf *b, const struct view *v)
{
	sf_buf_str(b, "ctorch._utils\n_rebuild_tensor_v2\n((");
	put_str(b, "storage");
	sf_buf_printf(b, "ctorch\n%s\n", v->cls);
	put_str(b, v->key);
	put_str(b, "cpu");
	put_int(b, v->count);
	sf_buf_str(b, "tQ");
	put_int(b, v->off);
	sf_buf_byte(b, '(');
	for (unsigned d = 0; d < v->ndim; d++)
		put_int(b, v->shape[d]);
	sf_buf_str(b, "t(");
	for (unsigned d = 0; d < v->ndim; d++)
		put_int(b, v->stride[d]);
	sf_buf_str(b, "t\x89"
	              "ccollections\nOrderedDict\n)RtR");
}

static const struct view ONE = { "FloatStorage", "0", 2, 0, 1, { 2 }, { 1 } };
static const uint8_t TWO_FLOATS[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
static const struct world_storage ONE_STORAGE = { "archive/data/0", TWO_FLOATS, 8 };

/* {'t': ONE} */
static inline void put_simple(struct sf_buf *b)
{
	sf_buf_str(b, "\x80\x02}");
	put_str(b, "t");
	put_tensor(b, &ONE);
	sf_buf_str(b, "s.");
}

static inline void add_object(struct world *w, const char *path, struct sf_buf *pkl)
{
	world_object(w, path, pkl->at, pkl->len, &ONE_STORAGE, 1);
	sf_buf_release(pkl);
}

static inline void add_simple(struct world *w, const char *path)
{
	struct sf_buf b = { 0 };

	put_simple(&b);
	add_object(w, path, &b);
}

#endif
