#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "ckpt/box.h"
#include "ckpt/place.h"
#include "tool/claims.h"

/* What the load found, which says more than a read of it would. */
static int known_damage(const struct sf_ckpt *k, const struct sf_tensor *t, struct sf_error *err)
{
	const struct sf_key *key = &k->key[t->key];

	for (uint32_t i = 0; i < k->nwarnings; i++) {
		const struct sf_warning *w = &k->warning[i];
		if (w->key == t->key && strcmp(w->code, "overlap") != 0)
			return sf_fail(err, -EBADMSG, "'%.300s': %s", key->name, w->text);
	}
	return sf_fail(err, -EBADMSG, "'%.300s' is incomplete (shardfuse verify says why)",
	               key->name);
}

/* Bytes that an item may stand for at most; UINT64_MAX: its size says nothing. */
static uint64_t room_of(const struct sf_ckpt *k, const struct sf_chunk *c)
{
	const struct sf_place *p = &k->place[c->place];
	const struct sf_where at = sf_place_where(k, c->place, c->off);
	uint64_t len = c->len, most;

	/* a blob holds more than the one tensor, and its length is not always known */
	if (p->form == SF_ITEM_ST_BLOB)
		len = at.room;
	/* the stream's size is a claim, too */
	if (at.stream && at.stream->streams == 1 && sf_codec_info(at.stream->codec)->ratio &&
	    sf_mul(at.stream->len, sf_codec_info(at.stream->codec)->ratio, &most))
		len = SF_MIN(len, most);
	if (p->codec == SF_CODEC_NONE)
		return len;
	if (p->streams != 1 || !sf_codec_info(p->codec)->ratio ||
	    !sf_mul(len, sf_codec_info(p->codec)->ratio, &len))
		return UINT64_MAX;
	return len;
}

static int check_chunk(struct sf_session *s, uint32_t tensor, uint32_t i, struct sf_error *err)
{
	const struct sf_ckpt *k = s->ckpt;
	const struct sf_tensor *t = &k->tensor[tensor];
	const uint64_t own = sf_dtype_info(t->dtype)->bytes; /* of what is read */
	uint64_t elem = sf_dtype_info(sf_tensor_stored(t))->bytes, one[2];
	struct sf_error why = SF_ERROR_INIT;
	char name[SF_PLACE_NAME];
	struct sf_chunk c;
	int r = -EBADMSG;

	sf_tensor_chunk(t, i, &c);
	if (sf_chunk_empty(t, i) || c.place == SF_NONE)
		return 0;
	const struct sf_place *p = &k->place[c.place];
	if (p->unreadable) /* no byte of it can be had */
		return sf_read_tensor(s->reader, tensor, sf_chunk_first(t, i) * own, one, own, err);
	if (c.part_len * elem <= room_of(k, &c))
		return 0;
	/* what the load has compared: a stride of 0 makes much of little, as in an archive */
	if (p->form == SF_ITEM_RAW && t->more && t->more->layout && t->more->layout[i].stride)
		return 0;
	if (p->form == SF_ITEM_TORCH && p->codec == SF_CODEC_NONE) {
		r = sf_read_tensor(s->reader, tensor, sf_chunk_first(t, i) * own, one, own, &why);
		if (r >= 0)
			return 0;
	}
	return sf_fail(err, r,
	               "'%.300s' claims %" PRIu64 " bytes in chunk %" PRIu32
	               ", its item in '%.300s' has %" PRIu64 "%s%s",
	               k->key[t->key].name, c.part_len * elem, i, sf_place_name(k, c.place, name),
	               c.len, why.msg[0] ? ": " : "", why.msg);
}

int sf_claims_check_tensor(struct sf_session *s, uint32_t tensor, struct sf_error *err)
{
	const uint32_t n = s->ckpt->tensor[tensor].nchunks;
	int r = 0;

	for (uint32_t i = 0; i < n && r >= 0; i++)
		r = check_chunk(s, tensor, i, err);
	return r;
}

int sf_claims_check(struct sf_session *s, const uint32_t *entries, size_t n, struct sf_error *err)
{
	SF_FREE bool *seen = calloc((size_t)s->ckpt->ntensors + 1, sizeof(*seen));
	int r = 0;

	if (!seen)
		return sf_fail(err, -ENOMEM, "%" PRIu32 " tensors", s->ckpt->ntensors);
	for (size_t e = 0; e < n && r >= 0; e++) {
		uint32_t tensor = s->catalog->entry[entries[e]].tensor;
		if (tensor == SF_NONE || seen[tensor])
			continue;
		const struct sf_tensor *t = &s->ckpt->tensor[tensor];
		seen[tensor] = true;
		/* both flags, and nobody knows which: readers look */
		if (t->flags & SF_TENSOR_DAMAGED ||
		    (t->flags & (SF_TENSOR_HOLE | SF_TENSOR_OVERLAP)) == SF_TENSOR_HOLE)
			r = known_damage(s->ckpt, t, err);
		if (r >= 0)
			r = sf_claims_check_tensor(s, tensor, err);
	}
	return r;
}
