#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"
#include "format/dcp/dcp_lower_priv.h"
#include "store/fetch_many.h"

/*
 * In which form the items of a file lie is looked at where their length says that it may not be
 * torch's: one item of each such file, all of them side by side, for each look may be a round trip.
 */

#define LOOKS_AT_ONCE 256u
#define LOOKS_BYTES (UINT64_C(8) << 20) /* in memory at once */
#define EMPTY_BYTES 9u                  /* a zstd frame with nothing in it */
#define EMPTY_FIRST 910u                /* of them in the first look at a file, then … */
#define EMPTY_TIMES 8u                  /* … times as many … */
#define EMPTY_MOST (EMPTY_FIRST * EMPTY_TIMES * EMPTY_TIMES)
#define HEAD_BYTES 9u /* a blob's length and the brace behind it */

struct look {
	uint64_t off, at; /* the item's; where to look next */
	uint32_t place;
	bool done;
};
SF_VEC(looks, struct look);

/* The bytes, for what they tell about the form. 1: they cannot be had for good, a guess must do. Any
 * other failure is the load's: what is not answered now may be at the next try, and a guess would
 * stay until the next load. */
static int judge(struct dcp_lowering *l, int r, const struct sf_error *why)
{
	if (r == -ENOENT || r == -EBADMSG)
		return 1;
	return r < 0 ? sf_fail(l->err, r, "dcp: looking at an item: %s", why->msg) : 0;
}

static int read_bytes(struct dcp_lowering *l, struct sf_source *src, uint64_t off, void *buf,
                      size_t len)
{
	struct sf_error why = SF_ERROR_INIT;

	return judge(l, sf_source_read(src, off, buf, len, SF_FETCH_HEADER, &why), &why);
}

/*
 * SAFETENSORS mode under zstd: each tensor's stream is closed with nothing in it, an empty frame at
 * its offset, and one plain blob follows them all. Frames of the two shapes that libzstd gives
 * them: no content size and a window of 2 MiB, or a content size of 0. Cost: reads 9 bytes a
 * tensor. @text: room for @room bytes, which hold so many frames.
 */
static int decide_zstd(struct dcp_lowering *l, struct look *k, struct sf_source *src, uint8_t *text,
                       size_t room)
{
	static const uint8_t empty[2][EMPTY_BYTES] = {
		{ 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 1, 0, 0 },
		{ 0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x00, 1, 0, 0 }
	};
	size_t n = 0, len = k->at < src->size ? (size_t)SF_MIN(src->size - k->at, room) : 0;
	int r = len ? read_bytes(l, src, k->at, text, len) : 1;

	k->done = true;
	if (r)
		return SF_MIN(r, 0);
	while (len - n >= EMPTY_BYTES && (memcmp(text + n, empty[0], EMPTY_BYTES) == 0 ||
	                                  memcmp(text + n, empty[1], EMPTY_BYTES) == 0))
		n += EMPTY_BYTES;
	k->at += n;
	if ((k->at - k->off) / EMPTY_BYTES > l->m->item.n)
		return 0; /* more than there are tensors */
	if (n == room) {
		k->done = false; /* on from there */
	} else if (k->at > k->off && len - n > 8 && text[n + 8] == '{') {
		l->place[k->place].form = DCP_FORM_SAFETENSORS;
		l->place[k->place].blob_off = k->at;
	}
	return 0;
}

/*
 * SAFETENSORS mode or not: a torch.save archive is always longer than its payload, so an item of
 * exactly the payload's length is no archive, unless a writer other than torch's stored a broadcast
 * tensor: then the bytes there tell.
 */
static int decide_plain(struct dcp_lowering *l, struct look *k, struct sf_source *src)
{
	uint8_t head[HEAD_BYTES];
	int r;

	k->done = true;
	if (src->size < sizeof(head) || k->off > src->size - sizeof(head))
		return 0;
	r = read_bytes(l, src, k->off, head, sizeof(head));
	if (r == 0 && (memcmp(head, "PK\3\4", 4) == 0 || head[8] != '{'))
		l->place[k->place].form = DCP_FORM_TORCH;
	return SF_MIN(r, 0);
}

