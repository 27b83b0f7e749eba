#include "config.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/path.h"
#include "ckpt/box.h"
#include "ckpt/builder_priv.h"
#include "ckpt/ckpt_check.h"

static int compare_names(const void *a, const void *b)
{
	const struct sf_file *x = a, *y = b;
	int r = memcmp(x->name, y->name, SF_MIN(x->name_len, y->name_len));

	return r ? r : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

/* The listing sorted, a name once; sizes and versions for the files that metadata names. */
#define LOOKS_MAX 100

/* What is there in its place, when it is no regular file. */
static int look_at(struct sf_ckpt_builder *b, struct sf_file *f, unsigned *looks)
{
	struct sf_error why = SF_ERROR_INIT;

	if (!b->look || ++*looks > LOOKS_MAX || b->look(b->look_arg, f->name, &why) != -EBADMSG)
		return 0;
	f->odd = sf_arena_strdup(&b->ckpt->arena, why.msg, strlen(why.msg));
	return f->odd ? 0 : -ENOMEM;
}

static int resolve_files(struct sf_ckpt_builder *b, struct sf_error *err)
{
	struct sf_file *at = b->listing.at;
	size_t n = 0;
	char text[SF_ERROR_MAX];
	unsigned looks = 0;

	if (b->listing.n)
		qsort(at, b->listing.n, sizeof(*at), compare_names);
	for (size_t i = 0; i < b->listing.n; i++)
		if (!n || compare_names(&at[n - 1], &at[i]) != 0)
			at[n++] = at[i];
	b->listing.n = n;

	for (size_t i = 0; i < b->files.n; i++) {
		struct sf_file *f = &b->files.at[i];
		const struct sf_file *found =
			n ? bsearch(f, at, n, sizeof(*at), compare_names) : NULL;

		if (found) {
			f->info = found->info;
		} else if (b->has_listing) {
			f->missing = true;
			snprintf(text, sizeof(text),
			         "file '%s' is named by metadata but is not there", f->name);
			if (look_at(b, f, &looks) < 0)
				return sf_builder_no_memory(err, b);
			if (f->odd)
				snprintf(text, sizeof(text), "%s", f->odd);
			if (sf_builder_warn_file(b, (uint32_t)i, "missing-file", text) < 0)
				return sf_builder_no_memory(err, b);
		} else {
			f->info.size = UINT64_MAX; /* nobody looked */
		}
	}
	return 0;
}

/*
 * Metadata names items by (key, origin): two chunks that are listed twice with the same box are the
 * same item (Source: PyTorch's planner looks a chunk's item up by its offsets, formats/dcp.md 3.3).
 */
static void share_items(struct sf_tensor *t)
{
	uint32_t *place = (uint32_t *)t->place;
	uint64_t *off = (uint64_t *)t->off, *len = (uint64_t *)t->len;
	struct sf_chunk_layout *layout = t->more ? (struct sf_chunk_layout *)t->more->layout : NULL;

	for (uint32_t i = 1, from = 0; i < t->norder && !t->part; i++) {
		uint32_t a = t->order[from], c = t->order[i];
		bool same = true;

		for (unsigned d = 0; d < t->ndim && same; d++)
			same = sf_chunk_origin(t, a, d) == sf_chunk_origin(t, c, d) &&
			       sf_chunk_extent(t, a, d) == sf_chunk_extent(t, c, d);
		if (!same) {
			from = i;
			continue;
		}
		/* forward from the first that has one; the first that comes late goes back to all
		 * before it */
		uint32_t has = place[a] != SF_NONE ? a : c, lacks = place[a] != SF_NONE ? i : from;
		for (; lacks <= i && place[has] != SF_NONE; lacks++) {
			uint32_t to = t->order[lacks];
			if (place[to] == SF_NONE) {
				place[to] = place[has];
				off[to] = off[has];
				len[to] = len[has];
				if (layout)
					layout[to] = layout[has];
			}
		}
	}
}

static size_t put_coords(char *text, size_t size, const uint64_t *at, unsigned ndim)
{
	size_t n = 0;

	for (unsigned d = 0; d < ndim && n < size; d++)
		n += (size_t)snprintf(text + n, size - n, "%s%llu", d ? ", " : "",
		                      (unsigned long long)at[d]);
	return n;
}

static int warn_hole(struct sf_ckpt_builder *b, const struct sf_tensor *t,
                     const struct sf_coverage *c)
{
	uint64_t at[SF_DIMS_MAX], x = c->hole, bytes = sf_dtype_info(t->dtype)->bytes;
	char coords[256] = "", more[64] = "", text[SF_ERROR_MAX];

	if (c->hole == UINT64_MAX)
		return sf_builder_warn_key(b, t->key, "hole",
		                           "its chunks do not tile it; too tangled to say where");
	for (unsigned d = t->ndim; d-- > 0; x /= t->shape[d])
		at[d] = x % t->shape[d];
	put_coords(coords, sizeof(coords), at, t->ndim);
	if (c->missing)
		snprintf(more, sizeof(more), "; %llu of %llu elements are missing",
		         (unsigned long long)c->missing, (unsigned long long)(t->bytes / bytes));
	snprintf(text, sizeof(text), "no chunk holds element [%s] (byte %llu)%s", coords,
	         (unsigned long long)(c->hole * bytes), more);
	return sf_builder_warn_key(b, t->key, "hole", text);
}

static int warn_overlap(struct sf_ckpt_builder *b, const struct sf_tensor *t,
                        const struct sf_coverage *c)
{
	char text[SF_ERROR_MAX], box[2][200];
	const uint32_t chunk[2] = { c->a, c->b };
	uint64_t at[SF_DIMS_MAX];

	if (c->a == c->b)
		return sf_builder_warn_key(
			b, t->key, "overlap",
			"its chunks overlap, or have holes; the first chunk wins");
	for (int i = 0; i < 2; i++) {
		for (unsigned d = 0; d < t->ndim; d++)
			at[d] = sf_chunk_origin(t, chunk[i], d);
		box[i][0] = '\0';
		put_coords(box[i], sizeof(box[i]), at, t->ndim);
	}
	snprintf(text, sizeof(text),
	         "chunk %u at [%s] and chunk %u at [%s] overlap; the first chunk wins", c->a,
	         box[0], c->b, box[1]);
	return sf_builder_warn_key(b, t->key, "overlap", text);
}

static int finish_cover(struct sf_ckpt_builder *b, struct sf_tensor *t, uint64_t *budget)
{
	struct sf_coverage c;
	int r = sf_check_cover(t, budget, &c);

	if (r < 0)
		return r;
	t->flags |= (uint8_t)c.flags;
	if (c.flags & SF_TENSOR_GRID) {
		uint32_t *grid_n = sf_arena_alloc(&b->ckpt->arena, t->ndim * sizeof(*grid_n));
		if (!grid_n)
			return -ENOMEM;
		memcpy(grid_n, c.grid_n, t->ndim * sizeof(*grid_n));
		t->grid_n = grid_n;
		return 0;
	}
	uint64_t *hull_end = sf_arena_alloc(&b->ckpt->arena, t->norder * sizeof(*hull_end));
	if (!hull_end)
		return -ENOMEM;
	sf_order_hulls(t, hull_end);
	t->hull_end = hull_end;
	if (c.flags & SF_TENSOR_OVERLAP) {
		share_items(t);
		r = warn_overlap(b, t, &c);
	}
	if (r >= 0 && c.flags & SF_TENSOR_HOLE)
		r = warn_hole(b, t, &c);
	return r;
}

static bool is_cast(const struct sf_tensor *t)
{
	return t->more && t->more->is_cast;
}

/* What is another tensor's values has that one's chunks, and its damage. */
static int finish_casts(struct sf_ckpt_builder *b)
{
	for (size_t i = 0; i < b->tensors.n; i++) {
		struct sf_tensor *t = &b->tensors.at[i], own = *t;
		char text[SF_ERROR_MAX];
		if (!is_cast(t))
			continue;
		*t = b->tensors.at[own.more->source];
		struct sf_tensor_more *more = (struct sf_tensor_more *)own.more;
		if (t->more)
			more->layout = t->more->layout;
		snprintf(text, sizeof(text), "it is '%.200s' cast, which is not whole",
		         b->keys.at[t->key].name);
		t->key = own.key;
		t->dtype = own.dtype;
		t->bytes = own.bytes;
		t->shape = own.shape;
		t->more = more;
		if (t->flags & (SF_TENSOR_HOLE | SF_TENSOR_DAMAGED) &&
		    sf_builder_warn_key(b, t->key,
		                        t->flags & SF_TENSOR_HOLE ? "hole" : "missing-item",
		                        text) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Items of one tensor; a kind of damage is told once, with the first chunk that has it. */
static int finish_items(struct sf_ckpt_builder *b, struct sf_tensor *t)
{
	struct sf_bad_items bad[SF_BAD_KINDS];
	unsigned n = sf_check_items(b->ckpt, t, bad);

	for (unsigned k = 0; k < n; k++) {
		char text[SF_BAD_TEXT];

		t->flags |= SF_TENSOR_DAMAGED;
		sf_check_items_text(t, &bad[k], text);
		if (sf_builder_warn_key(b, t->key, bad[k].c.code, text) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int finish_objects(struct sf_ckpt_builder *b)
{
	for (size_t i = 0; i < b->objects.n; i++) {
		const struct sf_object *o = &b->objects.at[i];
		struct sf_item_check c;
		char text[SF_ERROR_MAX];

		if (sf_check_item(b->ckpt, o->place, o->off, o->len, 0, &c))
			continue;
		sf_check_item_text(&c, o->off, o->len, text);
		if (sf_builder_warn_key(b, o->key, c.code, text) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void *keep(struct sf_ckpt_builder *b, const void *at, size_t n, size_t size)
{
	void *p = sf_arena_calloc(&b->ckpt->arena, n, size);

	if (p && n)
		memcpy(p, at, n * size);
	return p;
}

/* A key without planner data has its name for a path. */
static int default_paths(struct sf_ckpt_builder *b)
{
	struct sf_path_elem *path;
	size_t n = 0;

	for (size_t i = 0; i < b->keys.n; i++)
		n += !b->keys.at[i].path;
	path = sf_arena_calloc(&b->ckpt->arena, n, sizeof(*path));
	if (!path)
		return -ENOMEM;
	for (size_t i = 0; i < b->keys.n; i++) {
		struct sf_key *k = &b->keys.at[i];
		if (k->path)
			continue;
		path->s = k->name;
		path->len = k->len;
		k->path = path++;
		k->npath = 1;
	}
	return 0;
}

static int keep_warnings(struct sf_ckpt_builder *b)
{
	size_t n = b->warnings.n + (b->more_warnings > 0);
	struct sf_warning *w = sf_arena_calloc(&b->ckpt->arena, n, sizeof(*w));
	char text[64];

	if (!w)
		return -ENOMEM;
	b->ckpt->warning = w;
	b->ckpt->nwarnings = (uint32_t)n;
	for (size_t i = 0; i < b->warnings.n; i++, w++) {
		const struct sf_pending_warning *from = &b->warnings.at[i];
		w->code = from->code;
		w->text = from->text;
		w->key = from->key;
		w->file = from->file;
		if (from->key_name)
			w->key = sf_builder_key(b, from->key_name, strlen(from->key_name));
	}
	if (!b->more_warnings)
		return 0;
	snprintf(text, sizeof(text), "%llu more warnings are not shown",
	         (unsigned long long)b->more_warnings);
	w->key = w->file = SF_NONE;
	w->code = "more";
	w->text = sf_arena_strdup(&b->ckpt->arena, text, strlen(text));
	return w->text ? 0 : -ENOMEM;
}

/* Nested deeper than .pt files nest: a note, for they look other than the state dict did. */
static int note_deep(struct sf_ckpt_builder *b)
{
	const struct sf_key *first = NULL;
	uint32_t n = 0;

	for (size_t i = 0; i < b->keys.n; i++)
		if (b->keys.at[i].npath > SF_PATH_NESTED) {
			first = first ? first : &b->keys.at[i];
			n++;
		}
	return !n ? 0
	          : sf_ckpt_builder_warn(b, NULL, "deep-path",
	                                 "%u %s deeper than %u containers, the first is "
	                                 "'%.200s': .pt files have them at the root, under "
	                                 "their full names",
	                                 n, n == 1 ? "key lies" : "keys lie", SF_PATH_NESTED,
	                                 first->name);
}

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

static uint64_t mix_text(uint64_t h, const char *s, size_t len)
{
	return mix(sf_fnv1a(h, s, len), len);
}

/*
 * The same for every load of the same version from the same place, another after a change of any
 * file that is read. Device numbers are left out: they change with a remount. A digest of 10^6
 * files must be cheap, so files go into a plain mix, and only that into SHA-256.
 */
static void hash_version(struct sf_ckpt *ckpt)
{
	uint8_t digest[SF_SHA256_BYTES], bytes[5 * 8];
	uint64_t h = mix_text(mix_text(0, ckpt->format, strlen(ckpt->format)), ckpt->source,
	                      strlen(ckpt->source));
	uint64_t files = 1;

	for (uint32_t i = 0; i < ckpt->nfiles; i++) {
		const struct sf_file *f = &ckpt->file[i];
		files = mix(mix_text(files, f->name, f->name_len), f->info.size);
		files = mix(mix(files, f->info.version.ino), (uint64_t)f->info.version.mtime_ns);
		if (f->info.version.etag)
			files = mix_text(files, f->info.version.etag, strlen(f->info.version.etag));
	}
	sf_put_le64(bytes, h);
	sf_put_le64(bytes + 8, files);
	sf_put_le64(bytes + 16, (uint64_t)ckpt->mtime_ns);
	sf_put_le64(bytes + 24, ckpt->nchunks);
	sf_put_le64(bytes + 32, ckpt->nkeys);
	sf_sha256(bytes, sizeof(bytes), digest);
	memcpy(ckpt->version_hash, digest, sizeof(ckpt->version_hash));
}

static int finish_all(struct sf_ckpt_builder *b, struct sf_error *err)
{
	struct sf_ckpt *ckpt = b->ckpt;
	uint64_t budget = SF_CHECK_BUDGET(ckpt->nchunks);
	struct sf_key *keys;
	int r = resolve_files(b, err);

	if (r < 0)
		return r;
	ckpt->file = keep(b, b->files.at, b->files.n, sizeof(*b->files.at));
	ckpt->listing = keep(b, b->listing.at, b->listing.n, sizeof(*b->listing.at));
	if (!ckpt->file || !ckpt->listing || sf_builder_keep_places(b) < 0)
		return sf_builder_no_memory(err, b);
	ckpt->nfiles = (uint32_t)b->files.n;
	ckpt->nlisting = (uint32_t)b->listing.n;

	for (size_t i = 0; i < b->tensors.n && r >= 0; i++) {
		if (is_cast(&b->tensors.at[i]))
			continue;
		r = finish_cover(b, &b->tensors.at[i], &budget);
		if (r >= 0)
			r = finish_items(b, &b->tensors.at[i]);
	}
	if (r >= 0)
		r = finish_objects(b);
	if (r >= 0)
		r = default_paths(b);
	if (r >= 0)
		r = note_deep(b);
	if (r >= 0)
		r = sf_builder_note_shared(b);
	if (r >= 0)
		r = finish_casts(b);
	if (r < 0)
		return sf_builder_no_memory(err, b);
	r = sf_builder_finish_ties(b, err);
	if (r < 0)
		return r;

	keys = keep(b, b->keys.at, b->keys.n, sizeof(*keys));
	ckpt->key = keys;
	ckpt->tensor = keep(b, b->tensors.at, b->tensors.n, sizeof(*b->tensors.at));
	ckpt->object = keep(b, b->objects.at, b->objects.n, sizeof(*b->objects.at));
	if (!keys || !ckpt->tensor || !ckpt->object)
		return sf_builder_no_memory(err, b);
	ckpt->nkeys = (uint32_t)b->keys.n;
	ckpt->nmain = SF_MIN(b->nmain, ckpt->nkeys);
	ckpt->ntensors = (uint32_t)b->tensors.n;
	ckpt->nobjects = (uint32_t)b->objects.n;
	r = sf_group_keys(ckpt, keys, b->choices.at, b->choices.n, err);
	if (r < 0)
		return r;
	if (keep_warnings(b) < 0)
		return sf_builder_no_memory(err, b);
	hash_version(ckpt);
	return 0;
}

int sf_ckpt_builder_finish(struct sf_ckpt_builder *b, struct sf_ckpt **ret, struct sf_error *err)
{
	int r = sf_builder_close(b, err);

	if (r >= 0 && b->failed)
		r = sf_builder_no_memory(err, b);
	if (r >= 0)
		r = finish_all(b, err);
	if (r < 0)
		return r;
	*ret = SF_STEAL(b->ckpt);
	sf_ckpt_builder_free(b);
	return 0;
}
