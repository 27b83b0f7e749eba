#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "catalog/catalog_slice.h"
#include "parse/st_file_plan.h"
#include "view/st/st_embed.h"
#include "view/view_size.h"

/*
 * Records: those of parse/st_file_plan.h. The tensors are the selection's and, in files of many
 * keys, those inside its objects (st_embed.h).
 */
struct st {
	struct sf_vfile f;
	const struct sf_catalog *c;
	struct sf_selection sel;
	bool embeds;
	struct sf_st_embed inner;
	/* its tensors' numbers: positions of the selection; from sel.n on, of inner */
	struct sf_st_file file;
};

static void clear(struct st *s)
{
	sf_st_file_release(&s->file);
	free(s->file.tensor);
	s->file = (struct sf_st_file){ 0 };
	sf_st_embed_release(&s->inner);
}

static void free_st(struct sf_vfile *f)
{
	clear((struct st *)f);
	free(f);
}

static enum sf_dtype dtype_of(const struct st *s, uint32_t pos)
{
	if (pos >= s->sel.n)
		return (enum sf_dtype)s->inner.inner.at[pos - s->sel.n].dtype;
	const struct sf_entry *e = &s->c->entry[s->sel.entry[pos]];
	return s->sel.cast ? (enum sf_dtype)e->dtype
	                   : (enum sf_dtype)s->c->ckpt->tensor[e->tensor].dtype;
}

static const char *name_of(const struct st *s, uint32_t pos, size_t *ret_len)
{
	if (pos < s->sel.n)
		return sf_st_name(s->c, &s->sel, pos, ret_len);
	*ret_len = s->inner.inner.at[pos - s->sel.n].name_len;
	return sf_st_inner_name(&s->inner, pos - s->sel.n);
}

static struct sf_st_part part_of(const void *arg, uint32_t pos)
{
	const struct st *s = arg;
	struct sf_st_part p = { .dtype = dtype_of(s, pos) };

	p.name = name_of(s, pos, &p.name_len);
	if (pos < s->sel.n) {
		const struct sf_tensor *t =
			&s->c->ckpt->tensor[s->c->entry[s->sel.entry[pos]].tensor];
		p.shape = t->shape;
		p.ndim = t->ndim;
		p.bytes = sf_tensor_bytes_as(t, p.dtype);
		if (s->sel.cut && s->sel.cut[pos].run) {
			p.shape = s->sel.cut[pos].shape;
			p.bytes /= s->sel.ranks;
		}
	} else {
		const struct sf_st_inner *in = &s->inner.inner.at[pos - s->sel.n];
		p.shape = in->ndim ? s->inner.shape.at + in->shape : NULL;
		p.ndim = in->ndim;
		p.bytes = in->len;
	}
	return p;
}

/* Adds the tensors in objects to those of the file. */
static int embed(struct st *s, struct sf_st_skipped *skipped, struct sf_error *err)
{
	struct sf_st_file *f = &s->file;
	int r = sf_st_embed(&s->inner, s->c, s->f.reader, &s->sel, f->tensor, f->n, skipped, err);
	size_t more = s->inner.inner.n;

	if (r < 0 || more == 0)
		return r;
	uint32_t *tensor = realloc(f->tensor, (f->n + more) * sizeof(*tensor));
	if (!tensor)
		return sf_fail(err, -ENOMEM, "no memory for %zu tensors in objects", more);
	f->tensor = tensor;
	for (uint32_t i = 0; i < more; i++)
		f->tensor[f->n++] = s->sel.n + i;
	return 0;
}

/* Fills file.tensor; names what is not in the file. */
static int choose(struct st *s, struct sf_st_skipped *skipped, struct sf_error *err)
{
	struct sf_st_file *f = &s->file;

	f->tensor = sf_alloc_array(s->sel.n, sizeof(*f->tensor));
	if (!f->tensor)
		return sf_fail(err, -ENOMEM, "no memory for a safetensors file of %" PRIu32 " keys",
		               s->sel.n);
	for (uint32_t pos = 0; pos < s->sel.n; pos++) {
		const struct sf_entry *e = &s->c->entry[s->sel.entry[pos]];
		const char *why = sf_st_refuses(s->c, &s->sel, pos);
		if (!why)
			f->tensor[f->n++] = pos;
		else if (!s->embeds || e->tensor != SF_NONE)
			sf_st_skip_at(skipped, s->c, &s->sel, pos, why);
	}
	return s->embeds ? embed(s, skipped, err) : 0;
}

/* __metadata__ */
static void put_metadata(struct sf_st_skipped *skipped, struct sf_buf *out)
{
	sf_st_skipped_end(skipped);
	sf_buf_str(out, "{\"format\":\"pt\"");
	if (skipped->text.len) {
		sf_buf_str(out, ",\"shardfuse.skipped\":");
		sf_escape_json(out, (const char *)skipped->text.at, skipped->text.len);
	}
	sf_buf_byte(out, '}');
	sf_buf_fail(out, sf_buf_check(&skipped->text));
}

