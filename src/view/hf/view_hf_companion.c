#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "store/source.h"
#include "view/hf/hf_companions.h"
#include "view/hf/hf_config.h"
#include "view/view.h"

/* What is kept in memory: small texts, and one that is edited. Of the others what is asked for is
 * read then, like a shard. */
#define SMALL_MAX (64u << 10)
#define EDITED_MAX (4u << 20) /* a larger config.json is as it is */

struct companion {
	struct sf_vfile f;
	struct sf_store *store;
	char *path;            /* for messages */
	enum sf_dtype dtype;   /* to be named in it, SF_DTYPE_NONE: as it is */
	struct sf_source *src; /* NULL when the text is in memory */
	struct sf_buf text;
	struct sf_objinfo want; /* as it was listed: the kernel keeps its size and pages */
	uint64_t start[2];
};

static void free_companion(struct sf_vfile *f)
{
	struct companion *p = (struct companion *)f;

	sf_source_unref(p->src);
	sf_buf_release(&p->text);
	free(p->path);
	free(p);
}

static int load(struct companion *p, struct sf_source *src, struct sf_error *err)
{
	struct sf_buf raw = { 0 };
	uint64_t len = p->want.size;
	uint8_t *at = sf_buf_extend(&raw, (size_t)len);
	int r = len == 0 || at ? 0 : sf_fail(err, -ENOMEM, "'%s': %" PRIu64 " bytes", p->path, len);

	if (r >= 0)
		r = sf_source_read(src, 0, at, len, SF_FETCH_OBJECT, err);
	if (r >= 0)
		r = sf_source_check(src, err);
	if (r >= 0 && p->dtype != SF_DTYPE_NONE) {
		sf_hf_set_dtype((const char *)raw.at, raw.len, sf_dtype_info(p->dtype)->torch,
		                &p->text);
		r = sf_buf_check(&p->text);
		if (r < 0) {
			sf_buf_release(&p->text);
			sf_fail(err, r, "'%s': %" PRIu64 " bytes", p->path, len);
		}
	} else if (r >= 0) {
		p->text = raw;
		raw = (struct sf_buf){ 0 };
	}
	sf_buf_release(&raw);
	return r;
}

static int prepare(struct sf_vfile *f, struct sf_error *err)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	struct companion *p = (struct companion *)f;
	bool in_memory = p->want.size <= (p->dtype != SF_DTYPE_NONE ? EDITED_MAX : SMALL_MAX);
	int r = p->store->ops->open(p->store, p->want.name, &p->want, &src, err);

	if (r < 0)
		return sf_fail_ctx(err, r, "'%s'", p->path);
	if (in_memory)
		r = load(p, src, err);
	if (r < 0)
		return r;
	p->start[1] = in_memory ? p->text.len : p->want.size;
	p->src = in_memory ? NULL : SF_STEAL(src);
	f->start = p->start;
	f->nrec = 1;
	f->size = p->start[1];
	return 0;
}

static int emit(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                struct sf_parts *parts, struct sf_error *err)
{
	const struct companion *p = (struct companion *)f;
	int r = p->src ? sf_parts_source(parts, p->src, off, len)
	               : sf_parts_bytes(parts, p->text.at + off, len);
	(void)rec;

	return r < 0 ? sf_fail(err, r, "'%s'", p->path) : 0;
}

/* Are the weights beside it shown in another dtype than stored? */
static enum sf_dtype cast_of(const struct sf_hf *hf)
{
	const struct sf_catalog *c = hf->catalog;
	const struct sf_entry *e = &c->entry[hf->file[0].sel.entry[0]];

	return c->group[e->group].of->role == SF_ROLE_MODEL ? c->opt->dtype : SF_DTYPE_NONE;
}

int sf_view_hf_companion(const struct sf_hf *hf, struct sf_reader *r, uint32_t i,
                         struct sf_vfile **ret, struct sf_error *err)
{
	static const struct sf_vfile_ops ops = { .prepare = prepare,
		                                 .emit = emit,
		                                 .free = free_companion };
	struct companion *p = calloc(1, sizeof(*p));

	if (!p || asprintf(&p->path, "%s/%s", hf->catalog->opt->hf_files_found,
	                   hf->companion[i].name) < 0) {
		free(p);
		return sf_fail(err, -ENOMEM, "'%s'", hf->companion[i].name);
	}
	sf_vfile_init(&p->f, &ops, r);
	p->store = hf->catalog->opt->hf_store;
	p->want = hf->companion[i];
	p->dtype = strcmp(hf->companion[i].name, "config.json") == 0 ? cast_of(hf) : SF_DTYPE_NONE;
	*ret = &p->f;
	return 0;
}
