#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "format/dcp/dcp_scan_state.h"

/* What a class is to us, and what its module tells about the writer. */

static bool str_is(const struct dcp_scan *s, uint32_t str, const char *want)
{
	const struct dcp_str *e = &s->m->str.at[str];
	size_t n = strlen(want);

	return e->len == n && memcmp(e->at, want, n) == 0;
}

/* What a class is to us. By name and package, for the package moved and others bring their own
 * _StorageInfo. */
static void classify(struct dcp_scan *s, struct dcp_global *g)
{
	static const struct {
		const char *name;
		uint8_t cls;
	} known[] = {
		{ "ChunkStorageMetadata", C_CHUNK }, { "MetadataIndex", C_INDEX },
		{ "_StorageInfo", C_INFO },          { "BytesStorageMetadata", C_BYTES },
		{ "TensorProperties", C_PROPS },
	};
	const struct dcp_str *module = &s->m->str.at[g->module], *name = &s->m->str.at[g->name];
	static const char package[] = "torch.distributed.",
			  shard[] = "torch.distributed._shard.checkpoint.";

	g->cls = C_OTHER;
	g->dtype = SF_DTYPE_NONE;
	if (str_is(s, g->module, "torch")) {
		g->dtype = (uint8_t)sf_dtype_by_torch(name->at, name->len);
		if (str_is(s, g->name, "Size"))
			g->cls = C_SIZE;
		else if (g->dtype != SF_DTYPE_NONE)
			g->cls = C_DTYPE;
		return;
	}
	if (str_is(s, g->module, "collections") && str_is(s, g->name, "OrderedDict"))
		g->cls = C_DICT;
	for (size_t i = 0; i < SF_ARRAY_LEN(known); i++)
		if (str_is(s, g->name, known[i].name))
			g->cls = known[i].cls;
	if (module->len >= sizeof(package) - 1 &&
	    memcmp(module->at, package, sizeof(package) - 1) == 0) {
		if (module->len >= sizeof(shard) - 1 &&
		    memcmp(module->at, shard, sizeof(shard) - 1) == 0)
			s->m->facts.shard_package = true;
		if (g->cls == C_PROPS &&
		    str_is(s, g->module, "torch.distributed.checkpoint.metadata"))
			s->m->facts.props_in_checkpoint = true;
	} else if (g->cls == C_INFO && module->len >= 9 &&
	           memcmp(module->at, "olmo_core", 9) == 0) {
		s->m->facts.olmo = true;
	}
}

int dcp_scan_push_global(struct dcp_scan *s, uint32_t module, uint32_t name)
{
	struct dcp_global g = { .module = module, .name = name };

	/* Equal ones may repeat (a pickle without memo): the last is looked at first, a few are
	 * searched. */
	for (size_t i = s->global.n, n = 0; i > 0 && n < 64; n++) {
		i--;
		if (s->global.at[i].module == module && s->global.at[i].name == name)
			return dcp_scan_push(s, dcp_v(V_GLOBAL, i));
	}
	if (s->global.n >= DCP_OBJECTS_MAX)
		return DCP_UNKNOWN;
	classify(s, &g);
	if (dcp_globals_push(&s->global, g) < 0)
		return dcp_scan_no_memory(s);
	return dcp_scan_push(s, dcp_v(V_GLOBAL, s->global.n - 1));
}
