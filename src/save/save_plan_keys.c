#include "config.h"

#include <string.h>

#include "save/save_plan_priv.h"

/* ---- the head ---- */

static int malformed(uint32_t rank, const char *what, struct sf_error *err)
{
	return sf_fail(err, -EBADMSG, "rank %u: its plan is malformed: %s", rank, what);
}

static int read_head(const struct sf_save_record *rec, uint32_t rank, struct sf_rec_parts *ret,
                     struct sf_error *err)
{
	const uint8_t *at = rec->at;
	uint64_t structure, boxes, objects, left;

	if (rec->len < SF_REC_HEAD || memcmp(at, SF_REC_MAGIC, 4) != 0)
		return malformed(rank, "no record of this version of the library", err);
	left = rec->len - SF_REC_HEAD;
	structure = sf_le64(at + 8);
	boxes = sf_le64(at + 16);
	objects = sf_le64(at + 24);
	if (structure > left || boxes > left - structure || objects != left - structure - boxes)
		return malformed(rank, "its parts are not as long as it says", err);
	*ret = (struct sf_rec_parts){
		.nitems = sf_le32(at + 4),
		.structure = at + SF_REC_HEAD,
		.structure_len = structure,
		.boxes = at + SF_REC_HEAD + structure,
		.boxes_len = boxes,
		.objects = at + SF_REC_HEAD + structure + boxes,
		.objects_len = objects,
	};
	if (ret->nitems > structure) /* a byte each, at the least */
		return malformed(rank, "fewer items than it says", err);
	return 0;
}

/* ---- an item's structure ---- */

struct reading {
	struct sf_plan_make *m;
	struct sf_rec r;
	uint32_t rank;
	struct sf_error *err;
	/* of the item */
	unsigned flags;
	uint32_t npath;
	struct shardfuse_save_step path[SF_SAVE_PATH_MAX];
	uint32_t step_len[SF_SAVE_PATH_MAX]; /* of a name */
	uint8_t dtype, ndim;
	uint64_t shape[SHARDFUSE_DIMS_MAX], volume;
};

static int bad(const struct reading *x, const char *what)
{
	return malformed(x->rank, what, x->err);
}

static int no_memory(const struct reading *x)
{
	return sf_fail(x->err, -ENOMEM, "no memory for the plan of %u ranks", x->m->nranks);
}

/* The key: what it shares with the one before is there already. */
static int read_key(struct reading *x)
{
	struct sf_buf *name = &x->m->name;
	uint64_t shared = sf_rec_num(&x->r), rest = sf_rec_num(&x->r);
	const uint8_t *at = sf_rec_bytes(&x->r, rest);

	if (x->r.failed || shared > name->len || shared > SF_REC_SHARED_MAX ||
	    rest > SF_SAVE_KEY_MAX)
		return bad(x, "a key");
	if (rest && memchr(at, 0, rest))
		return bad(x, "a key with a NUL");
	name->len = shared;
	sf_buf_add(name, at, rest);
	return sf_buf_check(name) < 0 ? no_memory(x) : 0;
}

static bool is_index(const char *text, uint64_t len, uint64_t *ret)
{
	uint64_t v = 0;

	if (!len || len > 20 || (len > 1 && text[0] == '0'))
		return false;
	for (uint64_t i = 0; i < len; i++)
		if (text[i] < '0' || text[i] > '9' || !sf_mul(v, 10, &v) ||
		    !sf_add(v, (uint64_t)(text[i] - '0'), &v))
			return false;
	*ret = v;
	return true;
}

