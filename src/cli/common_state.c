#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include "base/buf.h"
#include "base/mem.h"
#include "cli/common_state.h"
#include "cli/text.h"
#include "view/view.h"

static bool is_common(const struct sf_entry *e)
{
	return e->npath > 1 && e->path[0].len == 6 && memcmp(e->path[0].s, "common", 6) == 0;
}

static bool same(const struct sf_path_elem *a, const struct sf_path_elem *b)
{
	return a->len == b->len && a->kind == b->kind && memcmp(a->s, b->s, a->len) == 0;
}

/* Does @elem stand in a list? */
static bool in_list(const struct sf_path_elem *elem)
{
	return elem->kind == SF_PATH_LIST || elem->kind == SF_PATH_TUPLE;
}

static void put_label(FILE *out, const struct sf_path_elem *elem)
{
	if (in_list(elem))
		return;
	sf_put_json(out, elem->s, elem->len);
	fputs(": ", out);
}

static int put_object(struct sf_session *s, uint32_t entry, FILE *out, struct sf_error *err)
{
	struct sf_vfile *f = NULL;
	SF_FREE char *text = NULL;
	uint64_t size = 0;
	int r = sf_view_value_json(s->catalog, s->reader, entry, &f, err);

	if (r < 0)
		return r;
	r = sf_vfile_prepare(f, err);
	if (r >= 0)
		r = sf_vfile_size(f, &size);
	text = r >= 0 ? malloc(size + 1) : NULL;
	if (r >= 0 && !text)
		r = sf_fail(err, -ENOMEM, "%" PRIu64 " bytes of a value", size);
	if (r >= 0)
		r = (int)SF_MIN(0, sf_vfile_pread(f, 0, text, size, err));
	if (r >= 0) /* without the newline at its end */
		fwrite(text, 1, size && text[size - 1] == '\n' ? size - 1 : size, out);
	sf_vfile_unref(f);
	return r;
}

static int put_value(struct sf_session *s, uint32_t entry, FILE *out, struct sf_error *err)
{
	const struct sf_entry *e = &s->catalog->entry[entry];
	const struct sf_tensor *t;

	if (e->tensor == SF_NONE)
		return put_object(s, entry, out, err);
	t = &s->ckpt->tensor[e->tensor];
	fprintf(out, "{\"$tensor\": {\"dtype\": \"%s\", \"shape\": [",
	        sf_dtype_info((enum sf_dtype)t->dtype)->torch);
	for (unsigned d = 0; d < t->ndim; d++)
		fprintf(out, "%s%" PRIu64, d ? ", " : "", t->shape[d]);
	fputs("]}}", out);
	return 0;
}

/* Closes containers of @from down to @depth, behind its last element's value. */
static void close_to(FILE *out, const struct sf_entry *from, uint32_t depth)
{
	for (uint32_t d = from->npath - 1; d > depth; d--)
		fputc(in_list(&from->path[d]) ? ']' : '}', out);
}

int sf_common_state(struct sf_session *s, FILE *out, struct sf_error *err)
{
	const struct sf_catalog *c = s->catalog;
	const struct sf_entry *last = NULL;
	int r = 0;

	for (uint32_t i = 0; i < c->n && r >= 0; i++) {
		const struct sf_entry *e = &c->entry[i];
		uint32_t depth = 1;
		if (!is_common(e))
			continue;
		/* the containers that it shares with the one before: the last element is none */
		while (last && depth + 1 < SF_MIN(last->npath, e->npath) &&
		       same(&last->path[depth], &e->path[depth]))
			depth++;
		if (last)
			close_to(out, last, depth);
		fputs(last ? ", " : "{", out);
		for (uint32_t d = depth; d < e->npath; d++) {
			put_label(out, &e->path[d]);
			if (d + 1 < e->npath)
				fputc(in_list(&e->path[d + 1]) ? '[' : '{', out);
		}
		r = put_value(s, i, out, err);
		last = e;
	}
	if (!last)
		return sf_fail(err, -ENOENT, "'%s': no common state in it (Megatron's)",
		               s->ckpt->source);
	if (r < 0)
		return r;
	close_to(out, last, 1);
	fputs("}\n", out);
	return 0;
}
