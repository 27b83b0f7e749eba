#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "cli/out_list.h"
#include "cli/text.h"
#include "cli/values.h"
#include "tool/claims.h"
#include "tool/share.h"
#include "tool/write_check.h"
#include "view/view_size.h"

enum { TEXT_MAX = 1 << 30 }; /* of a tensor's values: SF_VALUES_MAX of them are less */

const char *const sf_out_format_names[SF_OUT_NFORMATS] = { "pt",  "safetensors", "npy",
	                                                   "raw", "json",        "hf" };

const char *sf_out_suffix(enum sf_out_format format)
{
	static const char *const suffix[SF_OUT_NFORMATS] = { ".pt",  ".safetensors", ".npy",
		                                             ".raw", ".json",        "" };
	return suffix[format];
}

/* A tensor's values as a file of text. */
static int open_values(const struct sf_out_list *l, const struct sf_out_item *it,
                       struct sf_vfile **ret, struct sf_error *err)
{
	const struct sf_entry *e = &l->s->catalog->entry[it->sel.entry[0]];
	const struct sf_tensor *t = &l->s->ckpt->tensor[e->tensor];
	const struct sf_key_slice all = { .n = 0 };
	struct sf_buf text = { .limit = TEXT_MAX };
	struct sf_value_box box;

	int r = sf_key_slice_box(it->slice ? it->slice : &all, t->shape, t->ndim, &box, err);
	if (r >= 0)
		r = sf_values_json(&text, l->s->reader, e->tensor, (enum sf_dtype)e->dtype, &box,
		                   err);
	sf_buf_byte(&text, '\n');
	if (r < 0)
		sf_fail_ctx(err, r, "'%.300s'", e->name);
	else
		r = sf_view_bytes(l->s->reader, text.at, text.len, ret, err);
	sf_buf_release(&text);
	return r;
}

/* Made when its turn comes: 10^5 files exist as names only. */
static int open_item(void *arg, const struct sf_out_file *f, struct sf_vfile **ret,
                     struct sf_error *err)
{
	const struct sf_out_list *l = arg;
	struct sf_out_item *it = &l->item[f->which];
	const struct sf_catalog *c = l->s->catalog;
	struct sf_reader *r = l->s->reader;

	if (it->bytes)
		return sf_view_bytes(r, it->bytes, it->nbytes, ret, err);
	if (it->hf)
		return sf_view_hf_companion(it->hf, r, it->companion, ret, err);
	it->sel.entry = l->entry ? l->entry + it->first : NULL; /* a file of no keys */
	switch (it->format) {
	case SF_OUT_PT:
		return sf_view_pt(c, r, &it->sel, ret, err);
	case SF_OUT_SAFETENSORS:
	case SF_OUT_HF:
		return sf_view_safetensors(c, r, &it->sel, ret, err);
	case SF_OUT_NPY:
		return sf_view_npy(c, r, it->sel.entry[0], ret, err);
	case SF_OUT_RAW:
		return sf_view_raw(c, r, it->sel.entry[0], ret, err);
	default:
		return c->entry[it->sel.entry[0]].object != SF_NONE
		               ? sf_view_value_json(c, r, it->sel.entry[0], ret, err)
		               : open_values(l, it, ret, err);
	}
}

static int reserve(struct sf_out_list *l, uint64_t entries)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 8;
		struct sf_out_file *file = realloc(l->file, cap * sizeof(*file));
		if (!file)
			return -ENOMEM;
		l->file = file;
		struct sf_out_item *item = realloc(l->item, cap * sizeof(*item));
		if (!item)
			return -ENOMEM;
		l->item = item;
		l->cap = cap;
	}
	if (l->nentries + entries > l->entries_cap) {
		uint64_t cap = SF_MAX(l->entries_cap * 2, l->nentries + entries);
		uint32_t *entry = realloc(l->entry, cap * sizeof(*entry));
		if (!entry)
			return -ENOMEM;
		l->entry = entry;
		l->entries_cap = cap;
	}
	return 0;
}

bool sf_out_holds(const struct sf_catalog *c, enum sf_out_format format, uint32_t entry)
{
	if (format == SF_OUT_PT || format == SF_OUT_JSON)
		return true;
	if (c->entry[entry].tensor == SF_NONE)
		return false;
	if (format == SF_OUT_RAW)
		return true;
	return !(format == SF_OUT_NPY ? sf_view_npy_refuses(c, entry)
	                              : sf_view_safetensors_refuses(c, entry, true));
}

