#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "format/dcp/dcp_lower.h"
#include "format/dcp/dcp_subclass.h"
#include "store/source.h"

#define PLACE_UNSAFE (SF_NONE - 1) /* its name is refused */
#define DCP_NAME_MAX (DCP_STRING_MAX + 4096u)
/* Bytes of names of a subclass's shards, each of which repeats its key's: so many, and for a shard
 * so many more. */
#define SHARD_NAMES_ROOM (UINT64_C(64) << 20)
#define SHARD_NAMES_EACH 256

enum verdict { UNKNOWN, TORCH, SAFETENSORS };
struct place {                /* of m->place[] */
	uint32_t torch, blob; /* builder's places, SF_NONE not made yet */
	uint8_t verdict;      /* enum verdict */
	uint64_t blob_off;    /* of the verdict SAFETENSORS behind a transform */
};

struct lower {
	const struct dcp_meta *m;
	const struct sf_format_dir *src;
	struct sf_ckpt_builder *b;
	struct sf_error *err;
	struct place *place;
	uint32_t *object;   /* by string: builder's object, SF_NONE */
	uint8_t *is_key;    /* by string */
	struct sf_buf name; /* the key being lowered, with its prefix */
	struct sf_buf file;
	struct sf_arena text; /* strings that are not as stored */
	const char **class;   /* by tensor: see dcp_find_subclasses; NULL: all are dense */
	struct dcp_classes classes;
	uint64_t shard_names, shards; /* bytes, number */
};

struct text {
	const char *at;
	uint32_t len;
};

/*
 * A stored str as a name of ours: the one place where a byte that Python could not decode, and
 * pickled as a lone surrogate, becomes that byte again. What has none is lent as it is stored.
 */
static int str(struct lower *l, uint32_t i, struct text *ret)
{
	const struct dcp_str *s = &l->m->str.at[i];
	char *out;

	*ret = (struct text){ s->at, s->len };
	if (!sf_surrogates_any(s->at, s->len))
		return 0;
	out = sf_arena_alloc(&l->text, s->len);
	if (!out)
		return sf_fail(l->err, -ENOMEM, "dcp: no memory for a name of %u bytes", s->len);
	*ret = (struct text){ out, (uint32_t)sf_surrogates_to_bytes(s->at, s->len, out) };
	return 0;
}

/* The key as shown: into l->name. */
static int set_name(struct lower *l, uint32_t s)
{
	struct text key;
	int r = str(l, s, &key);

	if (r < 0)
		return r;
	sf_buf_reset(&l->name);
	if (l->src->prefix) {
		sf_buf_str(&l->name, l->src->prefix);
		sf_buf_byte(&l->name, '.');
	}
	sf_buf_add(&l->name, key.at, key.len);
	sf_buf_byte(&l->name, '\0'); /* so that an empty key has a text, too */
	l->name.len -= l->name.failed ? 0 : 1;
	if (sf_buf_check(&l->name) < 0)
		return sf_fail(l->err, sf_buf_check(&l->name), "dcp: a key of %u bytes", key.len);
	return 0;
}

/* Written through what cannot be undone here: said now, and by every read. */
static int make_unreadable(struct lower *l, uint32_t file, uint32_t transform, uint32_t *ret)
{
	const struct dcp_str *codec = &l->m->str.at[transform - DCP_OTHER];
	struct sf_buf name = { 0 }, why = { 0 };
	int r;

	sf_escape_text(&name, codec->at, SF_MIN(codec->len, 200u));
	sf_buf_printf(&why, "items in %s were written through '%s', which cannot be undone here",
	              (const char *)l->file.at, sf_buf_cstr(&name));
	r = sf_ckpt_builder_place_unreadable(l->b, file, SF_ITEM_TORCH, sf_buf_cstr(&why), ret,
	                                     l->err);
	if (r >= 0)
		r = sf_ckpt_builder_warn(l->b, NULL, "transform", "%s", sf_buf_cstr(&why));
	sf_buf_release(&name);
	sf_buf_release(&why);
	return r;
}