/* Names point into the key or the record, without a NUL: they are copied when the key is new. */
static int read_path(struct reading *x)
{
	const struct sf_buf *name = &x->m->name;
	uint64_t n = sf_rec_num(&x->r), at = 0;

	if (!n || n > SF_SAVE_PATH_MAX)
		return bad(x, "the steps of a path");
	for (x->npath = 0; x->npath < n; x->npath++) {
		struct shardfuse_save_step *s = &x->path[x->npath];
		uint64_t head = sf_rec_num(&x->r), len = head >> 1;
		const char *text;

		if (x->flags & SF_REC_SPLIT) {
			if (x->npath && (at >= name->len || name->at[at++] != '.'))
				return bad(x, "a path that is not its key");
			if (len > name->len - at)
				return bad(x, "a path that is longer than its key");
			text = (const char *)name->at + at;
			at += len;
		} else {
			text = (const char *)sf_rec_bytes(&x->r, len);
			if (!text || len > SF_SAVE_KEY_MAX || (len && memchr(text, 0, len)))
				return bad(x, "a path");
		}
		s->name = head & 1 ? NULL : text;
		s->index = 0;
		x->step_len[x->npath] = (uint32_t)len;
		if ((head & 1) && !is_index(text, len, &s->index))
			return bad(x, "an index of a path");
	}
	if ((x->flags & SF_REC_SPLIT) && at != name->len)
		return bad(x, "a path that is shorter than its key");
	return 0;
}

static int read_shape(struct reading *x)
{
	uint64_t bytes, volume = 1;
	bool empty = false;

	x->dtype = sf_rec_byte(&x->r);
	x->ndim = sf_rec_byte(&x->r);
	if (x->r.failed || x->dtype == SF_DTYPE_NONE || x->dtype >= SF_NDTYPES)
		return bad(x, "a dtype");
	if (x->ndim > SHARDFUSE_DIMS_MAX)
		return bad(x, "more dimensions than there may be");
	bytes = sf_dtype_info(x->dtype)->bytes;
	for (unsigned d = 0; d < x->ndim; d++) {
		x->shape[d] = sf_rec_num(&x->r);
		empty |= x->shape[d] == 0;
		if (x->shape[d] && (!sf_mul(volume, x->shape[d], &volume) ||
		                    !sf_mul(bytes, x->shape[d], &bytes) || bytes >> 63))
			return bad(x, "a tensor that is larger than 2^63 bytes");
	}
	x->volume = empty ? 0 : volume;
	return 0;
}

/* ---- keys that are new, and that agree ---- */

static int same_key(void *arg, uint32_t value, const char *name, size_t len)
{
	const struct sf_global_key *k = ((const struct sf_plan_make *)arg)->key.at + value;

	return k->key_len == len && (len == 0 || memcmp(k->key, name, len) == 0);
}

static int copy_path(struct reading *x, struct sf_global_key *k)
{
	struct sf_arena *a = &x->m->g->arena;
	struct shardfuse_save_step *path = sf_arena_calloc(a, x->npath, sizeof(*path));

	if (!path)
		return no_memory(x);
	for (uint32_t i = 0; i < x->npath; i++) {
		path[i].index = x->path[i].index;
		if (x->path[i].name &&
		    !(path[i].name = sf_arena_strdup(a, x->path[i].name, x->step_len[i])))
			return no_memory(x);
	}
	k->path = path;
	k->npath = x->npath;
	return 0;
}

/* The key is in m->name; the map has it already under the next number. */
static int add_key(struct reading *x)
{
	struct sf_plan_make *m = x->m;
	struct sf_arena *a = &m->g->arena;
	struct sf_global_key k = { .key_len = (uint32_t)m->name.len,
		                   .kind = x->flags & SF_REC_OBJECT ? SF_SAVE_OBJECT
		                                                    : SF_SAVE_TENSOR,
		                   .requires_grad = (x->flags & SF_REC_GRAD) != 0 };
	int r;

	k.key = sf_arena_strdup(a, (const char *)m->name.at, m->name.len);
	if (!k.key)
		return no_memory(x);
	if (x->npath && (r = copy_path(x, &k)) < 0)
		return r;
	if (k.kind == SF_SAVE_TENSOR) {
		uint64_t *shape = sf_arena_alloc(a, x->ndim * sizeof(*shape));
		if (!shape)
			return no_memory(x);
		memcpy(shape, x->shape, x->ndim * sizeof(*shape));
		k.shape = shape;
		k.dtype = x->dtype;
		k.ndim = x->ndim;
	}
	m->key.at[m->key.n++] = k; /* room was made */
	m->more.at[m->more.n++] = (struct sf_plan_key){ .rank = x->rank, .volume = x->volume };
	return 0;
}

