#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/box.h"
#include "ckpt/place.h"
#include "cli/cli.h"
#include "cli/get_choice.h"
#include "cli/table.h"
#include "cli/text.h"
#include "ckpt/ckpt_pick.h"
#include "read/plan.h"

struct explain_options {
	bool json;
};

static const struct sf_opt options[] = {
	{ "json", 0, SF_OPT_FLAG, offsetof(struct explain_options, json), NULL, NULL,
	  "print JSON" },
	{ 0 },
};

/* What of one item a read takes. */
struct need {
	uint32_t chunk;
	uint64_t bytes, runs;
	uint64_t from, to; /* bytes of the payload: the first, and behind the last */
	bool known; /* the three above; else the item says only when it is read how it lies */
};

struct plan {
	const struct sf_ckpt *k;
	const struct sf_entry *e;
	const struct sf_tensor *t;
	const char *part; /* "[0:4]", or "" */
	struct sf_value_box box;
	uint64_t bytes; /* of the box */
	struct need *at;
	size_t n;
	uint64_t stored; /* bytes of the items */
};

/* The box's elements [lo, hi). false: it has none. */
static bool corners(const struct plan *p, uint64_t lo[SF_DIMS_MAX], uint64_t hi[SF_DIMS_MAX])
{
	bool any = true;

	for (unsigned d = 0; d < p->t->ndim; d++) {
		lo[d] = p->box.origin[d];
		hi[d] = lo[d] + p->box.extent[d];
		any = any && hi[d] > lo[d];
	}
	return any && p->t->bytes > 0;
}

/* How the read would place it does not matter: rows, densely. */
static void strides(const struct plan *p, int64_t stride[SF_DIMS_MAX])
{
	uint64_t step = sf_dtype_info((enum sf_dtype)p->t->dtype)->bytes;

	for (unsigned d = p->t->ndim; d-- > 0; step *= p->box.extent[d])
		stride[d] = (int64_t)step;
}

/* Items are dense unless the format says otherwise; those of torch.save tell when they are read, and
 * are dense nearly always. */
static struct sf_item_layout layout_of(const struct sf_tensor *t, uint32_t chunk)
{
	const struct sf_chunk_layout *l =
		t->more && t->more->layout ? &t->more->layout[chunk] : NULL;
	struct sf_item_layout ret = { .payload_len = UINT64_MAX, .row_major = !l || !l->stride };

	ret.stride = l ? l->stride : NULL;
	ret.conj = l && l->conj;
	ret.neg = l && l->neg;
	return ret;
}

static int explain_chunk(struct plan *p, uint32_t chunk, const uint64_t *lo, const uint64_t *hi,
                         const int64_t *stride, struct sf_error *err)
{
	const struct sf_item_layout layout = layout_of(p->t, chunk);
	struct sf_pieces pieces = { 0 };
	struct need n = { .chunk = chunk, .from = UINT64_MAX };
	int r = sf_plan_box_pieces(p->k, p->t, chunk, &layout, lo, hi, stride, 0, &pieces, err);

	for (size_t i = 0; i < pieces.n && r >= 0; i++) {
		const struct sf_piece *x = &pieces.at[i];
		uint64_t last = x->src_off + (uint64_t)((int64_t)(x->count - 1) * x->src_step);
		n.bytes += x->len * x->count;
		n.runs += x->count;
		n.from = SF_MIN(n.from, SF_MIN(x->src_off, last));
		n.to = SF_MAX(n.to, SF_MAX(x->src_off, last) + x->len);
	}
	n.known = p->t->place[chunk] != SF_NONE &&
	          p->k->place[p->t->place[chunk]].codec == SF_CODEC_NONE;
	if (r >= 0 && n.runs) {
		p->stored += p->t->place[chunk] == SF_NONE ? 0 : p->t->len[chunk];
		p->at[p->n++] = n;
	}
	sf_pieces_release(&pieces);
	return r;
}

