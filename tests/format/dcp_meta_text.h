/* A dcp_meta as text, for comparing two readers. */
#ifndef SF_TESTS_FORMAT_DCP_META_TEXT_H
#define SF_TESTS_FORMAT_DCP_META_TEXT_H

#include <inttypes.h>

#include "base/buf.h"
#include "base/path.h"
#include "format/dcp/dcp_meta.h"

static inline void dcp_text_item(const struct dcp_meta *m, const struct dcp_item *item,
                                 struct sf_buf *out)
{
	const struct dcp_place *p;

	if (item->place == DCP_NONE) {
		sf_buf_str(out, " none");
		return;
	}
	p = &m->place.at[item->place];
	sf_buf_byte(out, ' ');
	sf_escape_text(out, m->str.at[p->path].at, m->str.at[p->path].len);
	sf_buf_printf(out, "@%" PRIu64 "+%" PRIu64, item->off, item->len);
	for (uint32_t i = 0; i < p->transform && p->transform <= DCP_ZSTD_MAX; i++)
		sf_buf_str(out, " zstd");
	if (p->transform >= DCP_OTHER)
		sf_buf_printf(out, " (%s)", m->str.at[p->transform - DCP_OTHER].at);
}

static inline void dcp_meta_text(const struct dcp_meta *m, struct sf_buf *out)
{
	for (size_t i = 0; i < m->key.n; i++) {
		const struct dcp_str *name = &m->str.at[m->key.at[i].name];
		sf_escape_text(out, name->at, name->len);
		if (m->key.at[i].tensor != DCP_NONE) {
			const struct dcp_tensor *t = &m->tensor.at[m->key.at[i].tensor];
			sf_buf_printf(out, " %s [", sf_dtype_info((enum sf_dtype)t->dtype)->torch);
			for (unsigned k = 0; k < t->ndim; k++)
				sf_buf_printf(out, " %" PRIu64, m->dims.at[t->shape0 + k]);
			sf_buf_str(out, t->flat ? " ] of [" : " ]");
			for (unsigned k = 0; t->flat && k < t->flat_ndim; k++)
				sf_buf_printf(out, " %" PRIu64, m->dims.at[t->flat_shape0 + k]);
			sf_buf_str(out, t->flat ? " ]\n" : "\n");
			for (uint32_t c = 0; c < t->nchunks; c++) {
				const struct dcp_run *run;
				uint32_t at = dcp_meta_chunk_at(m, t, c, &run);
				for (unsigned k = 0; k < 2u * run->ndim; k++)
					sf_buf_printf(out, " %" PRIu64,
					              dcp_coord(m, run, at - run->chunk0, k));
				dcp_text_item(m, &m->item.at[at], out);
				sf_buf_byte(out, '\n');
			}
		} else {
			sf_buf_str(out, " bytes\n");
		}
	}
	for (size_t i = 0; i < m->bytes.n; i++) {
		sf_escape_text(out, m->str.at[m->bytes.at[i].name].at,
		               m->str.at[m->bytes.at[i].name].len);
		dcp_text_item(m, &m->bytes.at[i].item, out);
		sf_buf_byte(out, '\n');
	}
	for (size_t i = 0; i < m->path.n; i++) {
		sf_escape_text(out, m->str.at[m->path.at[i].key].at,
		               m->str.at[m->path.at[i].key].len);
		sf_buf_str(out, " =");
		for (uint32_t k = 0; k < m->path.at[i].n; k++) {
			const struct dcp_elem *e = &m->elem.at[m->path.at[i].elem0 + k];
			sf_buf_str(out, e->is_int ? " #" : " ");
			sf_escape_text(out, m->str.at[e->text].at, m->str.at[e->text].len);
		}
		sf_buf_byte(out, '\n');
	}
	sf_buf_printf(out, "stray %" PRIu64 " no_paths %d\n", m->stray, m->no_paths);
}

static inline void dcp_facts_text(const struct dcp_meta *m, struct sf_buf *out)
{
	sf_buf_printf(out, "storage_meta %d modules %d props %d shard %d olmo %d version %s\n",
	              m->facts.has_storage_meta, m->facts.has_modules, m->facts.props_in_checkpoint,
	              m->facts.shard_package, m->facts.olmo,
	              m->facts.version == DCP_NONE ? "-" : m->str.at[m->facts.version].at);
	if (m->facts.mcore_class || m->facts.mcore_data)
		sf_buf_printf(out, "mcore %d %d\n", m->facts.mcore_class, m->facts.mcore_data);
}

#endif
