#include "config.h"

#include "save/save_plan_priv.h"

static int no_memory(uint64_t n, struct sf_error *err)
{
	return sf_fail(err, -ENOMEM, "no memory for the plan of %llu boxes", (unsigned long long)n);
}

/* Where the boxes and coordinates of each key will be. What the records hold bounds both. */
static int make_columns(struct sf_plan_make *m, struct sf_error *err)
{
	struct sf_global_plan *g = m->g;
	uint64_t n = 0, ncoords = 0, part;

	for (size_t k = 0; k < m->key.n; k++) {
		struct sf_global_key *key = &m->key.at[k];
		key->first = n;
		key->coord = ncoords;
		key->nchunks = m->more.at[k].nboxes;
		if (!sf_mul(key->nchunks, 2 * (uint64_t)key->ndim, &part) ||
		    !sf_add(ncoords, part, &ncoords) || !sf_add(n, key->nchunks, &n))
			return no_memory(n, err);
	}
	g->nchunks = n;
	g->coords = sf_alloc_array(ncoords, sizeof(*g->coords));
	g->rank = sf_alloc_array(n, sizeof(*g->rank));
	g->item = sf_alloc_array(n, sizeof(*g->item));
	g->len = sf_alloc_array(n, sizeof(*g->len));
	return g->coords && g->rank && g->item && g->len ? 0 : no_memory(n, err);
}

static int malformed(uint32_t rank, const char *what, struct sf_error *err)
{
	return sf_fail(err, -EBADMSG, "rank %u: its plan is malformed: %s", rank, what);
}

/* @to: ndim numbers of the origin, then of the extent. False: not inside of the shape. */
static bool read_box(struct sf_rec *r, const struct sf_global_key *k, uint64_t *to)
{
	bool inside = true;

	for (unsigned d = 0; d < k->ndim; d++) {
		uint64_t origin = sf_rec_num(r), rest = sf_rec_num(r);

		inside &= rest <= k->shape[d] && origin <= rest;
		to[d] = origin;
		to[k->ndim + d] = k->shape[d] - rest;
	}
	return inside;
}

static int read_object(struct sf_plan_make *m, struct sf_rec *r, uint32_t rank, uint32_t key,
                       uint64_t *ret_len, struct sf_error *err)
{
	struct sf_plan_key *more = &m->more.at[key];
	uint64_t len = sf_rec_num(r);
	const uint8_t *hash = sf_rec_bytes(r, 8);

	if (!hash)
		return malformed(rank, "its objects end early", err);
	*ret_len = len;
	if (!more->filled) {
		more->len = len;
		more->hash = sf_le64(hash);
	} else if (more->len != len || more->hash != sf_le64(hash)) {
		return sf_fail(err, -EINVAL,
		               "object '%s': rank %u has %llu bytes with hash %016llx, "
		               "rank %u %llu bytes with %016llx",
		               sf_save_shown(m->key.at[key].key, m->key.at[key].key_len).at,
		               more->rank, (unsigned long long)more->len,
		               (unsigned long long)more->hash, rank, (unsigned long long)len,
		               (unsigned long long)sf_le64(hash));
	}
	return 0;
}

static int read_rank(struct sf_plan_make *m, uint32_t rank, struct sf_error *err)
{
	const struct sf_rec_parts *p = &m->part[rank];
	const struct sf_plan_structure *s = &m->structure.at[m->structure_of[rank]];
	struct sf_rec boxes = { .at = p->boxes, .end = p->boxes + p->boxes_len };
	struct sf_rec objects = { .at = p->objects, .end = p->objects + p->objects_len };
	struct sf_global_plan *g = m->g;

	for (uint32_t i = 0; i < s->nitems; i++) {
		uint32_t key = s->key[i];
		const struct sf_global_key *k = &m->key.at[key];
		struct sf_plan_key *more = &m->more.at[key];
		uint64_t c = k->first + more->filled;

		g->rank[c] = rank;
		g->item[c] = i;
		if (k->kind == SF_SAVE_OBJECT) {
			int r = read_object(m, &objects, rank, key, &g->len[c], err);
			if (r < 0)
				return r;
		} else {
			uint64_t *box = g->coords + k->coord + 2 * k->ndim * more->filled;
			if (!read_box(&boxes, k, box))
				return malformed(rank, "a box outside of its tensor", err);
			g->len[c] = sf_rec_num(&boxes);
		}
		more->filled++;
	}
	if (boxes.failed || boxes.at != boxes.end || objects.failed || objects.at != objects.end)
		return malformed(rank, "boxes that are not those of its items", err);
	return 0;
}

int sf_plan_read_boxes(struct sf_plan_make *m, struct sf_error *err)
{
	int r = make_columns(m, err);

	for (uint32_t rank = 0; rank < m->nranks && r >= 0; rank++)
		r = read_rank(m, rank, err);
	return r;
}