static int explain(struct plan *p, struct sf_error *err)
{
	uint64_t lo[SF_DIMS_MAX], hi[SF_DIMS_MAX];
	int64_t stride[SF_DIMS_MAX];
	struct sf_u32s chunks = { 0 };
	int r = 0;

	if (!corners(p, lo, hi))
		return 0;
	strides(p, stride);
	p->bytes = sf_dtype_info((enum sf_dtype)p->t->dtype)->bytes;
	for (unsigned d = 0; d < p->t->ndim; d++)
		p->bytes *= p->box.extent[d];
	r = p->t->ndim ? sf_plan_box_chunks(p->k, p->t, lo, hi, &chunks, err)
	               : sf_plan_chunks(p->k, p->t, 0, p->t->bytes, &chunks, err);
	p->at = r < 0 ? NULL : sf_alloc_array(SF_MAX(chunks.n, 1u), sizeof(*p->at));
	if (r >= 0 && !p->at)
		r = sf_fail(err, -ENOMEM, "%zu chunks", chunks.n);
	for (size_t i = 0; i < chunks.n && r >= 0; i++)
		r = explain_chunk(p, chunks.at[i], lo, hi, stride, err);
	sf_u32s_release(&chunks);
	return r < 0 && !strstr(err->msg, p->e->name)
	               ? sf_fail_ctx(err, r, "tensor '%.300s'", p->e->name)
	               : r;
}

/* ---- for people ---- */

static void put_row(struct sf_table *t, const struct plan *p, const struct need *n)
{
	uint32_t place = p->t->place[n->chunk];
	struct sf_buf name = { 0 };

	sf_table_cell(t, "%" PRIu32, n->chunk);
	sf_table_cell(t, "%" PRIu64, n->bytes);
	sf_table_cell(t, "%" PRIu64, n->runs);
	if (n->known)
		sf_table_cell(t, "%" PRIu64 "-%" PRIu64, n->from, n->to);
	else
		sf_table_cell(t, "%s", place == SF_NONE ? "-" : "all of it");
	if (place == SF_NONE) {
		sf_table_cell(t, "-");
		sf_table_cell(t, "-");
		sf_table_cell(t, "not stored");
		return;
	}
	sf_table_cell(t, "%" PRIu64, p->t->off[n->chunk]);
	sf_table_cell(t, "%" PRIu64, p->t->len[n->chunk]);
	sf_place_put(&name, p->k, place);
	sf_table_escaped(t, (const char *)name.at, name.len);
	sf_buf_release(&name);
}

static int print_text(const struct plan *p, struct sf_error *err)
{
	static const char *const heads[] = { "chunk",  "bytes",  "runs", "of the payload",
		                             "offset", "length", "file" };
	struct sf_table t = { .align = "rrrlrrl" };
	struct sf_buf out = { 0 };
	int r;

	sf_put_name(stdout, p->e->name, p->e->len);
	printf("%s  %s  %" PRIu64 " bytes, of %zu chunk%s whose items have %" PRIu64 "\n", p->part,
	       sf_dtype_info((enum sf_dtype)p->t->dtype)->torch, p->bytes, p->n, sf_plural(p->n),
	       p->stored);
	for (size_t i = 0; i < SF_ARRAY_LEN(heads); i++)
		sf_table_cell(&t, "%s", heads[i]);
	for (size_t i = 0; i < p->n; i++)
		put_row(&t, p, &p->at[i]);
	sf_table_put(&out, &t, "  ");
	r = sf_buf_check(&out);
	if (r >= 0 && p->n)
		fwrite(out.at, 1, out.len, stdout);
	sf_table_release(&t);
	sf_buf_release(&out);
	return r < 0 ? sf_fail(err, r, "out of memory") : 0;
}

/* ---- for programs ---- */

