#include "config.h"

#include <errno.h>

#include "base/mem.h"
#include "format/rankfiles/rankfiles_runs.h"

uint64_t rankfiles_runs_len(const struct rankfiles_runs *r)
{
	uint64_t len = 0;

	for (size_t i = 0; i < r->n; i++)
		len += r->at[i].len;
	return len;
}

/* [@off, @off + @len) of what the runs have, behind @out's; what follows on its last one joins it. */
static int add_slice(const struct rankfiles_runs *r, uint64_t off, uint64_t len,
                     struct rankfiles_runs *out)
{
	for (size_t i = 0; i < r->n && len; i++) {
		struct rankfiles_run run = r->at[i];
		if (off >= run.len) {
			off -= run.len;
			continue;
		}
		run.start += off;
		run.len = SF_MIN(run.len - off, len);
		len -= run.len;
		off = 0;
		if (out->n && out->at[out->n - 1].start + out->at[out->n - 1].len == run.start) {
			out->at[out->n - 1].len += run.len;
			continue;
		}
		if (out->n == RANKFILES_RUNS_MAX)
			return -E2BIG;
		if (rankfiles_runs_push(out, run) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Where piece @at of @n of @len elements lies. */
static struct rankfiles_run piece(uint64_t len, uint64_t n, uint64_t at)
{
	const uint64_t step = len / n + (len % n != 0);
	uint64_t start;

	if (!sf_mul(step, at, &start) || start > len)
		start = len;
	return (struct rankfiles_run){ start, SF_MIN(step, len - start) };
}

static void become(struct rankfiles_runs *r, struct rankfiles_runs *out)
{
	rankfiles_runs_release(r);
	*r = *out;
}

int rankfiles_runs_chunk(struct rankfiles_runs *r, uint64_t n, uint64_t at)
{
	const struct rankfiles_run part = piece(rankfiles_runs_len(r), n, at);
	struct rankfiles_runs out = { 0 };
	int code = add_slice(r, part.start, part.len, &out);

	if (code < 0)
		rankfiles_runs_release(&out);
	else
		become(r, &out);
	return code;
}

int rankfiles_runs_strided(struct rankfiles_runs *r, uint64_t factor, uint64_t n, uint64_t at)
{
	const uint64_t len = rankfiles_runs_len(r);
	struct rankfiles_runs out = { 0 };
	int code = factor > RANKFILES_RUNS_MAX ? -E2BIG : 0;

	for (uint64_t i = 0; i < factor && code >= 0; i++) {
		const struct rankfiles_run big = piece(len, factor, i);
		struct rankfiles_run part;
		if (!big.len) /* nor have those behind it */
			break;
		part = piece(big.len, n, at);
		code = add_slice(r, big.start + part.start, part.len, &out);
	}
	if (code < 0)
		rankfiles_runs_release(&out);
	else
		become(r, &out);
	return code;
}
