/* The public reading interface (shardfuse.h): a session behind opaque handles. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "catalog/map_file.h"
#include "ckpt/place.h"
#include "lib/lib_priv.h"

/* ---- opening ---- */

/* Copies: the caller's strings are his again when it is open. */
static int add_strings(struct sf_strs *to, const char *const *at, size_t n, const char *what,
                       struct sf_error *err)
{
	if (!n)
		return 0;
	if (!at)
		return sf_fail(err, -EINVAL, "%s is NULL, and their number is %zu", what, n);
	to->at = calloc(n, sizeof(*to->at));
	for (; to->at && to->n < n; to->n++) {
		to->at[to->n] = strdup(at[to->n]);
		if (!to->at[to->n])
			break;
	}
	return to->n < n ? sf_fail(err, -ENOMEM, "no memory for %zu of %s", n, what) : 0;
}

static void free_strings(struct sf_strs *v)
{
	for (size_t i = 0; i < v->n; i++)
		free((char *)v->at[i]);
	free(v->at);
}

static int take_options(struct shardfuse *h, const struct shardfuse_open_options *given,
                        struct sf_error *err)
{
	struct sf_view_options *view = &h->opt.view;
	struct shardfuse_open_options o;
	int r = sf_public_take(given, &o, sizeof(o), err);

	if (r < 0)
		return r;
	h->opt.source_format = o.source_format; /* of the call alone */
	h->opt.complete = o.complete != 0;
	view->model_only = o.model_only != 0;
	if (o.hf_files) {
		view->hf_files = h->hf_files = strdup(o.hf_files);
		if (!h->hf_files)
			return sf_fail(err, -ENOMEM, "no memory for '%s'", o.hf_files);
	}
	if (o.role)
		r = sf_view_role_parse(o.role, &view->role, err);
	if (r >= 0 && o.cast)
		r = sf_view_cast_parse(o.cast, &view->dtype, err);
	if (r >= 0)
		r = add_strings(&view->key, o.key, o.nkey, "key", err);
	if (r >= 0)
		r = add_strings(&view->ignore, o.ignore, o.nignore, "ignore", err);
	if (r >= 0 && o.nmap && !o.map)
		r = sf_fail(err, -EINVAL, "map is NULL, and their number is %zu", o.nmap);
	for (size_t i = 0; i < o.nmap && r >= 0; i++)
		r = sf_map_rules_add(o.map[i], &view->map, &view->nmap, err);
	return r;
}

static int number_entries(struct shardfuse *h, struct sf_error *err)
{
	const struct sf_catalog *c = h->s.catalog;
	uint32_t tensors = 0, objects = 0;

	h->tensor = sf_alloc_array(c->ntensors, sizeof(*h->tensor));
	h->object = sf_alloc_array(c->nobjects, sizeof(*h->object));
	h->number = sf_alloc_array(c->n, sizeof(*h->number));
	if (!h->tensor || !h->object || !h->number)
		return sf_fail(err, -ENOMEM, "no memory for %u keys", c->n);
	for (uint32_t i = 0; i < c->n; i++) {
		if (c->entry[i].tensor != SF_NONE) {
			h->number[i] = tensors;
			h->tensor[tensors++] = i;
		} else {
			h->number[i] = objects;
			h->object[objects++] = i;
		}
	}
	return 0;
}

static void handle_free(struct shardfuse *h)
{
	sf_session_close(&h->s);
	if (h->in_common)
		sf_lib_common_leave();
	free_strings(&h->opt.view.key);
	free_strings(&h->opt.view.ignore);
	sf_map_rules_free(h->opt.view.map, h->opt.view.nmap);
	free(h->hf_files);
	free(h->tensor);
	free(h->object);
	free(h->number);
	free(h);
}

int shardfuse_open(struct shardfuse_context *ctx, const char *source,
                   const struct shardfuse_open_options *opt, struct shardfuse **ret,
                   struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct shardfuse *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return sf_public_fail(err, &e, sf_fail(&e, -ENOMEM, "'%s'", source));
	sf_session_options_init(&h->opt);
	r = take_options(h, opt, &e);
	if (r >= 0 && !ctx) {
		r = sf_lib_common_join(&ctx, &e);
		h->in_common = r >= 0;
	}
	if (r >= 0) {
		h->opt.io = &ctx->io;
		h->opt.store = sf_lib_store_options(ctx);
		r = sf_session_open(&h->s, &h->opt, source, &e);
	}
	if (r >= 0)
		r = number_entries(h, &e);
	h->opt.source_format = NULL;
	if (r < 0) {
		handle_free(h);
		return sf_public_fail(err, &e, r);
	}
	*ret = h;
	return 0;
}

void shardfuse_close(struct shardfuse *h)
{
	if (h)
		handle_free(h);
}

/* ---- what it is ---- */

static int past(uint64_t i, uint64_t n, const char *what, struct sf_error *err)
{
	return i < n ? 0
	             : sf_fail(err, -EINVAL, "%s %llu of %llu", what, (unsigned long long)i,
	                       (unsigned long long)n);
}

int sf_lib_tensor(const struct shardfuse *h, uint64_t tensor, const struct sf_tensor **ret,
                  const struct sf_entry **ret_entry, struct sf_error *err)
{
	const struct sf_catalog *c = h->s.catalog;
	int r = past(tensor, c->ntensors, "tensor", err);

	if (r >= 0) {
		*ret_entry = &c->entry[h->tensor[tensor]];
		*ret = &c->ckpt->tensor[(*ret_entry)->tensor];
	}
	return r;
}

uint64_t sf_lib_bytes(const struct sf_tensor *t, const struct sf_entry *entry)
{
	/* a cast to more bytes: the catalog has seen to it that they fit */
	return t->bytes / sf_dtype_info(t->dtype)->bytes * sf_dtype_info(entry->dtype)->bytes;
}