static int prepare(struct sf_vfile *f, struct sf_error *err)
{
	struct st *s = (struct st *)f;
	struct sf_st_skipped skipped = { { 0 }, 0, 0 };
	struct sf_buf metadata = { 0 };

	s->file.part = part_of;
	s->file.arg = s;
	int r = choose(s, &skipped, err);
	if (r >= 0) {
		put_metadata(&skipped, &metadata);
		r = sf_buf_check(&metadata);
		if (r < 0)
			sf_fail(err, r, "no memory for the header of a safetensors file");
	}
	if (r >= 0)
		r = sf_st_file_plan(&s->file, (const char *)metadata.at, metadata.len, err);
	sf_buf_release(&metadata);
	sf_buf_release(&skipped.text);
	if (r < 0) {
		clear(s); /* the next try begins anew */
		return r;
	}
	s->f.start = s->file.start;
	s->f.nrec = (uint32_t)SF_ST_FILE_RECORDS(s->file.n);
	s->f.size = sf_st_file_size(&s->file);
	return 0;
}

struct target {
	const struct st *s;
	struct sf_parts *parts;
};

static int take_bytes(void *arg, const void *at, size_t len)
{
	const struct target *t = arg;

	return sf_parts_bytes(t->parts, at, len);
}

/* A rank's part of a tensor. */
static int take_runs(const struct target *to, uint32_t tensor, const struct sf_slice_cut *cut,
                     uint64_t off, uint64_t len, enum sf_dtype cast)
{
	const struct sf_selection *sel = &to->s->sel;
	const struct sf_tensor *t = &to->s->c->ckpt->tensor[tensor];
	const uint64_t step = cut->run * sel->ranks,
		       elements = t->bytes / sf_dtype_info((enum sf_dtype)t->dtype)->bytes;
	const struct sf_read_runs runs = { .first = cut->run * sel->rank,
		                           .run = cut->run,
		                           .step = step,
		                           .count = elements / step };

	return sf_parts_runs(to->parts, tensor, &runs, off, len, cast);
}

static int take_payload(void *arg, uint32_t pos, uint64_t off, uint64_t len)
{
	const struct target *t = arg;
	const struct st *s = t->s;

	if (pos >= s->sel.n) {
		const struct sf_st_inner *in = &s->inner.inner.at[pos - s->sel.n];
		return sf_parts_object(t->parts, in->object, in->off + off, len);
	}
	uint32_t tensor = s->c->entry[s->sel.entry[pos]].tensor;
	enum sf_dtype dtype = dtype_of(s, pos),
		      own = (enum sf_dtype)s->c->ckpt->tensor[tensor].dtype;
	if (dtype == own)
		dtype = SF_DTYPE_NONE;
	if (s->sel.cut && s->sel.cut[pos].run)
		return take_runs(t, tensor, &s->sel.cut[pos], off, len, dtype);
	return sf_parts_tensor(t->parts, tensor, off, len, dtype);
}

static int emit(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                struct sf_parts *parts, struct sf_error *err)
{
	struct target t = { (const struct st *)f, parts };
	const struct sf_st_file_sink to = { take_bytes, take_payload, &t };
	int r = sf_st_file_record(&t.s->file, rec, off, len, &to);

	return r < 0 ? sf_fail(err, r,
	                       "bytes %" PRIu64 " + %" PRIu64 " of record %" PRIu32
	                       " of a safetensors view",
	                       off, len, rec)
	             : 0;
}

/* One tensor is sized at once; many are, but not by whoever lists a directory; objects have to be
 * read. */
static const struct sf_vfile_ops many_ops = { .prepare = prepare, .emit = emit, .free = free_st };
static const struct sf_vfile_ops one_ops = { .emit = emit, .free = free_st };

int sf_view_safetensors(const struct sf_catalog *c, struct sf_reader *r,
                        const struct sf_selection *sel, struct sf_vfile **ret, struct sf_error *err)
{
	struct st *s;
	bool waits;
	int res = 0;

	if (sel->n > INT32_MAX)
		return sf_fail(err, -E2BIG, "a safetensors file of %" PRIu32 " keys", sel->n);
	s = calloc(1, sizeof(*s));
	if (!s)
		return sf_fail(err, -ENOMEM, "a safetensors view");
	s->c = c;
	s->sel = *sel;
	s->embeds = sf_st_embeds(c, sel);
	waits = sel->n > 1 || s->embeds;
	sf_vfile_init(&s->f, waits ? &many_ops : &one_ops, r);
	if (!waits)
		res = prepare(&s->f, err);
	if (res < 0)
		sf_vfile_unref(&s->f);
	else
		*ret = &s->f;
	return res;
}

uint32_t sf_view_safetensors_tensors(const struct sf_vfile *f)
{
	return ((const struct st *)f)->file.n;
}

int sf_view_safetensors_size(const struct sf_catalog *c, uint32_t entry, uint64_t *ret)
{
	const struct sf_selection sel = { .entry = &entry, .n = 1, .cast = true };
	struct st s = { .c = c, .sel = sel };
	int r = prepare(&s.f, NULL);

	if (r >= 0)
		*ret = s.f.size;
	clear(&s);
	return r;
}