/* One look at each of @n files, of those under zstd at so many frames. */
static int look_at(struct dcp_lowering *l, struct look *at, size_t n, uint64_t frames,
                   uint8_t *text)
{
	SF_FREE struct sf_fetch_one *f = sf_alloc_array(n, sizeof(*f));
	const struct sf_objinfo *info;
	size_t asked = 0;
	int r = 0;

	if (!f)
		return sf_fail(l->err, -ENOMEM, "dcp: no memory to look at %zu items", n);
	for (size_t i = 0; i < n; i++) {
		bool zstd = l->m->place.at[at[i].place].transform == DCP_ZSTD;
		r = dcp_lower_file(l, at[i].place);
		if (r < 0)
			return r;
		info = sf_format_listed(l->src->files, l->src->nfiles, (const char *)l->file.at);
		at[i].done = !info; /* the file is gone, or no plain one */
		if (info)
			f[asked++] = (struct sf_fetch_one){ .name = info->name,
				                            .want = info,
				                            .off = at[i].at,
				                            .len = zstd ? frames * EMPTY_BYTES
				                                        : HEAD_BYTES };
	}
	sf_fetch_many(l->src->store, f, asked, SF_FETCH_HEADER);
	for (size_t i = 0, k = 0; i < n && r >= 0; i++) {
		if (at[i].done)
			continue;
		const struct sf_fetch_one *got = &f[k++];
		r = judge(l, got->r, &got->err);
		if (r)
			at[i].done = true;
		else if (l->m->place.at[at[i].place].transform == DCP_ZSTD)
			r = decide_zstd(l, &at[i], got->src, text, frames * EMPTY_BYTES);
		else
			r = decide_plain(l, &at[i], got->src);
	}
	sf_fetch_many_release(f, asked);
	return SF_MIN(r, 0);
}

/* Again and again at those that a look did not reach the end of, further each time. */
static int look_at_all(struct dcp_lowering *l, struct looks *v)
{
	SF_FREE uint8_t *text = malloc(EMPTY_MOST * EMPTY_BYTES);
	size_t left;
	int r = 0;

	if (!text)
		return sf_fail(l->err, -ENOMEM, "dcp: no memory to look at %zu items", v->n);
	for (uint64_t frames = EMPTY_FIRST; v->n && r >= 0; v->n = left) {
		size_t most = SF_MIN(LOOKS_AT_ONCE, SF_MAX(l->src->store->io->max_open, 1u));
		most = SF_MIN(most, LOOKS_BYTES / (frames * EMPTY_BYTES));
		left = 0;
		for (size_t i = 0; i < v->n && r >= 0; i += most)
			r = look_at(l, v->at + i, SF_MIN(most, v->n - i), frames, text);
		for (size_t i = 0; i < v->n; i++)
			if (!v->at[i].done)
				v->at[left++] = v->at[i];
		frames = SF_MIN(frames * EMPTY_TIMES, (uint64_t)EMPTY_MOST);
	}
	return r;
}

/* The first item of each file that is as long as its payload. */
static int find_looks(struct dcp_lowering *l, const struct dcp_tensor *t, struct looks *v)
{
	struct dcp_lower_box box;

	for (uint32_t k = 0; k < t->nruns; k++) {
		const struct dcp_run *run = &l->m->run.at[t->run0 + k];
		for (uint32_t i = 0; i < run->count; i++) {
			const struct dcp_item *item = &l->m->item.at[run->chunk0 + i];
			if (item->place == DCP_NONE ||
			    l->place[item->place].form != DCP_FORM_UNKNOWN ||
			    !dcp_lower_may_be_blob(l, item->place))
				continue;
			dcp_lower_box(l->m, t, run, i, &box);
			if (!box.inside || !box.fits || item->len != box.payload || !box.payload)
				continue;
			l->place[item->place].form =
				l->m->place.at[item->place].transform == DCP_ZSTD
					? DCP_FORM_TORCH
					: DCP_FORM_SAFETENSORS;
			if (looks_push(v, (struct look){ item->off, item->off, item->place,
			                                 false }) < 0)
				return sf_fail(l->err, -ENOMEM,
				               "dcp: no memory to look at %zu items", v->n + 1);
		}
	}
	return 0;
}

int dcp_lower_forms(struct dcp_lowering *l)
{
	struct looks v = { 0 };
	int r = 0;

	for (size_t i = 0; i < l->m->key.n && r >= 0; i++) {
		const struct dcp_key *key = &l->m->key.at[i];
		if (key->tensor != DCP_NONE && !dcp_lower_class(l, key))
			r = find_looks(l, &l->m->tensor.at[key->tensor], &v);
	}
	if (r >= 0)
		r = look_at_all(l, &v);
	looks_release(&v);
	for (size_t i = 0; i < l->m->place.n; i++)
		if (l->place[i].form == DCP_FORM_UNKNOWN)
			l->place[i].form = DCP_FORM_TORCH; /* no item of it asks */
	return r;
}
