#include "config.h"

#include <string.h>

#include "tree/tree_priv.h"

const char *const sf_control_names[SF_NCONTROL] = { "counters.json", "metrics" };

int sf_tree_live_text(struct sf_tree *t, sf_node n, const struct sf_counters *c, char **ret,
                      size_t *ret_len, struct sf_error *err)
{
	struct sf_budget_stat memory;
	int r;

	if (!sf_tree_valid(t, n) || sf_node_kind(n) != SF_T_CONTROL_FILE)
		return sf_fail(err, -ENOENT, "not a file of .shardfuse/");
	sf_budget_stat(sf_reader_io(t->r)->budget, &memory);
	r = sf_node_index(n) == 0 ? sf_counters_json(c, &memory, ret)
	                          : sf_counters_prometheus(c, &memory, ret);
	if (r < 0)
		return sf_fail(err, r, ".shardfuse/%s", sf_control_names[sf_node_index(n)]);
	*ret_len = strlen(*ret);
	return 0;
}
