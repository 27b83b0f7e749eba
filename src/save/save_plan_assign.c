#include "config.h"

#include <string.h>

#include "save/save_plan_priv.h"

#define NONE UINT32_MAX

/* The boxes of a key, as they were read: candidate c of the key is the columns' first + c. */
struct group {
	uint64_t weight;      /* of the box (save_plan_cover.c) */
	uint32_t first, last; /* candidates: links of a chain */
	uint32_t chosen;
};

struct assign {
	struct sf_plan_make *m;
	struct sf_error *err;
	struct group *group;   /* as many as the most boxes of a key */
	uint32_t *next;        /* of a candidate: with the same box */
	uint32_t *slot;        /* hash table of groups, of the power of two that fits */
	uint64_t chunk, coord; /* written so far */
};

static bool is_empty(const uint64_t *extent, unsigned ndim)
{
	for (unsigned d = 0; d < ndim; d++)
		if (!extent[d])
			return true;
	return false;
}

static const uint64_t *box_of(const struct assign *a, const struct sf_global_key *k, uint64_t c)
{
	return a->m->g->coords + k->coord + 2 * k->ndim * c;
}

static size_t slots_for(uint64_t n)
{
	size_t size = 4;

	while (size < 2 * n)
		size *= 2;
	return size;
}

/* Boxes that are the same into one group, groups in order of first appearance. Returns their number,
 * *ret_weight is that of all of them. */
static uint32_t make_groups(struct assign *a, const struct sf_global_key *k, uint64_t volume,
                            uint64_t *ret_weight)
{
	size_t mask = slots_for(k->nchunks) - 1;
	uint32_t n = 0;

	*ret_weight = 0;
	memset(a->slot, 0xff, (mask + 1) * sizeof(*a->slot));
	for (uint32_t c = 0; c < k->nchunks; c++) {
		const uint64_t *box = box_of(a, k, c);
		uint64_t w;
		size_t s;

		a->next[c] = NONE;
		if (volume && is_empty(box + k->ndim, k->ndim))
			continue;
		w = sf_cover_weight(k->shape, box, box + k->ndim, k->ndim);
		for (s = w & mask; a->slot[s] != NONE; s = (s + 1) & mask) {
			struct group *g = &a->group[a->slot[s]];
			if (g->weight == w &&
			    memcmp(box, box_of(a, k, g->first), 2 * k->ndim * sizeof(*box)) == 0) {
				a->next[g->last] = c;
				g->last = c;
				break;
			}
		}
		if (a->slot[s] != NONE)
			continue;
		a->slot[s] = n;
		a->group[n++] = (struct group){ .weight = w, .first = c, .last = c };
		*ret_weight = sf_cover_sum(*ret_weight, w);
	}
	return n;
}

/* ---- what does not tile ---- */

/* The box that ends where the hole begins: whoever wrote it knows what comes next. */
static uint64_t box_before(const uint64_t *coords, uint64_t n, unsigned ndim, const uint64_t *at)
{
	for (unsigned d = ndim; d-- > 0;)
		for (uint64_t i = 0; at[d] && i < n; i++) {
			const uint64_t *o = coords + 2 * ndim * i, *e = o + ndim;
			bool inside = true;
			for (unsigned j = 0; j < ndim && inside; j++) {
				uint64_t x = at[j] - (j == d);
				inside = x >= o[j] && x - o[j] < e[j];
			}
			if (inside)
				return i;
		}
	return n;
}

static int hole(struct assign *a, const struct sf_global_key *k, uint32_t n, const uint64_t *coords,
                const uint64_t *at)
{
	const uint32_t *rank = a->m->g->rank + k->first;
	uint64_t before = box_before(coords, n, k->ndim, at);
	uint32_t last = rank[k->nchunks - 1];
	char point[200], box[200], whole[200];

	sf_plan_point_text(point, sizeof(point), at, k->ndim);
	sf_plan_point_text(whole, sizeof(whole), k->shape, k->ndim);
	if (before < n) {
		sf_plan_box_text(box, sizeof(box), coords + 2 * k->ndim * before, k->ndim);
		return sf_fail(a->err, -EINVAL,
		               "tensor '%s': no rank has element %s of %s; rank %u's box %s "
		               "ends before it, ranks %u to %u have boxes of it",
		               sf_save_shown(k->key, k->key_len).at, point, whole,
		               rank[a->group[before].first], box, rank[0], last);
	}
	return sf_fail(a->err, -EINVAL,
	               "tensor '%s': no rank has element %s of %s; ranks %u to %u have boxes "
	               "of it",
	               sf_save_shown(k->key, k->key_len).at, point, whole, rank[0], last);
}

