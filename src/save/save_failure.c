#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "save/save_failure.h"

#define FIXED ((6 + SF_FAILURE_NAMED) * 4) /* bytes before the message */

void sf_save_failure_add(struct sf_save_failure *f, uint32_t rank, int code, const char *msg)
{
	if (!f->nfailed || rank < f->rank) {
		f->rank = rank;
		/* -EAGAIN says of a step that it is not over */
		f->code = code == -EAGAIN ? -EBUSY : code;
		snprintf(f->err.msg, sizeof(f->err.msg), "%s", msg);
	}
	f->nfailed++;
}

static unsigned named(const struct sf_save_failure *f)
{
	return SF_MIN(f->nmissing, (uint32_t)SF_FAILURE_NAMED);
}

/* @n ranks of @from, ascending, in among those that are named. */
static void name_more(struct sf_save_failure *f, const uint32_t *from, unsigned n)
{
	uint32_t old[SF_FAILURE_NAMED];
	unsigned nold = named(f), i = 0, k = 0;

	memcpy(old, f->missing, sizeof(old));
	for (unsigned to = 0; to < SF_FAILURE_NAMED && (i < nold || k < n); to++)
		f->missing[to] = k >= n || (i < nold && old[i] < from[k]) ? old[i++] : from[k++];
}

void sf_save_failure_miss(struct sf_save_failure *f, uint32_t rank, uint32_t nbehind)
{
	name_more(f, &rank, 1);
	f->nmissing++;
	f->nbehind += nbehind;
}

void sf_save_failure_merge(struct sf_save_failure *f, const struct sf_save_failure *from)
{
	if (from->nfailed) {
		sf_save_failure_add(f, from->rank, from->code, from->err.msg);
		f->nfailed += from->nfailed - 1;
	}
	name_more(f, from->missing, named(from));
	f->nmissing += from->nmissing;
	f->nbehind += from->nbehind;
}

void sf_save_failure_put(struct sf_buf *b, const struct sf_save_failure *f)
{
	const uint32_t word[] = { f->nfailed,  (uint32_t)f->code, f->rank,
		                  f->nmissing, f->nbehind,        (uint32_t)SF_FAILURE_NAMED };
	uint8_t *at = sf_buf_extend(b, FIXED);

	if (at) {
		for (size_t i = 0; i < SF_ARRAY_LEN(word); i++, at += 4)
			sf_put_le32(at, word[i]);
		for (size_t i = 0; i < SF_FAILURE_NAMED; i++, at += 4)
			sf_put_le32(at, f->missing[i]);
	}
	sf_buf_str(b, f->err.msg);
}

int sf_save_failure_take(const void *from, size_t len, struct sf_save_failure *ret)
{
	const uint8_t *at = from;
	struct sf_save_failure f = { 0 };

	if (len < FIXED || len - FIXED >= sizeof(f.err.msg) || sf_le32(at + 20) != SF_FAILURE_NAMED)
		return -EBADMSG;
	f.nfailed = sf_le32(at);
	f.code = (int)sf_le32(at + 4);
	f.rank = sf_le32(at + 8);
	f.nmissing = sf_le32(at + 12);
	f.nbehind = sf_le32(at + 16);
	if (!f.nfailed == (f.code < 0) || f.code > 0 || (!f.nfailed && !f.nmissing))
		return -EBADMSG;
	for (size_t i = 0; i < SF_FAILURE_NAMED; i++)
		f.missing[i] = sf_le32(at + 24 + 4 * i);
	memcpy(f.err.msg, at + FIXED, len - FIXED);
	*ret = f;
	return 0;
}

/* "no word from ranks 3 and 7 for 2000 ms" */
static void say_missing(const struct sf_save_failure *f, unsigned timeout_ms, struct sf_buf *b)
{
	unsigned n = named(f);

	if (f->nmissing > n)
		sf_buf_printf(b, "no word from %u ranks for %u ms: ", f->nmissing, timeout_ms);
	else
		sf_buf_printf(b, "no word from rank%s ", n > 1 ? "s" : "");
	for (unsigned i = 0; i < n; i++)
		sf_buf_printf(b, "%s%u",
		              !i                               ? ""
		              : i == n - 1 && n == f->nmissing ? " and "
		                                               : ", ",
		              f->missing[i]);
	if (f->nmissing > n)
		sf_buf_str(b, " …");
	else
		sf_buf_printf(b, " for %u ms", timeout_ms);
	if (f->nbehind)
		sf_buf_printf(b, " (through which %u more are reached)", f->nbehind);
}

int sf_save_failure_say(const struct sf_save_failure *f, uint32_t nrank, unsigned timeout_ms,
                        struct sf_error *err)
{
	struct sf_buf b = { .limit = SF_ERROR_MAX };
	int code = f->nfailed ? f->code : f->nmissing ? -ETIMEDOUT : 0;

	if (!code)
		return 0;
	if (f->nfailed && nrank > 1)
		sf_buf_printf(&b, "rank %u: ", f->rank);
	if (f->nfailed)
		sf_buf_str(&b, f->err.msg);
	if (f->nfailed > 1)
		sf_buf_printf(&b, " (%u more rank%s failed)", f->nfailed - 1,
		              f->nfailed > 2 ? "s" : "");
	if (f->nmissing && f->nfailed)
		sf_buf_str(&b, "; ");
	if (f->nmissing)
		say_missing(f, timeout_ms, &b);
	/* a message of full length, or no memory: what matters is short enough for the stack */
	if (sf_buf_check(&b) < 0 && f->nfailed)
		sf_fail(err, code, "rank %u: %s", f->rank, f->err.msg);
	else if (sf_buf_check(&b) < 0)
		sf_fail(err, code, "no word from rank %u for %u ms", f->missing[0], timeout_ms);
	else
		sf_fail(err, code, "%s", sf_buf_cstr(&b));
	sf_buf_release(&b);
	return code;
}
