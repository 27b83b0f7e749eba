/* A .pt file read back: the archive's records by our zip reader, data.pkl by our pickle reader. */
#ifndef SF_TESTS_LIB_PT_READ_BACK_H
#define SF_TESTS_LIB_PT_READ_BACK_H

#include <inttypes.h>
#include <string.h>
#include "parse/pickle_read.h"
#include "parse/torch_item.h"
#include "pt_world.h"

/* A .pt file read back: the archive's records by our zip reader, data.pkl by our pickle reader. */
struct read_back {
	uint8_t *at;
	uint64_t len;
	struct sf_arena arena;
	struct sf_zip_dir dir;
	struct sf_pv *root;
};

static inline const uint8_t *record(const struct read_back *rb, const struct sf_zip_record *z)
{
	struct sf_error err = SF_ERROR_INIT;
	uint64_t off;

	ck_assert_msg(sf_zip_local_data(rb->at + z->header_off, z->header_off, &off, &err) >= 0,
	              "%s", err.msg);
	ck_assert_uint_eq(off % 64, 0);
	ck_assert_uint_le(off + z->size, rb->len);
	ck_assert_uint_eq(sf_le32(rb->at + z->header_off + 14),
	                  z->crc); /* both directories agree */
	return rb->at + off;
}

static inline void read_back(struct sf_vfile *f, struct read_back *rb)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_zip_end end;
	size_t used;

	memset(rb, 0, sizeof(*rb));
	rb->at = world_read(f, &rb->len);
	size_t tail = SF_MIN(rb->len, (uint64_t)SF_ZIP_TAIL);
	ck_assert_msg(sf_zip_find_end(rb->at + rb->len - tail, tail, rb->len, &end, &err) >= 0,
	              "%s", err.msg);
	ck_assert_msg(sf_zip_parse_dir(rb->at + end.dir_off, &end, rb->len, &rb->arena, &rb->dir,
	                               &err) >= 0,
	              "%s", err.msg);
	const struct sf_zip_record *pkl = sf_zip_find(&rb->dir, "data.pkl");
	ck_assert_ptr_nonnull(pkl);
	const uint8_t *p = record(rb, pkl);
	ck_assert_uint_eq(sf_crc32(0, p, pkl->size), pkl->crc);
	ck_assert_msg(sf_pickle_parse(p, pkl->size, NULL, &rb->arena, &rb->root, &used, &err) >= 0,
	              "%s", err.msg);
	ck_assert_uint_eq(used, pkl->size);
	for (const char *const *s = (const char *const[]){ "version", "byteorder", NULL }; *s;
	     s++) {
		const struct sf_zip_record *z = sf_zip_find(&rb->dir, *s);
		ck_assert_ptr_nonnull(z);
		ck_assert_uint_eq(sf_crc32(0, record(rb, z), z->size), z->crc);
	}
}

static inline void release(struct read_back *rb)
{
	free(rb->at);
	sf_arena_release(&rb->arena);
}

/* One step down the value tree. NULL: not there. */
static inline struct sf_pv *step(const struct sf_pv *v, const struct sf_path_elem *e)
{
	if (v->kind == SF_PV_LIST) {
		ck_assert_msg(e->kind == SF_PATH_LIST, "'%s' in a list", e->s);
		size_t i = strtoul(e->s, NULL, 10);
		return i < v->seq.n ? v->seq.at[i] : NULL;
	}
	ck_assert_int_eq(v->kind, SF_PV_DICT);
	for (size_t i = 0; i < v->seq.n; i += 2) {
		const struct sf_pv *k = v->seq.at[i];
		if (e->kind == SF_PATH_LIST ? k->kind == SF_PV_INT && k->i == strtol(e->s, NULL, 10)
		                            : k->kind == SF_PV_STR && k->str.len == e->len &&
		                                      memcmp(k->str.at, e->s, e->len) == 0)
			return v->seq.at[i + 1];
	}
	return NULL;
}

static inline struct sf_pv *walk(struct sf_pv *v, const struct sf_path_elem *path, unsigned n)
{
	for (unsigned i = 0; i < n && v; i++)
		v = step(v, &path[i]);
	return v;
}

