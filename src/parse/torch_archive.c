#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "parse/pickle_skip.h"
#include "parse/torch_archive_priv.h"

#define FIRST_READ (UINT64_C(64) << 10) /* of a pickle whose length is not known */

/* LONG1 of 10 bytes: 0x1950a86a20f9469cfc6c, the first pickle of a stream. */
static const uint8_t stream_magic[] = { 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
	                                0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };

/* Old tars have no magic, but a checksum over their first header. */
static bool is_tar(const uint8_t *p, size_t len)
{
	unsigned sum = 0, said = 0;

	if (len < 512)
		return false;
	for (unsigned i = 0; i < 512; i++)
		sum += i >= 148 && i < 156 ? ' ' : p[i];
	for (unsigned i = 148; i < 156; i++)
		if (p[i] >= '0' && p[i] <= '7')
			said = said * 8 + (unsigned)(p[i] - '0');
		else if (p[i] != ' ' || said)
			break;
	return p[0] && sum == said;
}

enum sf_torch_container sf_torch_container(const uint8_t *head, size_t len)
{
	size_t near =
		SF_MIN(len, (size_t)32); /* PROTO and, from protocol 4 on, FRAME are in front */

	if (len >= 4 && memcmp(head, "PK\3\4", 4) == 0)
		return SF_TORCH_ZIP;
	if (len && head[0] == 0x80 && memmem(head, near, stream_magic, sizeof(stream_magic)))
		return SF_TORCH_STREAM;
	return is_tar(head, len) ? SF_TORCH_TAR : SF_TORCH_NONE;
}

int sf_torch_source_read(void *arg, const struct sf_torch_range *range, size_t n, uint8_t *buf,
                         struct sf_error *err)
{
	const struct sf_torch_source *s = arg;
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; buf += range[i++].len)
		if (range[i].len)
			r = sf_source_read(s->src, s->off + range[i].off, buf, range[i].len,
			                   s->kind, err);
	return r;
}

int sf_torch_fits(uint64_t in_len, uint64_t off, uint64_t len, uint64_t most, const char *what,
                  struct sf_error *err)
{
	if (off > in_len || len > in_len - off)
		return sf_fail(err, -EBADMSG, "%s: bytes %" PRIu64 " + %" PRIu64 " of %" PRIu64,
		               what, off, len, in_len);
	if (len > most)
		return sf_fail(err, -E2BIG, "%s has %" PRIu64 " bytes, the limit is %" PRIu64, what,
		               len, most);
	return 0;
}

int sf_torch_get(const struct sf_torch_input *in, uint64_t off, uint64_t len, uint64_t most,
                 const char *what, struct sf_arena *scratch, const uint8_t **ret,
                 struct sf_error *err)
{
	const struct sf_torch_range range = { off, len };
	uint8_t *own;
	int r = sf_torch_fits(in->len, off, len, most, what, err);

	if (r < 0)
		return r;
	if (in->at) {
		*ret = in->at + off;
		return 0;
	}
	own = sf_arena_alloc(scratch, len);
	if (!own)
		return sf_fail(err, -ENOMEM, "%s: no memory for %" PRIu64 " bytes", what, len);
	*ret = own;
	return len ? in->read(in->arg, &range, 1, own, err) : 0;
}

/* *ret_len: of the pickle that begins at @off, in *ret. */
static int get_pickle(struct sf_torch_open_op *o, uint64_t off, uint64_t end, const uint8_t **ret,
                      uint64_t *ret_len)
{
	const uint64_t left = off < end ? end - off : 0;
	uint64_t want = o->in->at ? left : SF_MIN(left, FIRST_READ);
	size_t used;

	for (;;) {
		struct sf_arena tried = { .charge = o->scratch.charge };
		const uint8_t *p;
		int r = sf_torch_get(o->in, off, want, SF_MAX(o->opt.part_max, FIRST_READ),
		                     "a pickle", &tried, &p, o->err);
		if (r >= 0)
			r = sf_pickle_skip(p, (size_t)want, &used, o->err);
		if (r == 0 && used > o->opt.part_max)
			r = sf_fail(o->err, -E2BIG, "a pickle has %zu bytes, the limit is %" PRIu64,
			            used, o->opt.part_max);
		if (r == 0 && o->in->at) {
			*ret = p;
		} else if (r == 0) { /* no more of it than the pickle is kept */
			*ret = (const uint8_t *)sf_arena_strdup(&o->scratch, (const char *)p, used);
			if (!*ret)
				r = sf_fail(o->err, -ENOMEM, "a pickle: no memory for %zu bytes",
				            used);
		}
		sf_arena_release(&tried);
		if (r == 0)
			*ret_len = used;
		if (r != -EAGAIN)
			return r;
		if (want == left)
			return sf_fail(o->err, -EBADMSG,
			               "the pickle at %" PRIu64 " has no end by %" PRIu64, off,
			               end);
		want = SF_MIN(left, want * 4);
	}
}

int sf_torch_parse(struct sf_torch_open_op *o, const uint8_t *p, uint64_t len, struct sf_pv **ret)
{
	const struct sf_pickle_limits limits = { .memory = o->opt.part_max };

	return sf_pickle_parse(p, len, &limits, o->arena, ret, NULL, o->err);
}

int sf_torch_pickle_at(struct sf_torch_open_op *o, uint64_t off, uint64_t end, struct sf_pv **ret,
                       uint64_t *ret_end)
{
	const uint8_t *p;
	uint64_t len = 0;
	int r = get_pickle(o, off, end, &p, &len);

	if (r >= 0)
		r = sf_torch_parse(o, p, len, ret);
	if (r >= 0)
		*ret_end = off + len;
	return r;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct sf_torch_record *)a)->key,
	              ((const struct sf_torch_record *)b)->key);
}

int sf_torch_keep_storages(struct sf_torch_open_op *o, struct sf_torch_records *s)
{
	struct sf_torch_record *at = sf_arena_calloc(o->arena, s->n + 1, sizeof(*at));

	if (!at || s->n > UINT32_MAX)
		return sf_fail(o->err, -ENOMEM, "no memory for %zu storages", s->n);
	if (s->n) {
		memcpy(at, s->at, s->n * sizeof(*at));
		qsort(at, s->n, sizeof(*at), by_key);
	}
	for (size_t i = 1; i < s->n; i++)
		if (strcmp(at[i - 1].key, at[i].key) == 0)
			return sf_fail(o->err, -EBADMSG, "two records 'data/%.100s'", at[i].key);
	o->a.storage = at;
	o->a.nstorages = (uint32_t)s->n;
	return 0;
}

const struct sf_torch_record *sf_torch_record_find(const struct sf_torch_record *at, size_t n,
                                                   const char *key, size_t len)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2, klen = strlen(at[mid].key);
		int c = memcmp(at[mid].key, key, SF_MIN(klen, len));
		if (c == 0 && klen == len)
			return &at[mid];
		if (c < 0 || (c == 0 && klen < len))
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}