/* Of the tensors that the file holds: for a look at the disk before anything is opened. */
static uint64_t least_bytes(const struct sf_catalog *c, enum sf_out_format format,
                            const struct sf_selection *sel)
{
	uint64_t sum = 0;

	/* JSON may be of a part, and how long a number is nobody knows */
	for (uint32_t i = 0; i < sel->n && format != SF_OUT_JSON; i++) {
		const struct sf_entry *e = &c->entry[sel->entry[i]];
		if (e->tensor == SF_NONE || !sf_out_holds(c, format, sel->entry[i]))
			continue;
		const struct sf_tensor *t = &c->ckpt->tensor[e->tensor];
		bool cast = sel->cast && format != SF_OUT_RAW;
		uint64_t bytes = cast ? sf_tensor_bytes_as(t, (enum sf_dtype)e->dtype) : t->bytes;
		if (!sf_add(sum, bytes, &sum))
			return UINT64_MAX;
	}
	return sum;
}

int sf_out_add(struct sf_out_list *l, enum sf_out_format format, const struct sf_selection *sel,
               char *path)
{
	if (!path || reserve(l, sel->n) < 0) {
		free(path);
		return -ENOMEM;
	}
	l->item[l->n] = (struct sf_out_item){ .format = format, .sel = *sel, .first = l->nentries };
	l->file[l->n] = (struct sf_out_file){ .open = open_item,
		                              .arg = l,
		                              .which = l->n,
		                              .path = path,
		                              .least = least_bytes(l->s->catalog, format, sel),
		                              .crc = format == SF_OUT_PT };
	if (sel->n) /* an empty list may have no memory at all */
		memcpy(l->entry + l->nentries, sel->entry, sel->n * sizeof(*sel->entry));
	l->nentries += sel->n;
	l->n++;
	return 0;
}

int sf_out_add_values(struct sf_out_list *l, uint32_t entry, const struct sf_key_slice *slice,
                      char *path)
{
	const struct sf_selection sel = { .entry = &entry, .n = 1 };
	int r = sf_out_add(l, SF_OUT_JSON, &sel, path);

	if (r >= 0)
		l->item[l->n - 1].slice = slice;
	return r;
}

static int add_item(struct sf_out_list *l, struct sf_out_item item, char *path)
{
	if (!path || reserve(l, 0) < 0) {
		free(path);
		return -ENOMEM;
	}
	l->item[l->n] = item;
	l->file[l->n] =
		(struct sf_out_file){ .open = open_item, .arg = l, .which = l->n, .path = path };
	l->n++;
	return 0;
}

int sf_out_add_bytes(struct sf_out_list *l, const void *bytes, uint64_t len, char *path)
{
	return add_item(l, (struct sf_out_item){ .bytes = bytes, .nbytes = len }, path);
}

int sf_out_add_companion(struct sf_out_list *l, const struct sf_hf *hf, uint32_t companion,
                         char *path)
{
	return add_item(l, (struct sf_out_item){ .hf = hf, .companion = companion }, path);
}

static int holds_any(struct sf_out_list *l, size_t i, struct sf_error *err)
{
	const struct sf_out_item *it = &l->item[i];
	struct sf_out_file *f = &l->file[i];

	if (it->bytes || it->hf)
		return 0;
	for (uint32_t e = 0; e < it->sel.n; e++)
		if (sf_out_holds(l->s->catalog, it->format, l->entry[it->first + e]))
			return 1;
	if (it->format != SF_OUT_SAFETENSORS)
		return 0;
	int r = f->open(f->arg, f, &f->file, err);
	if (r >= 0)
		r = sf_vfile_prepare(f->file, err);
	return r < 0 ? r : sf_view_safetensors_tensors(f->file) > 0;
}

int sf_out_check_any(struct sf_out_list *l, struct sf_error *err)
{
	int r = 0;

	for (size_t i = 0; i < l->n && r == 0; i++)
		r = holds_any(l, i, err);
	return r == 0 ? sf_fail(err, -ENOENT, "nothing to export") : r < 0 ? r : 0;
}