static int make_place(struct lower *l, uint32_t i, enum sf_item_form form, uint32_t *ret)
{
	/* a blob is written past the transforms */
	uint32_t t = form == SF_ITEM_ST_BLOB ? DCP_PLAIN : l->m->place.at[i].transform;

	enum sf_codec codec = t == DCP_PLAIN ? SF_CODEC_NONE : SF_CODEC_ZSTD;
	uint32_t file;
	int r = sf_ckpt_builder_file(l->b, (const char *)l->file.at, l->file.len, &file, l->err);

	if (r >= 0 && t >= DCP_OTHER)
		return make_unreadable(l, file, t, ret);
	return r < 0 ? r : sf_ckpt_builder_place_in(l->b, file, form, codec, t, ret, l->err);
}

static int set_file(struct lower *l, uint32_t i)
{
	struct text path;
	int r = str(l, l->m->place.at[i].path, &path);

	if (r < 0)
		return r;
	sf_buf_reset(&l->file);
	sf_buf_str(&l->file, l->src->dir);
	sf_buf_add(&l->file, path.at, path.len);
	sf_buf_cstr(&l->file);
	return sf_buf_check(&l->file) < 0 ? sf_fail(l->err, sf_buf_check(&l->file),
	                                            "dcp: a file name of %u bytes", path.len)
	                                  : 0;
}

/* Every file that storage_data names, before any key: a name that leads out of the checkpoint is
 * never opened. */
static int lower_places(struct lower *l)
{
	struct sf_buf text = { 0 };
	int r = 0;

	for (uint32_t i = 0; i < l->m->place.n && r >= 0; i++) {
		const struct dcp_str *path = &l->m->str.at[l->m->place.at[i].path];
		l->place[i] = (struct place){ .torch = SF_NONE, .blob = SF_NONE };
		if (sf_path_check(path->at, path->len, NULL) < 0) {
			l->place[i].torch = PLACE_UNSAFE;
			sf_buf_reset(&text);
			sf_escape_text(&text, path->at, SF_MIN(path->len, 200u));
			r = sf_ckpt_builder_warn(
				l->b, NULL, "unsafe-name",
				"storage_data names '%s': not a file below the checkpoint, refused",
				sf_buf_cstr(&text));
			continue;
		}
		r = set_file(l, i);
		if (r >= 0)
			r = make_place(l, i, SF_ITEM_TORCH, &l->place[i].torch);
	}
	sf_buf_release(&text);
	return r;
}

/* *ret is NULL where there is nothing to look at: the file is gone, or no plain one. */
static int open_place(struct lower *l, uint32_t i, struct sf_source **ret)
{
	const struct sf_objinfo *info;
	struct sf_error why = SF_ERROR_INIT;
	int r = set_file(l, i);

	*ret = NULL;
	if (r < 0 ||
	    !(info = sf_format_listed(l->src->files, l->src->nfiles, (const char *)l->file.at)))
		return r;
	r = l->src->store->ops->open(l->src->store, info->name, info, ret, &why);
	if (r == -ENOENT || r == -EBADMSG)
		return 0;
	return r < 0 ? sf_fail(l->err, r, "dcp: looking at an item: %s", why.msg) : 0;
}

/*
 * Bytes of an item, for what they tell about its form. 0: they are there; 1: they cannot be had for
 * good, a guess must do. Any other failure is the load's: what is not answered now may be at the
 * next try, and a guess would stay until the next load.
 */
static int look(struct lower *l, struct sf_source *src, uint64_t off, void *buf, size_t len)
{
	struct sf_error why = SF_ERROR_INIT;
	int r = sf_source_read(src, off, buf, len, SF_FETCH_HEADER, &why);

	if (r == -ENOENT || r == -EBADMSG)
		return 1;
	return r < 0 ? sf_fail(l->err, r, "dcp: looking at an item: %s", why.msg) : 0;
}

/*
 * SAFETENSORS mode under zstd: each tensor's stream is closed with nothing in it, an empty frame at
 * its offset, and one plain blob follows them all. Frames of the two shapes that libzstd gives
 * them: no content size and a window of 2 MiB, or a content size of 0. Cost: reads 9 bytes a
 * tensor.
 */
