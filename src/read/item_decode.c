#include "config.h"

#include "base/mem.h"
#include "read/item_cache_priv.h"

/* times what it had: what one that has more inside than was thought begins anew with */
#define MORE 4

static const struct sf_codec_info *info_of(const struct sf_cache_entry *e)
{
	return sf_codec_info(e->want.codec);
}

/* Bytes of it fetched at once, from @pos on. */
static uint64_t slice(const struct sf_cache_entry *e, uint64_t pos)
{
	return SF_MIN(sf_source_hints(e->want.src)->range_max, e->want.len - pos);
}

/* Bytes of the output for which a compressed item's load begins. */
static uint64_t first_room(const struct sf_cache_entry *e)
{
	uint64_t most = SF_MIN(e->want.decoded_max, sf_item_limit(e));

	return SF_MIN(SF_MAX(e->want.expect, UINT64_C(1)), most);
}

uint64_t sf_item_decode_claim(const struct sf_cache_entry *e)
{
	uint64_t window = SF_MAX(e->window, info_of(e)->window);

	return first_room(e) + slice(e, 0) + (info_of(e)->state + window) * e->want.streams;
}

static int too_big(struct sf_cache_entry *e)
{
	const char *name = e->want.src->name;
	unsigned long long off = e->want.off, most = e->want.decoded_max, limit = sf_item_limit(e);

	if (most <= limit)
		return sf_fail(&e->req.err, -E2BIG,
		               "'%s': the compressed item at %llu has more than %llu bytes inside",
		               name, off, most);
	return sf_fail(
		&e->req.err, -E2BIG,
		"'%s': the compressed item at %llu may have up to %llu bytes inside; --memory "
		"%llu has no room for more than %llu of them",
		name, off, most, limit, limit);
}

/* A stream asks for more window than was taken for it: anew with more, if there may be more. */
static int window_too_large(struct sf_cache_entry *e)
{
	uint64_t most = SF_MIN(SF_MAX(sf_item_limit(e) / 2, info_of(e)->window_least),
	                       info_of(e)->window_most);

	if (e->window < most) {
		e->window = SF_MIN(e->window * MORE, most);
		sf_item_want_more(e, sf_item_claim(e));
		return SF_ITEM_ANEW;
	}
	return sf_fail(
		&e->req.err, -E2BIG,
		"'%s': the compressed item at %llu asks for a window of more than %llu bytes; "
		"--memory is %llu",
		e->want.src->name, (unsigned long long)e->want.off, (unsigned long long)most,
		(unsigned long long)sf_item_limit(e));
}

/* One slice is there. */
int sf_item_decode_slice(struct sf_cache_entry *e)
{
	struct sf_error *err = &e->req.err;
	uint64_t most = SF_MIN(e->want.decoded_max, sf_item_limit(e));
	int r = sf_decoder_feed(e->decoder, e->in, e->req.len, &e->out, err);

	if (r == -ENOBUFS)
		return window_too_large(e);
	if (r == -E2BIG && e->out.limit < most) {
		e->want.expect = e->out.limit > most / MORE ? most : e->out.limit * MORE;
		sf_item_want_more(e, sf_item_claim(e));
		return SF_ITEM_ANEW;
	}
	if (r == -E2BIG)
		return too_big(e);
	if (r < 0)
		return sf_fail_ctx(err, r, "'%s': compressed item at %llu", e->want.src->name,
		                   (unsigned long long)e->want.off);
	e->pos += e->req.len;
	if (e->pos < e->want.len) {
		sf_item_next(e, e->in, slice(e, e->pos));
		return SF_ITEM_MORE;
	}
	r = sf_decoder_end(e->decoder, err);
	if (r < 0)
		return sf_fail_ctx(err, r, "'%s': compressed item at %llu", e->want.src->name,
		                   (unsigned long long)e->want.off);
	sf_pages_cut(&e->pages, e->out.len);
	e->pub.at = e->pages.at;
	e->pub.len = e->out.len;
	return 0;
}

int sf_item_decode_begin(struct sf_cache_entry *e, uint64_t *first)
{
	struct sf_error *err = &e->req.err;
	uint64_t room = first_room(e);
	int r = sf_decoder_new(e->want.codec, e->want.streams, &e->decoder, err);

	if (r < 0)
		return r;
	e->window = SF_MAX(e->window, info_of(e)->window);
	sf_decoder_window(e->decoder, e->window);
	r = sf_pages_make(&e->pages, room + 1); /* a NUL's place, which sf_buf leaves behind */
	if (r < 0)
		return sf_fail(err, r, "'%s': no memory for %llu bytes inside a compressed item",
		               e->want.src->name, (unsigned long long)room);
	/* all of it is there: the buffer never grows */
	e->out = (struct sf_buf){ .at = e->pages.at, .cap = room, .limit = room };
	*first = slice(e, 0);
	return sf_item_make_in(e, SF_MAX(*first, UINT64_C(1)));
}
