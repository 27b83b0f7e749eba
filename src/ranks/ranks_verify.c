/* verify: all that is stored is read, by each rank its part. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/path.h"
#include "cli/put_damage.h"
#include "cli/text.h"
#include "cli/verify_deep.h"
#include "cli/verify_manifest.h"
#include "ranks/ranks.h"
#include "tool/share.h"
#include "view/view_size.h"

enum { VERIFY_OK = 0, VERIFY_DEFECT = 1, VERIFY_UNKNOWN = 2 };

struct verify {
	struct sf_session *s;
	struct sf_buf text; /* lines: what this rank found */
	uint64_t defects;
};

static void line(struct verify *v, const char *code, const char *name, size_t len, const char *text)
{
	sf_buf_printf(&v->text, "%s: ", code);
	if (name) {
		sf_escape_text(&v->text, name, len);
		sf_buf_str(&v->text, ": ");
	}
	sf_escape_text(&v->text, text, strlen(text));
	sf_buf_byte(&v->text, '\n');
	v->defects++;
}

static void entry_defect(void *arg, uint32_t entry, const char *code, const char *text)
{
	struct verify *v = arg;
	const struct sf_entry *e = &v->s->catalog->entry[entry];

	line(v, code, e->name, e->len, text);
}

static void file_defect(void *arg, const char *code, const char *text)
{
	line(arg, code, NULL, 0, text);
}

static int loaded_with(void *arg, const struct sf_damage_one *d)
{
	struct verify *v = arg;
	const struct sf_entry *e = d->entry == SF_NONE ? NULL : &v->s->catalog->entry[d->entry];

	line(v, d->code, e ? e->name : NULL, e ? e->len : 0, d->text);
	return 0;
}

/* Which entries are this rank's. */
static int share(const struct sf_session *s, struct sf_deep *d, struct sf_error *err)
{
	const struct sf_catalog *c = s->catalog;
	SF_FREE uint64_t *bytes = sf_alloc_array(c->n, sizeof(*bytes));
	size_t first, end;

	if (!bytes)
		return sf_fail(err, -ENOMEM, "no memory for %" PRIu32 " keys", c->n);
	for (uint32_t i = 0; i < c->n; i++)
		bytes[i] = c->entry[i].tensor != SF_NONE
		                   ? s->ckpt->tensor[c->entry[i].tensor].bytes
		                   : sf_object_bytes(&s->ckpt->object[c->entry[i].object]);
	sf_share(bytes, c->n, sf_ranks.comm.rank, sf_ranks.comm.size, &first, &end);
	d->part = true;
	d->first = (uint32_t)first;
	d->end = (uint32_t)end;
	return 0;
}

static int look(struct verify *v, struct sf_deep *d, struct sf_manifest_check *m,
                struct sf_error *err)
{
	int r = sf_ranks.comm.rank == 0 ? sf_damage_each(v->s->catalog, loaded_with, v) : 0;

	if (r < 0)
		return sf_fail(err, r, "%" PRIu32 " keys", v->s->catalog->n);
	r = share(v->s, d, err);
	if (r >= 0)
		r = sf_verify_deep(d, err);
	return r < 0 ? r : sf_verify_manifest(m, err);
}

/* All ranks have looked: what they found. */
static int tell(struct verify *v, const struct sf_deep *d, const struct sf_manifest_check *m,
                int *ret_code, struct sf_error *err)
{
	uint64_t sum[] = {
		d->tensors, d->objects, d->bytes, d->checked_crcs, m->files, v->defects
	};
	int r = sf_ranks_print(&v->text, err);

	if (r < 0)
		return r;
	sf_ranks_sum(sum, SF_ARRAY_LEN(sum));
	*ret_code = sum[5] ? VERIFY_DEFECT : VERIFY_OK;
	printf("%" PRIu64 " tensor%s, %" PRIu64 " object%s, %" PRIu64 " byte%s read by %" PRIu32
	       " rank%s, %" PRIu64 " CRC%s checked, %" PRIu64 " file%s of the manifest: %s\n",
	       sum[0], sf_plural(sum[0]), sum[1], sf_plural(sum[1]), sum[2], sf_plural(sum[2]),
	       sf_ranks.comm.size, sf_plural(sf_ranks.comm.size), sum[3], sf_plural(sum[3]), sum[4],
	       sf_plural(sum[4]), sum[5] ? "defects" : "ok");
	return 0;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_progress progress;
	struct sf_session s;
	struct verify v = { .s = &s, .text = { .limit = SF_RANKS_TEXT_MAX } };
	struct sf_deep deep = { .s = &s, .progress = &progress, .defect = entry_defect, .arg = &v };
	struct sf_manifest_check manifest = { .s = &s,
		                              .progress = &progress,
		                              .defect = file_defect,
		                              .arg = &v,
		                              .part = sf_ranks.comm.rank,
		                              .parts = sf_ranks.comm.size };
	int code = VERIFY_UNKNOWN, open, r;
	(void)opt, (void)argc;

	sf_ranks_begin();
	open = sf_session_open(&s, &common->session, argv[0], &err);
	r = sf_ranks_agree(open, &err);
	if (r >= 0) {
		sf_progress_init(&progress, common->quiet || sf_ranks.comm.rank != 0);
		r = look(&v, &deep, &manifest, &err);
		sf_progress_end(&progress);
		r = sf_ranks_agree(r, &err);
	}
	if (r >= 0)
		r = tell(&v, &deep, &manifest, &code, &err);
	if (open >= 0)
		sf_session_close(&s);
	sf_buf_release(&v.text);
	return r < 0 ? sf_ranks_failed(VERIFY_UNKNOWN, &err) : code;
}

const struct sf_cmd sf_ranks_verify = {
	.program = "shardfuse-mpi",
	.name = "verify",
	.usage = "SOURCE",
	.about = "read everything and check CRCs, and SHA-256 where a save wrote a manifest",
	.example = "mpirun -n 8 shardfuse-mpi verify /ckpt/step1000",
	.common = true,
	.view = true,
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
