#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/olmo/olmo.h"

#define RANK_MAX (UINT32_C(1) << 20)

int64_t olmo_rank_of(const char *name, const char *dir)
{
	size_t len = strlen(dir), digits;
	int64_t rank = 0;

	if (strncmp(name, dir, len) != 0 || strncmp(name + len, "rank", 4) != 0)
		return -1;
	name += len + 4;
	digits = strspn(name, "0123456789");
	if (!digits || digits > 7 || (digits > 1 && *name == '0') ||
	    strcmp(name + digits, ".pt") != 0)
		return -1;
	while (digits--)
		rank = rank * 10 + (*name++ - '0');
	return rank < RANK_MAX ? rank : -1;
}

void olmo_ranks_release(struct olmo_ranks *ranks)
{
	if (ranks->part)
		sf_torch_parts_release(ranks->part, ranks->n);
	free(ranks->part);
	ranks->part = NULL;
	ranks->n = 0;
}

/* How many there are to be, and how many there are. */
static int count(struct olmo_load *l, const char *dir, uint32_t world, uint32_t *ret_n,
                 uint32_t *ret_have)
{
	uint32_t n = world, have = 0;

	for (size_t i = 0; i < l->nfiles; i++) {
		int64_t rank = olmo_rank_of(l->files[i].name, dir);
		if (rank < 0 || (world && rank >= world))
			continue;
		have++;
		n = SF_MAX(n, (uint32_t)rank + 1);
	}
	if (!have)
		return sf_fail(l->err, -ENOENT, "no %srankR.pt is there", dir);
	/* a number that was made up is not worth the memory */
	if (n / 16 > have + 16)
		return sf_fail(l->err, -EBADMSG, "%" PRIu32 " of %" PRIu32 " files %srankR.pt",
		               have, n, dir);
	*ret_n = n;
	*ret_have = have;
	return 0;
}

static bool is_malformed(int code)
{
	return code == -EBADMSG || code == -ENOTSUP || code == -E2BIG;
}

static int check(struct olmo_load *l, const char *dir, struct olmo_ranks *ranks, uint32_t have)
{
	const struct sf_torch_part *bad = NULL;
	uint32_t good = 0, absent = SF_NONE;
	int r = 0;

	for (uint32_t i = 0; i < ranks->n && r >= 0; i++) {
		struct sf_torch_part *p = &ranks->part[i];
		good += p->r == 0;
		if (p->r == 0)
			r = sf_torch_part_place(p, l->b, l->err);
		if (!p->file && absent == SF_NONE)
			absent = i;
		if (p->r == 0 || !p->file)
			continue;
		bad = p;
		if (!is_malformed(p->r))
			return sf_fail(l->err, p->r, "%s", p->err.msg);
		r = sf_ckpt_builder_warn(l->b, NULL, "unreadable-file",
		                         "what rank %" PRIu32 " has is left out: %s", i,
		                         p->err.msg);
	}
	if (r >= 0 && !good && bad)
		return sf_fail(l->err, bad->r, "no file of a rank can be read: %s", bad->err.msg);
	if (r >= 0 && have < ranks->n)
		r = sf_ckpt_builder_warn(l->b, NULL, "missing-file",
		                         "%srank%" PRIu32 ".pt is missing: %" PRIu32 " of %" PRIu32
		                         " are there",
		                         dir, absent, have, ranks->n);
	return r;
}

int olmo_ranks_open(struct olmo_load *l, const char *dir, uint32_t world, struct olmo_ranks *ret)
{
	SF_FREE struct sf_torch_part *there = NULL;
	SF_FREE uint32_t *rank = NULL;
	uint32_t n = 0, have = 0, k = 0;
	int r = count(l, dir, world, &n, &have);

	if (r < 0)
		return r;
	there = calloc(have, sizeof(*there));
	rank = sf_alloc_array(have, sizeof(*rank));
	ret->part = calloc(n, sizeof(*ret->part));
	ret->n = ret->part ? n : 0;
	if (!there || !rank || !ret->part)
		return sf_fail(l->err, -ENOMEM, "no memory for the files of %" PRIu32 " ranks", n);
	for (uint32_t i = 0; i < n; i++)
		ret->part[i] = (struct sf_torch_part){ .r = -ENOENT, .place = SF_NONE };
	for (size_t i = 0; i < l->nfiles; i++) {
		int64_t at = olmo_rank_of(l->files[i].name, dir);
		if (at < 0 || at >= n)
			continue;
		there[k].file = &l->files[i];
		rank[k++] = (uint32_t)at;
	}
	r = sf_torch_parts_open(l->store, there, have, 0, l->err);
	for (uint32_t i = 0; i < have && r >= 0; i++)
		ret->part[rank[i]] = there[i];
	l->ranks = SF_MAX(l->ranks, n);
	return r < 0 ? r : check(l, dir, ret, have);
}
