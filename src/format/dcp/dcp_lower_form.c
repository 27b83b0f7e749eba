#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "format/dcp/dcp_lower_priv.h"
#include "store/source.h"

/* *ret is NULL where there is nothing to look at: the file is gone, or no plain one. */
static int open_place(struct dcp_lowering *l, uint32_t i, struct sf_source **ret)
{
	const struct sf_objinfo *info;
	struct sf_error why = SF_ERROR_INIT;
	int r = dcp_lower_file(l, i);

	*ret = NULL;
	if (r < 0 ||
	    !(info = sf_format_listed(l->src->files, l->src->nfiles, (const char *)l->file.at)))
		return r;
	r = l->src->store->ops->open(l->src->store, info->name, info, ret, &why);
	if (r == -ENOENT || r == -EBADMSG)
		return 0;
	return r < 0 ? sf_fail(l->err, r, "dcp: looking at an item: %s", why.msg) : 0;
}

/*
 * Bytes of an item, for what they tell about its form. 0: they are there; 1: they cannot be had for
 * good, a guess must do. Any other failure is the load's: what is not answered now may be at the
 * next try, and a guess would stay until the next load.
 */
static int look(struct dcp_lowering *l, struct sf_source *src, uint64_t off, void *buf, size_t len)
{
	struct sf_error why = SF_ERROR_INIT;
	int r = sf_source_read(src, off, buf, len, SF_FETCH_HEADER, &why);

	if (r == -ENOENT || r == -EBADMSG)
		return 1;
	return r < 0 ? sf_fail(l->err, r, "dcp: looking at an item: %s", why.msg) : 0;
}

/*
 * SAFETENSORS mode under zstd: each tensor's stream is closed with nothing in it, an empty frame at
 * its offset, and one plain blob follows them all. Frames of the two shapes that libzstd gives
 * them: no content size and a window of 2 MiB, or a content size of 0. Cost: reads 9 bytes a
 * tensor.
 */
static int decide_zstd(struct dcp_lowering *l, uint32_t i, uint64_t off)
{
	static const uint8_t empty[2][9] = { { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 1, 0, 0 },
		                             { 0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x00, 1, 0, 0 } };
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	uint8_t text[910 * sizeof(empty[0])];
	uint64_t at = off;
	int r = open_place(l, i, &src);

	l->place[i].form = DCP_FORM_TORCH;
	if (r < 0 || !src)
		return r;
	for (;;) {
		size_t n = 0,
		       len = at < src->size ? (size_t)SF_MIN(src->size - at, sizeof(text)) : 0;
		r = len ? look(l, src, at, text, len) : 1;
		if (r)
			return r < 0 ? r : 0;
		while (len - n >= sizeof(empty[0]) &&
		       (memcmp(text + n, empty[0], sizeof(empty[0])) == 0 ||
		        memcmp(text + n, empty[1], sizeof(empty[0])) == 0))
			n += sizeof(empty[0]);
		at += n;
		if ((at - off) / sizeof(empty[0]) > l->m->item.n)
			return 0; /* more than there are tensors */
		if (n < sizeof(text)) {
			if (at > off && len - n > 8 && text[n + 8] == '{') {
				l->place[i].form = DCP_FORM_SAFETENSORS;
				l->place[i].blob_off = at;
			}
			return 0;
		}
	}
}

/*
 * SAFETENSORS mode or not: a torch.save archive is always longer than its payload, so an item of
 * exactly the payload's length is no archive, unless a writer other than torch's stored a broadcast
 * tensor: then the bytes there tell.
 */
static int decide(struct dcp_lowering *l, uint32_t i, uint64_t off)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	uint8_t head[9];
	int r = open_place(l, i, &src);

	l->place[i].form = DCP_FORM_SAFETENSORS;
	if (r < 0 || !src || src->size < sizeof(head) || off > src->size - sizeof(head))
		return r;
	r = look(l, src, off, head, sizeof(head));
	if (r == 0 && (memcmp(head, "PK\3\4", 4) == 0 || head[8] != '{'))
		l->place[i].form = DCP_FORM_TORCH;
	return r < 0 ? r : 0;
}

int dcp_lower_form(struct dcp_lowering *l, uint32_t i, uint64_t off)
{
	return l->m->place.at[i].transform == DCP_ZSTD ? decide_zstd(l, i, off) : decide(l, i, off);
}
