#include "config.h"

#include <inttypes.h>

#include "base/mem.h"
#include "view/entry_json_part.h"
#include "view/view.h"

#define SIZED_AT_ONCE 16 /* pieces of one key that are spelt out to know a size without a wait */

/*
 * JSON of entries, in pieces: record 0 is the opening, the last one the closing, between them the
 * pieces of the entries. A comma stands at the start of an entry's first piece.
 */
struct json_file {
	struct sf_vfile f;
	const struct sf_catalog *c;
	const char *open, *close;
	uint32_t only;   /* one entry, or SF_NONE: all tensors */
	uint32_t n;      /* entries */
	uint32_t *entry; /* NULL when only one */
	uint32_t *first; /* n + 1: pieces before this entry; NULL: one piece each */
	uint64_t *start;
};

static uint32_t entry_of(const struct json_file *j, uint32_t i)
{
	return j->entry ? j->entry[i] : j->only;
}

/* Which entry has this piece? */
static uint32_t entry_at(const struct json_file *j, uint32_t piece)
{
	return SF_LAST_THAT(i, j->n, j->first[i] <= piece);
}

static void put_record(const struct json_file *j, uint32_t rec, struct sf_buf *out)
{
	if (rec == 0) {
		sf_buf_str(out, j->open);
	} else if (rec + 1 == j->f.nrec) {
		sf_buf_str(out, j->close);
	} else {
		uint32_t i = entry_at(j, rec - 1), part = rec - 1 - j->first[i];
		if (part == 0 && i)
			sf_buf_str(out, ",\n");
		sf_entry_json_part(out, j->c, entry_of(j, i), part);
	}
}

static void clear(struct json_file *j)
{
	free(j->entry);
	free(j->first);
	free(j->start);
	j->entry = j->first = NULL;
	j->start = NULL;
	j->n = 0;
}

static int choose(struct json_file *j)
{
	uint64_t pieces = 0;

	j->n = j->only != SF_NONE ? 1 : j->c->ntensors;
	j->first = sf_alloc_array((size_t)j->n + 1, sizeof(*j->first));
	if (j->only == SF_NONE)
		j->entry = sf_alloc_array(j->n, sizeof(*j->entry));
	if (!j->first || (j->only == SF_NONE && !j->entry))
		return -ENOMEM;
	if (j->entry)
		for (uint32_t i = 0, n = 0; i < j->c->n; i++)
			if (j->c->entry[i].tensor != SF_NONE)
				j->entry[n++] = i;
	for (uint32_t i = 0; i < j->n; i++) {
		j->first[i] = (uint32_t)pieces;
		pieces += sf_entry_json_parts(j->c, entry_of(j, i));
		if (pieces > INT32_MAX)
			return -E2BIG;
	}
	j->first[j->n] = (uint32_t)pieces;
	j->f.nrec = (uint32_t)pieces + 2;
	return 0;
}

static int prepare(struct sf_vfile *f, struct sf_error *err)
{
	struct json_file *j = (struct json_file *)f;
	struct sf_buf text = { 0 };
	uint64_t at = 0;
	int r = choose(j);

	if (r >= 0) {
		j->start = sf_alloc_array((size_t)f->nrec + 1, sizeof(*j->start));
		r = j->start ? 0 : -ENOMEM;
	}
	for (uint32_t rec = 0; r >= 0 && rec < f->nrec; rec++) {
		sf_buf_reset(&text);
		put_record(j, rec, &text);
		r = sf_buf_check(&text);
		j->start[rec] = at;
		at += text.len;
	}
	sf_buf_release(&text);
	if (r < 0) {
		clear(j);
		return sf_fail(err, r, "JSON of %" PRIu32 " keys", j->c->n);
	}
	j->start[f->nrec] = at;
	f->start = j->start;
	f->size = at;
	return 0;
}

static int emit(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                struct sf_parts *parts, struct sf_error *err)
{
	struct sf_buf text = { 0 };
	int r;

	put_record((struct json_file *)f, rec, &text);
	r = sf_buf_check(&text);
	if (r >= 0)
		r = sf_parts_bytes(parts, text.at + off, len);
	sf_buf_release(&text);
	return r < 0 ? sf_fail(err, r, "%" PRIu64 " bytes of JSON", len) : 0;
}

static void free_json(struct sf_vfile *f)
{
	clear((struct json_file *)f);
	free(f);
}

static const struct sf_vfile_ops waits_ops = { .prepare = prepare,
	                                       .emit = emit,
	                                       .free = free_json };
static const struct sf_vfile_ops sized_ops = { .emit = emit, .free = free_json };

static int make(struct json_file model, bool waits, struct sf_reader *r, struct sf_vfile **ret,
                struct sf_error *err)
{
	struct json_file *j = malloc(sizeof(*j));
	int res = 0;

	if (!j)
		return sf_fail(err, -ENOMEM, "JSON of %" PRIu32 " keys", model.c->n);
	*j = model;
	sf_vfile_init(&j->f, waits ? &waits_ops : &sized_ops, r);
	if (!waits)
		res = prepare(&j->f, err);
	if (res < 0)
		sf_vfile_unref(&j->f);
	else
		*ret = &j->f;
	return res;
}

int sf_view_entry_json(const struct sf_catalog *c, struct sf_reader *r, uint32_t entry,
                       struct sf_vfile **ret, struct sf_error *err)
{
	const struct json_file j = { .c = c, .open = "", .close = "\n", .only = entry };

	return make(j, sf_entry_json_parts(c, entry) > SIZED_AT_ONCE, r, ret, err);
}

int sf_view_tensors_json(const struct sf_catalog *c, struct sf_reader *r, struct sf_vfile **ret,
                         struct sf_error *err)
{
	const struct json_file j = { .c = c,
		                     .open = "{\"schema\": 1, \"tensors\": [\n",
		                     .close = "\n]}\n",
		                     .only = SF_NONE };

	return make(j, true, r, ret, err);
}

int sf_view_info_json(const struct sf_catalog *c, struct sf_reader *r, struct sf_vfile **ret,
                      struct sf_error *err)
{
	struct sf_buf text = { 0 };
	int res;

	sf_ckpt_json(&text, c);
	res = sf_buf_check(&text);
	if (res >= 0)
		res = sf_view_bytes(r, text.at, text.len, ret, err);
	else
		sf_fail(err, res, "info.json");
	sf_buf_release(&text);
	return res;
}