struct print {
	bool quiet;
	FILE *to;
};

static void written(void *arg, const struct sf_out_file *f)
{
	const struct print *p = arg;
	if (p->quiet)
		return;
	sf_terminal_lock();
	sf_put_name(p->to, f->path, strlen(f->path));
	fprintf(p->to, "\t%" PRIu64 "\n", f->size);
	fflush(p->to);
	sf_terminal_unlock();
}

/* A tensor as JSON is looked at piece by piece, and has a limit of its own. */
int sf_out_check_claims(const struct sf_out_list *l, struct sf_error *err)
{
	SF_FREE uint32_t *entry = sf_alloc_array(l->nentries, sizeof(*entry));
	uint64_t n = 0;

	if (!entry)
		return sf_fail(err, -ENOMEM, "%" PRIu64 " keys", l->nentries);
	for (size_t i = 0; i < l->n; i++) {
		const struct sf_out_item *it = &l->item[i];
		for (uint32_t k = 0; it->format != SF_OUT_JSON && k < it->sel.n; k++)
			entry[n++] = l->entry[it->first + k];
	}
	return sf_claims_check(l->s, entry, n, err);
}

/* Those of the list that ranks share: weights, which are neighbours. */
static void weights(const struct sf_out_list *l, size_t *ret_first, size_t *ret_end)
{
	size_t first = 0, end;

	while (first < l->n && (l->item[first].bytes || l->item[first].hf))
		first++;
	for (end = first; end < l->n && !l->item[end].bytes && !l->item[end].hf; end++)
		continue;
	*ret_first = first;
	*ret_end = end;
}

/* This rank's part of the weights. */
static int write_part(struct sf_out_list *l, const struct sf_write_options *o, size_t first,
                      size_t end, struct print *p, struct sf_error *err)
{
	SF_FREE uint64_t *bytes = sf_alloc_array(end - first, sizeof(*bytes));
	struct sf_write_options own = *o;
	size_t from, to;

	if (!bytes)
		return sf_fail(err, -ENOMEM, "no memory for %zu files", l->n);
	for (size_t i = first; i < end; i++)
		bytes[i - first] = l->file[i].least;
	sf_share(bytes, end - first, l->share->rank, l->share->size, &from, &to);
	own.nbefore = own.nafter = 0;
	return sf_write_files(l->s, l->file + first + from, to - from, &own, written, p, err);
}

static int write_shared(struct sf_out_list *l, const struct sf_write_options *o, struct print *p,
                        struct sf_error *err)
{
	struct sf_write_options last = *o;
	size_t first, end;
	int r = l->share->agree(sf_write_check(l->s, l->file, l->n, o, err), err);

	weights(l, &first, &end);
	if (end == l->n && end > first && o->set)
		end--; /* what it replaces goes before its last file comes, and rank 0 sees to that */
	if (r >= 0)
		r = l->share->agree(write_part(l, o, first, end, p, err), err);
	if (r < 0)
		return r;
	if (l->share->rank == 0) {
		last.nbefore = last.nafter = 0;
		r = sf_write_files(l->s, l->file, first, &last, written, p, err);
		if (r >= 0)
			r = sf_write_files(l->s, l->file + end, l->n - end, o, written, p, err);
	}
	return l->share->agree(r, err);
}

int sf_out_write(struct sf_out_list *l, struct sf_write_options *o, struct sf_error *err)
{
	struct sf_progress progress;
	struct print p = { l->quiet, l->report ? l->report : stdout };

	int r = sf_out_check_claims(l, err);

	if (l->share)
		r = l->share->agree(r, err);
	if (r < 0)
		return r;
	o->progress = &progress;
	sf_progress_init(&progress, l->quiet);
	r = l->share ? write_shared(l, o, &p, err)
	             : sf_write_files(l->s, l->file, l->n, o, written, &p, err);
	if (r >= 0)
		sf_progress_summary(&progress, "wrote");
	return r;
}

void sf_out_release(struct sf_out_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		sf_vfile_unref(l->file[i].file); /* made to be looked at, never written */
		free(l->file[i].path);
	}
	free(l->file);
	free(l->item);
	free(l->entry);
	*l = (struct sf_out_list){ 0 };
}