static int not_tiled(struct assign *a, const struct sf_global_key *k, uint32_t n)
{
	uint64_t at[SHARDFUSE_DIMS_MAX], x = 0, y = 0;
	uint64_t *coords = sf_alloc_array(n, 2 * (size_t)k->ndim * sizeof(*coords));
	char one[200], other[200], point[200];
	int r = -ENOMEM;

	for (uint32_t i = 0; coords && i < n; i++)
		memcpy(coords + 2 * (size_t)k->ndim * i, box_of(a, k, a->group[i].first),
		       2 * (size_t)k->ndim * sizeof(*coords));
	if (coords)
		r = sf_cover_find(k->shape, k->ndim, coords, n, at, &x, &y);
	if (r < 0) {
		sf_fail(a->err, r, "no memory to check tensor '%s'",
		        sf_save_shown(k->key, k->key_len).at);
	} else if (r < 2) {
		r = hole(a, k, n, coords, at);
	} else {
		const uint32_t *rank = a->m->g->rank + k->first;
		sf_plan_box_text(one, sizeof(one), coords + 2 * k->ndim * x, k->ndim);
		sf_plan_box_text(other, sizeof(other), coords + 2 * k->ndim * y, k->ndim);
		sf_plan_point_text(point, sizeof(point), at, k->ndim);
		r = sf_fail(a->err, -EINVAL,
		            "tensor '%s': rank %u's box %s and rank %u's %s overlap at "
		            "element %s",
		            sf_save_shown(k->key, k->key_len).at, rank[a->group[x].first], one,
		            rank[a->group[y].first], other, point);
	}
	free(coords);
	return r;
}

/* ---- who writes ---- */

static void choose(struct assign *a, const struct sf_global_key *k, struct group *g)
{
	const uint32_t *rank = a->m->g->rank + k->first;
	const uint64_t *len = a->m->g->len + k->first;
	uint64_t *load = a->m->load;

	g->chosen = g->first; /* ranks come in order */
	if (a->m->dedup == SHARDFUSE_DEDUP_BALANCED)
		for (uint32_t c = a->next[g->first]; c != NONE; c = a->next[c])
			if (load[rank[c]] < load[rank[g->chosen]])
				g->chosen = c;
	load[rank[g->chosen]] += len[g->chosen];
}

static int by_chosen(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	return (x->chosen > y->chosen) - (x->chosen < y->chosen);
}

/* The chosen ones, in order of ranks, to where the key's chunks are from now on: not behind where they
 * were, and nothing is written over that is still to be read. */
static void keep_chosen(struct assign *a, struct sf_global_key *k, uint32_t n)
{
	struct sf_global_plan *g = a->m->g;
	size_t width = 2 * (size_t)k->ndim;

	for (uint32_t i = 1; i < n; i++)
		if (a->group[i].chosen < a->group[i - 1].chosen) {
			qsort(a->group, n, sizeof(*a->group), by_chosen);
			break;
		}
	for (uint32_t i = 0; i < n; i++) {
		uint64_t from = k->first + a->group[i].chosen, to = a->chunk + i;

		g->rank[to] = g->rank[from];
		g->item[to] = g->item[from];
		g->len[to] = g->len[from];
		memmove(g->coords + a->coord + width * i, box_of(a, k, a->group[i].chosen),
		        width * sizeof(*g->coords));
	}
	k->first = a->chunk;
	k->coord = a->coord;
	k->nchunks = n;
	a->chunk += n;
	a->coord += width * n;
}

static int assign_key(struct assign *a, struct sf_global_key *k, uint64_t volume)
{
	uint64_t weight;
	uint32_t n;

	if (k->kind == SF_SAVE_OBJECT) { /* equal on all ranks: one group, no box */
		for (uint32_t c = 0; c < k->nchunks; c++)
			a->next[c] = c + 1 < k->nchunks ? c + 1 : NONE;
		a->group[0] = (struct group){ .first = 0 };
		n = 1;
	} else {
		n = make_groups(a, k, volume, &weight);
		if (!volume)
			n = SF_MIN(n, 1u); /* nothing to cover; one chunk so that it is there */
		else if (weight != 1)
			return not_tiled(a, k, n);
	}
	for (uint32_t i = 0; i < n; i++)
		choose(a, k, &a->group[i]);
	keep_chosen(a, k, n);
	return 0;
}

/* ---- which items ---- */