static bool same_path(const struct reading *x, const struct sf_global_key *k)
{
	if (x->npath != k->npath)
		return false;
	for (uint32_t i = 0; i < x->npath; i++) {
		const char *name = k->path[i].name;
		if (!name != !x->path[i].name || k->path[i].index != x->path[i].index)
			return false;
		if (name && (strlen(name) != x->step_len[i] ||
		             memcmp(name, x->path[i].name, x->step_len[i]) != 0))
			return false;
	}
	return true;
}

static int agree(const struct reading *x, const struct sf_global_key *k, uint32_t other)
{
	bool object = (x->flags & SF_REC_OBJECT) != 0;
	char a[200], b[200];

	if (object != (k->kind == SF_SAVE_OBJECT))
		return sf_fail(x->err, -EINVAL, "'%s': rank %u has %s of that key, rank %u %s",
		               sf_save_shown(k->key, k->key_len).at, other,
		               object ? "a tensor" : "an object", x->rank,
		               object ? "an object" : "a tensor");
	if (!object && x->dtype != k->dtype)
		return sf_fail(x->err, -EINVAL, "tensor '%s': rank %u has it as %s, rank %u as %s",
		               sf_save_shown(k->key, k->key_len).at, other,
		               sf_dtype_info(k->dtype)->torch, x->rank,
		               sf_dtype_info(x->dtype)->torch);
	if (!object &&
	    (x->ndim != k->ndim || memcmp(x->shape, k->shape, k->ndim * sizeof(*k->shape)) != 0)) {
		sf_plan_point_text(a, sizeof(a), k->shape, k->ndim);
		sf_plan_point_text(b, sizeof(b), x->shape, x->ndim);
		return sf_fail(x->err, -EINVAL,
		               "tensor '%s': rank %u has it with shape %s, rank %u with %s",
		               sf_save_shown(k->key, k->key_len).at, other, a, x->rank, b);
	}
	if (!same_path(x, k))
		return sf_fail(x->err, -EINVAL,
		               "'%s': ranks %u and %u have it under paths that differ",
		               sf_save_shown(k->key, k->key_len).at, other, x->rank);
	return 0;
}

/* Number of the key of the item that was read. */
static int find_key(struct reading *x, uint32_t *ret)
{
	struct sf_plan_make *m = x->m;
	uint32_t next = (uint32_t)m->key.n, found;
	int failed = 0;

	if (next >= SF_MAP_NONE - 1)
		return sf_fail(x->err, -E2BIG, "more than %u keys", SF_MAP_NONE - 1);
	if (sf_global_keys_reserve(&m->key, m->key.n + 1) < 0 ||
	    sf_plan_keys_reserve(&m->more, m->more.n + 1) < 0)
		return no_memory(x);
	found = sf_map_add(&m->key_map, (const char *)m->name.at, m->name.len, next, same_key, m,
	                   &failed);
	if (failed < 0)
		return no_memory(x);
	if (found != SF_MAP_NONE) {
		*ret = found;
		return agree(x, &m->key.at[found], m->more.at[found].rank);
	}
	*ret = next;
	return add_key(x);
}

