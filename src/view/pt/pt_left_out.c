#include "config.h"

#include <stdatomic.h>

#include "base/log_limit.h"
#include "base/map.h"
#include "view/pt/pt.h"

void sf_pt_left_out(const struct sf_pt *pt, const struct sf_pt_leaf *l, const char *why)
{
	const struct sf_entry *e = sf_pt_entry(pt, l);
	struct sf_io *io = sf_reader_io(pt->f.reader);

	if (pt->again)
		return;
	atomic_fetch_add_explicit(&io->counters.errors, 1, memory_order_relaxed);
	sf_log_limited(io->failures, io->log, SF_LOG_WARN, sf_hash(e->name, e->len),
	               "left out of a .pt view: key '%.200s': %s", e->name, why);
}
