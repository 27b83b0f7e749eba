/* A plan that is looked at instead of carried out. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing.h"
#include "base/mem.h"
#include "base/path.h"
#include "save/save_priv.h"

static void put_numbers(struct sf_buf *b, const char *name, const uint64_t *v, unsigned n)
{
	sf_buf_printf(b, ", \"%s\": [", name);
	for (unsigned i = 0; i < n; i++)
		sf_buf_printf(b, "%s%" PRIu64, i ? ", " : "", v[i]);
	sf_buf_byte(b, ']');
}

static void put_chunk(struct sf_buf *b, const struct shardfuse_save *s,
                      const struct sf_global_plan *g, const struct sf_global_key *k, uint64_t c)
{
	const uint64_t *at = g->coords + k->coord + 2 * k->ndim * (c - k->first);
	char name[SF_SHARD_NAME_MAX];

	sf_shard_name(name, g->rank[c], g->file[c], s->at->tag);
	sf_buf_printf(b, "%s\n    {\"rank\": %u, \"file\": \"%s%s\"", c == k->first ? "" : ",",
	              g->rank[c], s->format->shards, name);
	sf_buf_printf(b, ", \"off\": %" PRIu64 ", \"bytes\": %" PRIu64, g->off[c], g->len[c]);
	if (k->kind == SF_SAVE_TENSOR) {
		put_numbers(b, "offset", at, k->ndim);
		put_numbers(b, "extent", at + k->ndim, k->ndim);
	}
	sf_buf_byte(b, '}');
}

static void put_key(struct sf_buf *b, const struct shardfuse_save *s,
                    const struct sf_global_plan *g, const struct sf_global_key *k)
{
	sf_buf_printf(b, "%s\n  ", k == g->key ? "" : ",");
	sf_escape_json(b, k->key, k->key_len);
	sf_buf_str(b, ": {");
	if (k->kind == SF_SAVE_TENSOR) {
		sf_buf_printf(b, "\"dtype\": \"%s\"",
		              sf_dtype_info((enum sf_dtype)k->dtype)->torch);
		put_numbers(b, "shape", k->shape, k->ndim);
		sf_buf_str(b, ", ");
	}
	sf_buf_str(b, "\"items\": [");
	for (uint64_t c = k->first; c < k->first + k->nchunks && sf_buf_check(b) == 0; c++)
		put_chunk(b, s, g, k, c);
	sf_buf_str(b, "]}");
}

static int answer_json(void *arg, const void *const *record, const size_t *len, uint32_t n,
                       struct sf_buf *answer, struct sf_error *err)
{
	const struct shardfuse_save *s = arg;
	const struct sf_global_plan *g = &s->global;
	uint64_t bytes = 0;

	(void)record, (void)len;
	for (uint64_t c = 0; c < g->nchunks; c++)
		bytes += g->len[c];
	sf_buf_printf(
		answer,
		"{\"format\": \"%s\", \"ranks\": %u, \"files_per_rank\": %u, \"items\": %" PRIu64
		", \"bytes\": %" PRIu64 ", \"keys\": {",
		s->format->name, n, s->opt.files_per_rank, g->nchunks, bytes);
	for (uint64_t k = 0; k < g->nkeys && sf_buf_check(answer) == 0; k++)
		put_key(answer, s, g, &g->key[k]);
	sf_buf_str(answer, "\n}}");
	return sf_buf_check(answer) == 0 ? 0
	                                 : sf_fail(err, -ENOMEM, "no memory for the plan's JSON");
}

int shardfuse_save_plan(struct shardfuse_save *s, char **ret, struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct sf_verdict v = s->failed;
	struct sf_buf json = { 0 };
	int r = s->ended ? sf_fail(&e, -EINVAL, "this save was committed or aborted") : 0;

	if (r >= 0)
		r = sf_save_agree(s, &v, false, &e);
	if (r >= 0)
		r = sf_save_tree_step(&s->tree, &s->mine.verdict, NULL, 0, answer_json, s, &json,
		                      &e);
	if (r >= 0) {
		char *text = strdup(sf_buf_cstr(&json));
		if (text)
			*ret = text;
		else
			r = sf_fail(&e, -ENOMEM, "no memory for the plan's JSON");
	}
	sf_buf_release(&json);
	sf_save_forget_plan(s);
	return sf_public_fail(err, &e, r);
}
