#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "view/tree_priv.h"

const char *const sf_control_names[SF_NCONTROL] = { "counters.json", "metrics", "control",
	                                            "trace" };

int sf_tree_live_text(struct sf_tree *t, sf_node n, const struct sf_counters *c, char **ret,
                      size_t *ret_len, struct sf_error *err)
{
	int r = 0;

	if (!sf_tree_valid(t, n) || sf_node_kind(n) != SF_T_CONTROL_FILE)
		return sf_fail(err, -ENOENT, "not a file of .shardfuse/");
	switch (sf_node_index(n)) {
	case 0:
		r = sf_counters_json(c, ret);
		break;
	case 1:
		r = sf_counters_prometheus(c, ret);
		break;
	case 2:
		*ret = strdup(""); /* takes an ioctl, says nothing */
		r = *ret ? 0 : -ENOMEM;
		break;
	default:
		*ret = strdup("{\"note\": \"SF_TRACE=FILE in the environment of shardfuse writes a "
		              "line per source read there\"}\n");
		r = *ret ? 0 : -ENOMEM;
		break;
	}
	if (r < 0)
		return sf_fail(err, r, ".shardfuse/%s", sf_control_names[sf_node_index(n)]);
	*ret_len = strlen(*ret);
	return 0;
}