static void print_json(const struct plan *p, bool first)
{
	printf("%s\n {\"key\": ", first ? "" : ",");
	sf_put_json(stdout, p->e->name, p->e->len);
	printf(", \"part\": ");
	sf_put_json(stdout, p->part, strlen(p->part));
	printf(", \"bytes\": %" PRIu64 ", \"stored\": %" PRIu64 ", \"items\": [", p->bytes,
	       p->stored);
	for (size_t i = 0; i < p->n; i++) {
		const struct need *n = &p->at[i];
		uint32_t place = p->t->place[n->chunk];
		struct sf_buf name = { 0 };
		printf("%s\n  {\"chunk\": %" PRIu32 ", \"bytes\": %" PRIu64 ", \"runs\": %" PRIu64,
		       i ? "," : "", n->chunk, n->bytes, n->runs);
		if (n->known)
			printf(", \"payload\": [%" PRIu64 ", %" PRIu64 "]", n->from, n->to);
		if (place != SF_NONE) {
			sf_place_put(&name, p->k, place);
			printf(", \"offset\": %" PRIu64 ", \"length\": %" PRIu64 ", \"file\": ",
			       p->t->off[n->chunk], p->t->len[n->chunk]);
			sf_put_json(stdout, (const char *)name.at, name.len);
		}
		putchar('}');
		sf_buf_release(&name);
	}
	printf("]}");
}

/* ---- the verb ---- */

static int explain_one(const struct sf_session *s, const struct sf_chosen *one, bool json,
                       bool first, struct sf_error *err)
{
	const struct sf_entry *e = &s->catalog->entry[one->entry];
	static const struct sf_key_slice all;
	struct plan p = { .k = s->ckpt, .e = e, .part = one->part };
	int r;

	if (e->tensor == SF_NONE)
		return sf_fail(err, -EINVAL, "'%.300s' is an object, which is read as a whole",
		               e->name);
	p.t = &s->ckpt->tensor[e->tensor];
	if (p.t->more && p.t->more->pick)
		return sf_fail(err, -EINVAL,
		               "'%.300s' is a part of '%.300s': explain that one, without --map",
		               e->name, s->ckpt->key[sf_tensor_whole(s->ckpt, p.t)->key].name);
	r = sf_key_slice_box(one->slice ? one->slice : &all, p.t->shape, p.t->ndim, &p.box, err);
	if (r >= 0)
		r = explain(&p, err);
	if (r >= 0 && json)
		print_json(&p, first);
	else if (r >= 0)
		r = print_text(&p, err);
	free(p.at);
	return r;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct explain_options *o = opt;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_get_choice ch = { 0 };
	struct sf_session s;

	if (sf_session_open(&s, &common->session, argv[0], &err) < 0)
		return sf_cli_error(SF_EXIT_FAILED, &err);
	int r = sf_get_choose(s.catalog, argc - 1, argv + 1, &ch, &err);
	if (r >= 0 && o->json)
		printf("{\"schema\": 1, \"reads\": [");
	for (uint32_t i = 0; i < ch.n && r >= 0; i++)
		r = explain_one(&s, &ch.at[i], o->json, i == 0, &err);
	if (o->json && ch.n) /* a document, though it may end early */
		printf("]}\n");
	fflush(stdout);
	sf_get_choice_release(&ch);
	sf_session_close(&s);
	return r < 0 ? sf_cli_error(r == -EINVAL ? SF_EXIT_USAGE : SF_EXIT_FAILED, &err)
	             : SF_EXIT_OK;
}

const struct sf_cmd sf_cmd_explain = {
	.name = "explain",
	.usage = "SOURCE KEY[SLICE]… [--json]",
	.about = "what a read of a tensor, or of a part of it, takes from which stored items",
	.example = "shardfuse explain /ckpt/step1000 'model.embed.weight[0:4]'",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 2,
	.max_args = -1,
	.opt_size = sizeof(struct explain_options),
	.run = run,
};