static int read_item(struct reading *x, bool first, uint32_t *key)
{
	int r;

	x->flags = sf_rec_byte(&x->r);
	if (x->r.failed || (x->flags & ~(unsigned)SF_REC_FLAGS) ||
	    (x->flags & SF_REC_SPLIT && x->flags & SF_REC_STEPS))
		return bad(x, "flags of an item");
	if (x->flags & SF_REC_AGAIN) {
		if (first || x->m->key.at[key[-1]].kind != SF_SAVE_TENSOR ||
		    (x->flags & (SF_REC_OBJECT | SF_REC_SPLIT | SF_REC_STEPS)))
			return bad(x, "another box of no tensor");
		*key = key[-1];
		return 0;
	}
	x->npath = 0;
	r = read_key(x);
	if (r >= 0 && x->flags & (SF_REC_SPLIT | SF_REC_STEPS))
		r = read_path(x);
	if (r >= 0 && !(x->flags & SF_REC_OBJECT))
		r = read_shape(x);
	if (r < 0)
		return r;
	if (x->r.failed)
		return bad(x, "it ends early");
	return find_key(x, key);
}

/* ---- a rank ---- */

static int read_structure(struct sf_plan_make *m, uint32_t rank, struct sf_plan_structure *s,
                          struct sf_error *err)
{
	struct reading *x = sf_arena_alloc(&m->scratch, sizeof(*x));
	int r = 0;

	s->key = sf_arena_calloc(&m->scratch, s->nitems, sizeof(*s->key));
	if (!x || !s->key)
		return sf_fail(err, -ENOMEM, "no memory for the plan of rank %u", rank);
	x->m = m;
	x->r = (struct sf_rec){ .at = s->at, .end = s->at + s->len };
	x->rank = rank;
	x->err = err;
	x->volume = 0;
	m->name.len = 0;
	for (uint32_t i = 0; i < s->nitems && r >= 0; i++)
		r = read_item(x, i == 0, &s->key[i]);
	if (r >= 0 && x->r.at != x->r.end)
		r = bad(x, "more items than it says");
	return r;
}

static int same_structure(void *arg, uint32_t value, const char *at, size_t len)
{
	const struct sf_plan_structure *s =
		((const struct sf_plan_make *)arg)->structure.at + value;

	return s->len == len && (len == 0 || memcmp(s->at, at, len) == 0);
}

/* Ranks with the bytes of another are that one's likes: nothing of theirs is read here. */
static int read_rank(struct sf_plan_make *m, uint32_t rank, struct sf_error *err)
{
	struct sf_rec_parts *p = &m->part[rank];
	uint32_t next = (uint32_t)m->structure.n, found;
	int r = read_head(&m->record[rank], rank, p, err), failed = 0;
	struct sf_plan_structure *s;

	if (r < 0)
		return r;
	if (sf_plan_structures_reserve(&m->structure, m->structure.n + 1) < 0)
		return sf_fail(err, -ENOMEM, "no memory for the plans of %u ranks", m->nranks);
	m->structure.at[next] = (struct sf_plan_structure){
		.at = p->structure, .len = p->structure_len, .nitems = p->nitems, .rank = rank
	};
	found = sf_map_add(&m->structure_map, (const char *)p->structure, p->structure_len, next,
	                   same_structure, m, &failed);
	if (failed < 0)
		return sf_fail(err, -ENOMEM, "no memory for the plans of %u ranks", m->nranks);
	m->structure_of[rank] = found != SF_MAP_NONE ? found : next;
	s = &m->structure.at[m->structure_of[rank]];
	s->nranks++;
	if (found != SF_MAP_NONE)
		return s->nitems == p->nitems ? 0 : malformed(rank, "items it has not", err);
	m->structure.n++;
	return read_structure(m, rank, s, err);
}

int sf_plan_read_keys(struct sf_plan_make *m, struct sf_error *err)
{
	int r = 0;

	for (uint32_t rank = 0; rank < m->nranks && r >= 0; rank++)
		r = read_rank(m, rank, err);
	if (r < 0)
		return r;
	if (!m->key.n)
		return sf_fail(err, -EINVAL, "nothing to save: none of %u ranks has an item",
		               m->nranks);
	for (size_t i = 0; i < m->structure.n; i++) {
		const struct sf_plan_structure *s = &m->structure.at[i];
		for (uint32_t k = 0; k < s->nitems; k++)
			m->more.at[s->key[k]].nboxes += s->nranks;
	}
	return 0;
}
