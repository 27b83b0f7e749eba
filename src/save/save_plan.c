#include "config.h"

#include "save/save_plan_priv.h"

static void release(struct sf_plan_make *m)
{
	sf_plan_keys_release(&m->more);
	sf_global_keys_release(&m->key);
	sf_map_release(&m->key_map);
	sf_map_release(&m->structure_map);
	sf_plan_structures_release(&m->structure);
	sf_arena_release(&m->scratch);
	sf_buf_release(&m->name);
	free(m->part);
	free(m->structure_of);
	free(m->load);
}

int sf_save_plan_make(const struct sf_save_record *record, uint32_t nranks, int dedup,
                      struct sf_global_plan *ret, struct sf_error *err)
{
	struct sf_global_plan g = { .nranks = nranks };
	struct sf_plan_make m = { .record = record, .nranks = nranks, .dedup = dedup, .g = &g };
	int r = 0;

	m.part = sf_alloc_array(nranks, sizeof(*m.part));
	m.structure_of = sf_alloc_array(nranks, sizeof(*m.structure_of));
	if (!m.part || !m.structure_of)
		r = sf_fail(err, -ENOMEM, "no memory for the plans of %u ranks", nranks);
	if (r >= 0)
		r = sf_plan_read_keys(&m, err);
	if (r >= 0)
		r = sf_plan_check_paths(&m, err);
	if (r >= 0)
		r = sf_plan_read_boxes(&m, err);
	if (r >= 0)
		r = sf_plan_assign(&m, err);
	g.nkeys = m.key.n;
	g.key = SF_STEAL(m.key.at);
	release(&m);
	if (r < 0) {
		sf_global_plan_release(&g);
		return r;
	}
	*ret = g;
	return 0;
}

void sf_global_plan_release(struct sf_global_plan *g)
{
	sf_arena_release(&g->arena);
	free(g->key);
	free(g->coords);
	free(g->rank);
	free(g->item);
	free(g->file);
	free(g->off);
	free(g->len);
	free(g->rank_items);
	free(g->bits_at);
	free(g->bits);
	*g = (struct sf_global_plan){ .nranks = 0 };
}