int shardfuse_info(const struct shardfuse *h, struct shardfuse_info *ret,
                   struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	const struct sf_catalog *c = h->s.catalog;
	const struct sf_ckpt *k = c->ckpt;
	struct shardfuse_info info = {
		.source = k->source,
		.format = k->format,
		.writer = k->writer,
		.step = k->step,
		.mtime_ns = k->mtime_ns,
		.tensors = c->ntensors,
		.objects = c->nobjects,
		.groups = c->ngroups,
		.warnings = k->nwarnings,
		.ranks = k->ranks,
	};

	for (uint32_t i = 0; i < c->ntensors; i++) {
		const struct sf_entry *entry = &c->entry[h->tensor[i]];
		const struct sf_tensor *t = &k->tensor[entry->tensor];
		info.chunks += t->nchunks;
		if (!sf_add(info.bytes, sf_lib_bytes(t, entry), &info.bytes))
			info.bytes = UINT64_MAX;
	}
	return sf_public_fail(err, &e, sf_public_give(ret, &info, sizeof(info), &e));
}

int shardfuse_group_info(const struct shardfuse *h, uint64_t group, struct shardfuse_group *ret,
                         struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	const struct sf_catalog *c = h->s.catalog;
	struct shardfuse_group g = { 0 };
	int r = past(group, c->ngroups, "group", &e);

	if (r >= 0) {
		const struct sf_cat_group *of = &c->group[group];
		g.name = of->of->name;
		g.name_len = of->of->len;
		g.role = of->of->role == SF_ROLE_MODEL   ? SHARDFUSE_MODEL
		         : of->of->role == SF_ROLE_OPTIM ? SHARDFUSE_OPTIM
		                                         : SHARDFUSE_OTHER;
		for (uint32_t i = of->first; i < of->first + of->n; i++) {
			const struct sf_entry *entry = &c->entry[c->by_group[i]];
			if (entry->tensor == SF_NONE) {
				g.objects++;
				continue;
			}
			g.tensors++;
			if (!sf_add(g.bytes, sf_lib_bytes(&c->ckpt->tensor[entry->tensor], entry),
			            &g.bytes))
				g.bytes = UINT64_MAX;
		}
		r = sf_public_give(ret, &g, sizeof(g), &e);
	}
	return sf_public_fail(err, &e, r);
}

int shardfuse_warning_info(const struct shardfuse *h, uint64_t warning,
                           struct shardfuse_warning *ret, struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	const struct sf_ckpt *k = h->s.ckpt;
	int r = past(warning, k->nwarnings, "warning", &e);

	if (r >= 0) {
		const struct sf_warning *w = &k->warning[warning];
		const struct sf_key *key = w->key == SF_NONE ? NULL : &k->key[w->key];
		struct shardfuse_warning out = { .key = key ? key->name : NULL,
			                         .key_len = key ? key->len : 0,
			                         .code = w->code,
			                         .text = w->text };
		r = sf_public_give(ret, &out, sizeof(out), &e);
	}
	return sf_public_fail(err, &e, r);
}

int shardfuse_tensor_info(const struct shardfuse *h, uint64_t tensor, struct shardfuse_tensor *ret,
                          struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	const struct sf_entry *entry;
	const struct sf_tensor *t;
	int r = sf_lib_tensor(h, tensor, &t, &entry, &e);

	if (r >= 0) {
		const struct sf_dtype_info *d = sf_dtype_info(entry->dtype);
		struct shardfuse_tensor out = {
			.key = entry->name,
			.key_len = entry->len,
			.dtype = d->torch,
			.elem_bytes = d->bytes,
			.ndim = t->ndim,
			.shape = t->shape,
			.bytes = sf_lib_bytes(t, entry),
			.chunks = t->nchunks,
			.group = entry->group,
			.order = h->tensor[tensor],
		};
		r = sf_public_give(ret, &out, sizeof(out), &e);
	}
	return sf_public_fail(err, &e, r);
}

int64_t shardfuse_tensor_find(const struct shardfuse *h, const char *key, size_t key_len,
                              struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	uint32_t i = sf_catalog_find(h->s.catalog, key, key_len);

	if (i != SF_NONE && h->s.catalog->entry[i].tensor != SF_NONE)
		return h->number[i];
	return sf_public_fail(err, &e,
	                      sf_fail(&e, -ENOENT, "'%.*s' is not a tensor here",
	                              (int)SF_MIN(key_len, (size_t)200), key));
}

int shardfuse_chunk_info(const struct shardfuse *h, uint64_t tensor, uint64_t chunk,
                         struct shardfuse_chunk *ret, struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	const struct sf_entry *entry;
	const struct sf_tensor *t;
	int r = sf_lib_tensor(h, tensor, &t, &entry, &e);

	if (r >= 0)
		r = past(chunk, t->nchunks, "chunk", &e);
	if (r >= 0) {
		struct shardfuse_chunk out = { 0 };
		struct sf_chunk c;
		sf_tensor_chunk(t, (uint32_t)chunk, &c);
		memcpy(out.origin, c.origin, t->ndim * sizeof(*out.origin));
		memcpy(out.extent, c.extent, t->ndim * sizeof(*out.extent));
		if (c.place != SF_NONE) {
			const struct sf_ckpt *k = h->s.ckpt;
			const struct sf_where at = sf_place_where(k, c.place, c.off);
			out.file = k->file[at.file].name;
			out.off = at.stream ? at.stream->off : at.off;
			out.len = at.stream ? at.stream->len : c.len;
		}
		r = sf_public_give(ret, &out, sizeof(out), &e);
	}
	return sf_public_fail(err, &e, r);
}