static int decide_zstd(struct lower *l, uint32_t i, uint64_t off)
{
	static const uint8_t empty[2][9] = { { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 1, 0, 0 },
		                             { 0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x00, 1, 0, 0 } };
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	uint8_t text[910 * sizeof(empty[0])];
	uint64_t at = off;
	int r = open_place(l, i, &src);

	l->place[i].verdict = TORCH;
	if (r < 0 || !src)
		return r;
	for (;;) {
		size_t n = 0,
		       len = at < src->size ? (size_t)SF_MIN(src->size - at, sizeof(text)) : 0;
		r = len ? look(l, src, at, text, len) : 1;
		if (r)
			return r < 0 ? r : 0;
		while (len - n >= sizeof(empty[0]) &&
		       (memcmp(text + n, empty[0], sizeof(empty[0])) == 0 ||
		        memcmp(text + n, empty[1], sizeof(empty[0])) == 0))
			n += sizeof(empty[0]);
		at += n;
		if ((at - off) / sizeof(empty[0]) > l->m->item.n)
			return 0; /* more than there are tensors */
		if (n < sizeof(text)) {
			if (at > off && len - n > 8 && text[n + 8] == '{') {
				l->place[i].verdict = SAFETENSORS;
				l->place[i].blob_off = at;
			}
			return 0;
		}
	}
}

/*
 * SAFETENSORS mode or not: a torch.save archive is always longer than its payload, so an item of
 * exactly the payload's length is no archive, unless a writer other than torch's stored a broadcast
 * tensor: then the bytes there tell.
 */
static int decide(struct lower *l, uint32_t i, uint64_t off)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	uint8_t head[9];
	int r = open_place(l, i, &src);

	l->place[i].verdict = SAFETENSORS;
	if (r < 0 || !src || src->size < sizeof(head) || off > src->size - sizeof(head))
		return r;
	r = look(l, src, off, head, sizeof(head));
	if (r == 0 && (memcmp(head, "PK\3\4", 4) == 0 || head[8] != '{'))
		l->place[i].verdict = TORCH;
	return r < 0 ? r : 0;
}

/* Where and in which form the item lies. *ret_off: its place's, which differs for a blob behind
 * transforms. */
static int item_place(struct lower *l, const struct dcp_item *item, uint64_t payload, uint32_t *ret,
                      uint64_t *ret_off)
{
	struct place *p = &l->place[item->place];
	uint32_t transform = l->m->place.at[item->place].transform;
	int r;

	*ret = p->torch;
	*ret_off = item->off;
	if (p->torch == PLACE_UNSAFE) {
		*ret = SF_NONE;
		return 0;
	}
	if (item->len != payload || (transform != DCP_PLAIN && transform != DCP_ZSTD))
		return 0;
	if (p->verdict == UNKNOWN && payload) {
		r = (transform == DCP_ZSTD ? decide_zstd : decide)(l, item->place, item->off);
		if (r < 0)
			return r;
	}
	if (p->verdict != SAFETENSORS)
		return 0;
	if (transform == DCP_ZSTD)
		*ret_off = p->blob_off;
	if (p->blob == SF_NONE) {
		r = set_file(l, item->place);
		if (r >= 0)
			r = make_place(l, item->place, SF_ITEM_ST_BLOB, &p->blob);
		if (r < 0)
			return r;
	}
	*ret = p->blob;
	return 0;
}