static inline struct sf_pv *must_walk(struct sf_pv *v, const struct world_key *k)
{
	static struct sf_pv none = { .kind = UINT8_MAX };
	struct sf_pv *found = walk(v, k->path, k->npath);

	ck_assert_msg(found != NULL, "'%s' is missing", k->name);
	return found ? found : &none;
}

/* The tensor's dtype and shape are @k's, its record holds @want. */
static inline void check_tensor(const struct read_back *rb, const struct sf_pv *v,
                                const struct world_key *k, const void *want, uint64_t len,
                                enum sf_dtype dtype)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_torch_tensor t;
	char name[64];
	int64_t step_elems = 1;

	ck_assert_msg(v != NULL, "'%s' is missing", k->name);
	ck_assert_msg(sf_torch_tensor_from_pv(v, &t, &err) == 1, "'%s': %s", k->name, err.msg);
	ck_assert_int_eq(t.dtype, dtype);
	ck_assert_uint_eq(t.ndim, k->ndim);
	ck_assert_uint_eq(t.storage_off, 0);
	for (unsigned d = k->ndim; d-- > 0;) {
		ck_assert_uint_eq(t.shape[d], k->shape[d]);
		ck_assert_int_eq(t.stride[d], step_elems);
		step_elems *= (int64_t)SF_MAX(k->shape[d], 1);
	}
	snprintf(name, sizeof(name), "data/%s", t.storage_key->str.at);
	const struct sf_zip_record *z = sf_zip_find(&rb->dir, name);
	ck_assert_msg(z != NULL, "'%s': no record %s", k->name, name);
	ck_assert_uint_eq(z->size, len);
	ck_assert_mem_eq(record(rb, z), want, len);
}

static inline void check_stored(const struct world *w, const struct read_back *rb,
                                const struct sf_pv *v, const struct world_key *k)
{
	check_tensor(rb, v, k, w->data.at + k->off, k->len, k->dtype);
}

static inline struct sf_vfile *make(struct world *w, const struct sf_selection *sel)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_vfile *f = NULL;

	ck_assert_msg(sf_view_pt(w->cat, w->reader, sel, &f, &err) >= 0, "%s", err.msg);
	return f;
}

static inline void open_all(struct world *w, struct sf_selection sel, struct sf_vfile **ret,
                            struct read_back *rb)
{
	if (!sel.entry) {
		sel.entry = w->all;
		sel.n = w->n;
	}
	*ret = make(w, &sel);
	read_back(*ret, rb);
}

#define PKL(s) s, sizeof(s) - 1
#define DEQUE          \
	PKL("\x80\x02" \
	    "ccollections\ndeque\n]q\0(K\1K\2e\x85R.")
#define INT42 PKL("\x80\x02K*.")
/* (a, b): two float tensors of storage "k" (one view of it) and c of storage "0" */
#define TENSOR(n, key, off, len)                                                                   \
	"ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" key \
	"X\3\0\0\0cpuK" n "tQK" off "K" len "\x85K\1\x85\x89"                                      \
	"ccollections\nOrderedDict\n)RtR"
#define TENSORS                                                                     \
	PKL("\x80\x02(" TENSOR("\4", "k", "\0", "\4") TENSOR("\4", "k", "\1", "\2") \
	            TENSOR("\2", "0", "\0", "\2") "t.")

static inline void object_world(struct world *w)
{
	static const float k[4] = { 1, 2, 3, 4 }, zero[2] = { 5, 6 };
	const struct world_storage s[] = { { "archive/data/0", zero, sizeof(zero) },
		                           { "archive/data/k", k, sizeof(k) } };

	world_init(w);
	world_tensor(w, "t0", SF_FLOAT32, 1, (uint64_t[]){ 3 });
	world_object(w, "o/step", INT42, NULL, 0);
	world_object(w, "o/tensors", TENSORS, s, 2);
	world_object(w, "deque", DEQUE, NULL, 0);
	world_tensor(w, "t1", SF_FLOAT32, 1, (uint64_t[]){ 4 });
	world_object(w, "l/#0", INT42, NULL, 0)->nowhere = true;
	world_object(w, "l/#1", INT42, NULL, 0);
	world_object(w, "bad", PKL("\x80\x02K."), NULL, 0);
	struct world_key *raw = world_add(w, "raw");
	sf_buf_str(&w->data, "raw \xff content");
	raw->len = w->data.len - raw->off;
}

#endif
