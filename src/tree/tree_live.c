#include "config.h"

#include <stdatomic.h>
#include <string.h>

#include "store/cache.h"
#include "tree/tree_priv.h"

static const char *const names[SF_NCONTROL] = { "counters.json", "metrics" };

static bool is_dir(const struct sf_tree *t, sf_node n)
{
	(void)t;
	return sf_node_index(n) == 0;
}

static int lookup(const struct sf_tree *t, sf_node dir, const char *name, size_t len, sf_node *ret)
{
	(void)t;
	(void)dir;
	for (uint32_t i = 0; i < SF_NCONTROL; i++)
		if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) {
			*ret = sf_node_make(SF_T_CONTROL_FILE, 0, i);
			return 0;
		}
	return -ENOENT;
}

static int list(const struct sf_tree *t, sf_node dir, uint64_t cookie, sf_tree_each *each,
                void *arg)
{
	(void)t;
	(void)dir;
	for (uint64_t i = cookie; i < SF_NCONTROL; i++) {
		int r = each(arg, names[i], strlen(names[i]),
		             sf_node_make(SF_T_CONTROL_FILE, 0, (uint32_t)i), SF_NODE_FILE, i + 1);
		if (r)
			return r < 0 ? r : 0;
	}
	return 0;
}

const struct sf_kind sf_kind_control = {
	.dir = true, .valid = is_dir, .lookup = lookup, .readdir = list
};

static bool is_file(const struct sf_tree *t, sf_node n)
{
	(void)t;
	return sf_node_index(n) < SF_NCONTROL;
}

static uint64_t mix_name(const struct sf_tree *t, sf_node n, uint64_t h)
{
	(void)t;
	return sf_fnv1a(h, names[sf_node_index(n)], strlen(names[sf_node_index(n)]));
}

static void is_live(const struct sf_tree *t, sf_node n, struct sf_attr *ret)
{
	(void)t;
	(void)n;
	ret->live = true;
}

const struct sf_kind sf_kind_control_file = { .valid = is_file, .path = mix_name, .attr = is_live };

int sf_tree_live_text(struct sf_tree *t, sf_node n, const struct sf_counters *c, char **ret,
                      size_t *ret_len, struct sf_error *err)
{
	struct sf_io *io = sf_reader_io(t->r);
	struct sf_cache *cache = atomic_load(&io->cache);
	struct sf_cache_state state;
	struct sf_budget_stat memory;
	int r;

	if (sf_node_kind(n) == SF_T_RUN_FILE)
		return sf_tree_run_text(t, n, ret, ret_len, err);
	if (sf_node_kind(n) != SF_T_CONTROL_FILE || !is_file(t, n))
		return sf_fail(err, -ENOENT, "not a file of .shardfuse/");
	sf_budget_stat(io->budget, &memory);
	if (cache)
		sf_cache_state(cache, &state);
	r = (sf_node_index(n) == 0 ? sf_counters_json : sf_counters_prometheus)(
		c, &memory, cache ? &state : NULL, ret);
	if (r < 0)
		return sf_fail(err, r, ".shardfuse/%s", names[sf_node_index(n)]);
	*ret_len = strlen(*ret);
	return 0;
}