static int lower_tensor(struct lower *l, const struct dcp_tensor *t)
{
	const struct dcp_meta *m = l->m;
	uint64_t box[2][SF_DIMS_MAX], elem = sf_dtype_info((enum sf_dtype)t->dtype)->bytes;
	const uint64_t *shape = t->ndim ? m->dims.at + t->shape0 : NULL;
	uint32_t index, n = 0, taken = 0, place, last_place = SF_NONE, unsafe = SF_NONE;
	uint64_t last_off = 0, off;
	const size_t front = l->src->prefix ? strlen(l->src->prefix) + 1 : 0;
	bool told = false, in_blob = false;
	int r = sf_ckpt_builder_tensor(l->b, (const char *)l->name.at, l->name.len,
	                               (enum sf_dtype)t->dtype, shape, t->ndim, &index, l->err);

	for (uint32_t k = 0; r >= 0 && k < t->nruns; k++) {
		const struct dcp_run *run = &m->run.at[t->run0 + k];
		for (uint32_t i = 0; r >= 0 && i < run->count; i++, n++) {
			const struct dcp_item *item = &m->item.at[run->chunk0 + i];
			uint64_t payload = elem;
			bool fits = true, inside = true;
			for (unsigned d = 0; d < t->ndim; d++) {
				box[0][d] = dcp_coord(m, run, i, d);
				box[1][d] = dcp_coord(m, run, i, t->ndim + d);
				fits = fits && sf_mul(payload, box[1][d], &payload);
				inside = inside && box[0][d] <= shape[d] &&
				         box[1][d] <= shape[d] - box[0][d];
			}
			if (!inside) { /* it costs this tensor: what it would fill is a hole */
				if (!told)
					r = sf_ckpt_builder_warn(l->b, (const char *)l->name.at,
					                         "chunk-outside",
					                         "chunk %u extends beyond the "
					                         "tensor: it is not read",
					                         n);
				told = true;
				continue;
			}
			taken++;
			r = sf_ckpt_builder_chunk(l->b, box[0], box[1], l->err);
			if (r < 0 || item->place == DCP_NONE || !fits)
				continue;
			r = item_place(l, item, payload, &place, &off);
			if (r < 0)
				break;
			if (place == SF_NONE)
				unsafe = n;
			else
				sf_ckpt_builder_set_item(l->b, index, taken - 1, place, off,
				                         item->len);
			/* One name in one blob: several chunks of a rank overwrote each other when
			 * it was saved. */
			if (place != SF_NONE && place == l->place[item->place].blob && payload &&
			    place == last_place && off == last_off)
				r = sf_ckpt_builder_warn(
					l->b, (const char *)l->name.at, "overwritten",
					"chunks %u and %u of one rank share one place in its "
					"safetensors data: only the last was kept",
					n - 1, n);
			last_place = place;
			last_off = off;
			in_blob |= place != SF_NONE && place == l->place[item->place].blob;
		}
	}
	/* the child's writer knew nothing of the name that was put in front */
	if (r >= 0 && in_blob && front)
		r = sf_ckpt_builder_stored_name(l->b, index, (const char *)l->name.at + front,
		                                l->name.len - front, l->err);
	if (r >= 0 && unsafe != SF_NONE)
		r = sf_ckpt_builder_warn(l->b, (const char *)l->name.at, "unsafe-name",
		                         "the item of chunk %u lies under a refused name", unsafe);
	return r;
}

/* One item of a tensor that is no dense one: an object under the name that stands in l->name. */
static int lower_instance(struct lower *l, const struct dcp_tensor *t, const struct dcp_run *run,
                          uint32_t i, const char *class)
{
	const struct dcp_item *item = &l->m->item.at[run->chunk0 + i];
	uint64_t shape[SF_DIMS_MAX], off;
	uint32_t object, place = SF_NONE;
	int r = sf_ckpt_builder_object(l->b, (const char *)l->name.at, l->name.len, &object,
	                               l->err);

	for (unsigned d = 0; d < t->ndim; d++)
		shape[d] = dcp_coord(l->m, run, i, t->ndim + d);
	if (r >= 0)
		r = sf_ckpt_builder_set_subclass(l->b, object, class, (enum sf_dtype)t->dtype,
		                                 shape, t->ndim);
	if (r >= 0 && item->place != DCP_NONE)
		r = item_place(l, item, UINT64_MAX, &place,
		               &off); /* an archive, whatever its length */
	if (r >= 0 && place != SF_NONE)
		sf_ckpt_builder_set_object(l->b, object, place, item->off, item->len);
	return r;
}

static int count_shard(struct lower *l)
{
	uint64_t limit = SHARD_NAMES_ROOM + ++l->shards * SHARD_NAMES_EACH;

	l->shard_names += l->name.len;
	if (l->shard_names > limit)
		return sf_fail(l->err, -E2BIG,
		               "dcp: the names of %" PRIu64 " shards up to '%.200s' have %" PRIu64
		               " bytes, the limit is %" PRIu64,
		               l->shards, (const char *)l->name.at, l->shard_names, limit);
	return sf_buf_check(&l->name);
}