static int set_bits(struct sf_plan_make *m, struct sf_error *err)
{
	struct sf_global_plan *g = m->g;
	uint64_t at = 0;

	g->rank_items = sf_alloc_array(m->nranks, sizeof(*g->rank_items));
	g->bits_at = sf_alloc_array(m->nranks, sizeof(*g->bits_at));
	if (!g->rank_items || !g->bits_at)
		return sf_fail(err, -ENOMEM, "no memory for the plan of %u ranks", m->nranks);
	for (uint32_t r = 0; r < m->nranks; r++) {
		g->rank_items[r] = m->part[r].nitems;
		g->bits_at[r] = at;
		at += ((uint64_t)m->part[r].nitems + 7) / 8;
	}
	g->bits = calloc(at ? at : 1, 1);
	if (!g->bits)
		return sf_fail(err, -ENOMEM, "no memory for the plan of %u ranks", m->nranks);
	g->nbits_bytes = at;
	for (uint64_t c = 0; c < g->nchunks; c++)
		g->bits[g->bits_at[g->rank[c]] + g->item[c] / 8] |= (uint8_t)(1u << g->item[c] % 8);
	return 0;
}

/* The keys of objects, by structure. */
static int keep_objects(struct sf_plan_make *m, struct sf_error *err)
{
	struct sf_global_plan *g = m->g;

	g->objects = sf_arena_calloc(&g->arena, m->structure.n, sizeof(*g->objects));
	g->objects_of = sf_arena_calloc(&g->arena, m->nranks, sizeof(*g->objects_of));
	if (!g->objects || !g->objects_of)
		return sf_fail(err, -ENOMEM, "no memory for the plan of %u ranks", m->nranks);
	memcpy(g->objects_of, m->structure_of, m->nranks * sizeof(*g->objects_of));
	for (size_t i = 0; i < m->structure.n; i++) {
		const struct sf_plan_structure *s = &m->structure.at[i];
		struct sf_global_objects *o = &g->objects[i];
		uint32_t n = 0;
		for (uint32_t k = 0; k < s->nitems; k++)
			n += m->key.at[s->key[k]].kind == SF_SAVE_OBJECT;
		o->key = sf_arena_calloc(&g->arena, n, sizeof(*o->key));
		if (!o->key)
			return sf_fail(err, -ENOMEM, "no memory for the plan of %u ranks",
			               m->nranks);
		for (uint32_t k = 0; k < s->nitems; k++)
			if (m->key.at[s->key[k]].kind == SF_SAVE_OBJECT)
				o->key[o->n++] = s->key[k];
	}
	return 0;
}

static void shrink(void **at, uint64_t n, size_t size)
{
	void *less = realloc(*at, n ? n * size : 1);

	if (less)
		*at = less;
}

static void shrink_columns(struct sf_global_plan *g, uint64_t ncoords)
{
	shrink((void **)&g->coords, ncoords, sizeof(*g->coords));
	shrink((void **)&g->rank, g->nchunks, sizeof(*g->rank));
	shrink((void **)&g->item, g->nchunks, sizeof(*g->item));
	shrink((void **)&g->len, g->nchunks, sizeof(*g->len));
}

int sf_plan_assign(struct sf_plan_make *m, struct sf_error *err)
{
	struct assign a = { .m = m, .err = err };
	uint64_t most = 1;
	int r = 0;

	for (size_t k = 0; k < m->key.n; k++)
		most = SF_MAX(most, m->key.at[k].nchunks);
	if (most >= NONE)
		return sf_fail(err, -E2BIG, "%llu boxes of one tensor, the limit is %u",
		               (unsigned long long)most, NONE - 1);
	m->load = calloc(m->nranks, sizeof(*m->load));
	a.group = sf_alloc_array(most, sizeof(*a.group));
	a.next = sf_alloc_array(most, sizeof(*a.next));
	a.slot = sf_alloc_array(slots_for(most), sizeof(*a.slot));
	if (!m->load || !a.group || !a.next || !a.slot)
		r = sf_fail(err, -ENOMEM, "no memory for the plan of %u ranks", m->nranks);
	for (size_t k = 0; k < m->key.n && r >= 0; k++)
		r = assign_key(&a, &m->key.at[k], m->more.at[k].volume);
	free(a.group);
	free(a.next);
	free(a.slot);
	if (r < 0)
		return r;
	m->g->nchunks = a.chunk;
	shrink_columns(m->g, a.coord);
	r = keep_objects(m, err);
	return r < 0 ? r : set_bits(m, err);
}