/* The shards of such a tensor cannot be put together here: each is an element of a list. */
static int lower_subclass(struct lower *l, const struct dcp_tensor *t, const char *class)
{
	size_t len = l->name.len;
	uint32_t n = 0;
	int r;

	if (class == dcp_lost_dtype)
		return sf_ckpt_builder_warn(
			l->b, NULL, "unknown-dtype",
			"'%.200s' is left out: this version does not know its dtype, and "
			"its item is not an archive that can be carried",
			(const char *)l->name.at);
	r = dcp_classes_add(&l->classes, class, (const char *)l->name.at, t->nchunks != 1);
	if (r < 0)
		return sf_fail(l->err, r, "dcp: no memory for a name");
	for (uint32_t k = 0; k < t->nruns && r >= 0; k++) {
		const struct dcp_run *run = &l->m->run.at[t->run0 + k];
		for (uint32_t i = 0; i < run->count && r >= 0; i++, n++) {
			if (t->nchunks != 1) {
				l->name.len = len;
				sf_buf_printf(&l->name, ".%u", n);
				r = count_shard(l);
			}
			if (r >= 0)
				r = lower_instance(l, t, run, i, class);
		}
	}
	return r;
}

static const char *class_of(const struct lower *l, const struct dcp_key *key)
{
	return l->class && key->tensor != DCP_NONE ? l->class[key->tensor] : NULL;
}

static int lower_keys(struct lower *l)
{
	const struct dcp_meta *m = l->m;
	int r = 0;

	for (size_t i = 0; i < m->key.n && r >= 0; i++) {
		const struct dcp_key *key = &m->key.at[i];
		l->is_key[key->name] = 1;
		r = set_name(l, key->name);
		if (r < 0)
			break;
		if (class_of(l, key))
			r = lower_subclass(l, &m->tensor.at[key->tensor], class_of(l, key));
		else if (key->tensor != DCP_NONE)
			r = lower_tensor(l, &m->tensor.at[key->tensor]);
		else
			r = sf_ckpt_builder_object(l->b, (const char *)l->name.at, l->name.len,
			                           &l->object[key->name], l->err);
		if (r == -EBADMSG &&
		    sf_surrogates_any(m->str.at[key->name].at, m->str.at[key->name].len))
			sf_fail_ctx(l->err, r,
			            "dcp: a key with lone surrogates, read as the bytes they "
			            "stand for");
	}
	return r;
}

static int lower_objects(struct lower *l)
{
	uint64_t stray = l->m->stray;
	int r = 0;

	for (size_t i = 0; i < l->m->bytes.n && r >= 0; i++) {
		const struct dcp_bytes *b = &l->m->bytes.at[i];
		if (l->object[b->name] == SF_NONE) {
			stray++;
		} else if (l->place[b->item.place].torch != PLACE_UNSAFE) {
			sf_ckpt_builder_set_object(l->b, l->object[b->name],
			                           l->place[b->item.place].torch, b->item.off,
			                           b->item.len);
		} else {
			r = set_name(l, b->name);
			if (r >= 0)
				r = sf_ckpt_builder_warn(l->b, (const char *)l->name.at,
				                         "unsafe-name",
				                         "its item lies under a refused name");
		}
	}
	if (r >= 0 && stray)
		r = sf_ckpt_builder_warn(
			l->b, NULL, "stray-item",
			"%llu entries of storage_data belong to no chunk of any key",
			(unsigned long long)stray);
	return r;
}

/* The path of a key, whose name stands in l->name; a list's when it is shown as one. @elem has room
 * for one more. */
static int set_path(struct lower *l, uint32_t name, struct sf_path_elem *elem, size_t n)
{
	uint32_t tensor = l->m->str.at[name].tensor;
	/* merged metadata has a number for "seen as bytes", too */
	const struct dcp_tensor *t = tensor < l->m->tensor.n ? &l->m->tensor.at[tensor] : NULL;
	size_t len = l->name.len;
	char digits[12];
	int r = 0;

	if (!t || !l->class || !l->class[tensor] || t->nchunks == 1)
		return sf_ckpt_builder_path(l->b, (const char *)l->name.at, len, elem, n, l->err);
	for (uint32_t i = 0; i < t->nchunks && r >= 0; i++) {
		int k = snprintf(digits, sizeof(digits), "%u", i);
		elem[n] = (struct sf_path_elem){ digits, (uint32_t)k, 1 };
		l->name.len = len;
		sf_buf_printf(&l->name, ".%u", i);
		r = sf_buf_check(&l->name);
		if (r >= 0)
			r = sf_ckpt_builder_path(l->b, (const char *)l->name.at, l->name.len, elem,
			                         n + 1, l->err);
	}
	return r;
}

/* Planner paths; with a prefix every key gets one. */
static int lower_paths(struct lower *l)
{
	const struct dcp_meta *m = l->m;
	const unsigned front = l->src->prefix ? 1 : 0;
	SF_FREE struct sf_path_elem *elem = NULL;
	size_t cap = 0;
	int r = 0;

	for (size_t i = 0; i < m->path.n; i++)
		cap = SF_MAX(cap, m->path.at[i].n);
	elem = sf_alloc_array(cap + 3, sizeof(*elem));
	if (!elem)
		return sf_fail(l->err, -ENOMEM, "dcp: no memory for %zu path elements", cap);
	if (front)
		elem[0] = (struct sf_path_elem){ l->src->prefix, (uint32_t)strlen(l->src->prefix),
			                         0 };
	for (size_t i = 0; i < m->path.n && r >= 0; i++) {
		const struct dcp_path *path = &m->path.at[i];
		if (!l->is_key[path->key] || !path->n)
			continue; /* planner data is merged over ranks and may know more names than
			             were saved */
		l->is_key[path->key] = 2;
		for (uint32_t k = 0; k < path->n; k++) {
			const struct dcp_elem *e = &m->elem.at[path->elem0 + k];
			struct text t;
			r = str(l, e->text, &t);
			if (r < 0)
				return r;
			elem[front + k] =
				(struct sf_path_elem){ t.at, t.len,
				                       e->is_int ? SF_PATH_LIST : SF_PATH_TEXT };
		}
		r = set_name(l, path->key);
		if (r >= 0)
			r = set_path(l, path->key, elem, front + path->n);
		sf_arena_release(&l->text); /* the builder has its own */
	}
	for (size_t i = 0; front && i < m->key.n && r >= 0; i++) {
		uint32_t name = m->key.at[i].name;
		if (l->is_key[name] == 2)
			continue;
		struct text t;
		r = str(l, name, &t);
		elem[1] = (struct sf_path_elem){ t.at, t.len, 0 };
		if (r >= 0)
			r = set_name(l, name);
		if (r >= 0)
			r = set_path(l, name, elem, 2);
	}
	return r;
}

int dcp_lower(const struct dcp_meta *m, const struct sf_format_dir *src, struct sf_ckpt_builder *b,
              struct sf_error *err)
{
	struct lower l = { .m = m,
		           .src = src,
		           .b = b,
		           .err = err,
		           .name.limit = DCP_NAME_MAX,
		           .file.limit = DCP_NAME_MAX };
	struct sf_arena classes = { 0 };
	int r = 0;

	l.place = sf_alloc_array(m->place.n, sizeof(*l.place));
	l.object = sf_alloc_array(m->str.n, sizeof(*l.object));
	l.is_key = calloc(m->str.n + 1, 1);
	if (!l.place || !l.object || !l.is_key)
		r = sf_fail(err, -ENOMEM, "dcp: no memory for %zu names", m->str.n);
	for (size_t i = 0; r >= 0 && i < m->str.n; i++)
		l.object[i] = SF_NONE;
	if (r >= 0)
		r = dcp_find_subclasses(m, src, &classes, &l.class, err);
	if (r >= 0)
		r = lower_places(&l);
	if (r >= 0)
		r = lower_keys(&l);
	if (r >= 0)
		r = dcp_classes_note(&l.classes, b);
	if (r >= 0)
		r = lower_objects(&l);
	if (r >= 0)
		r = lower_paths(&l);
	free(l.place);
	free(l.object);
	free(l.is_key);
	sf_buf_release(&l.name);
	sf_buf_release(&l.file);
	sf_arena_release(&l.text);
	sf_arena_release(&classes);
	dcp_classes_release(&l.classes);
	return r;
}
