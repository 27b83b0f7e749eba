#include "config.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/path.h"
#include "store/outage.h"
#include "tree/tree.h"

static const char *const kinds[SF_FETCH_NKINDS] = { "metadata", "header", "object", "tensor" };

static uint64_t load(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

static int finish(struct sf_buf *b, char **ret)
{
	int r;

	sf_buf_byte(b, 0);
	r = sf_buf_check(b);
	if (r < 0)
		sf_buf_release(b);
	else
		*ret = (char *)b->at;
	return r;
}

static void put_kinds(struct sf_buf *b, const char *name, const _Atomic uint64_t *at)
{
	sf_buf_printf(b, " \"%s\": {", name);
	for (int i = 0; i < SF_FETCH_NKINDS; i++)
		sf_buf_printf(b, "%s\"%s\": %" PRIu64, i ? ", " : "", kinds[i], load(&at[i]));
	sf_buf_str(b, "},\n");
}

/* Who counts: a mount's process, its options, for how long. */
static void put_mount(struct sf_buf *b, const struct sf_counters *c)
{
	struct timespec now;

	if (!c->began_ns)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	int64_t s = now.tv_sec - c->began_ns / 1000000000;
	sf_buf_printf(b, " \"pid\": %d,\n \"uptime_s\": %" PRId64 ",\n \"given\": ", (int)getpid(),
	              s > 0 ? s : 0);
	sf_escape_json(b, c->given ? c->given : "", c->given ? strlen(c->given) : 0);
	sf_buf_str(b, ",\n");
}

/* Of its disk: as it was when it was looked at last. */
static void put_cache_disk(struct sf_buf *b, const struct sf_cache_state *s)
{
	sf_buf_str(b, ", \"dir\": ");
	sf_escape_json(b, s->dir, strlen(s->dir));
	sf_buf_printf(b, ", \"limit\": %" PRIu64 ", \"kept\": %" PRIu64 ", \"free\": %" PRIu64,
	              s->limit, s->kept, s->space.free);
	sf_buf_str(b, ", \"keeps_nothing\": ");
	if (*s->why)
		sf_escape_json(b, s->why, strlen(s->why));
	else
		sf_buf_str(b, "null");
}

static void put_cache(struct sf_buf *b, const struct sf_counters *c,
                      const struct sf_cache_state *disk)
{
	if (!atomic_load_explicit(&c->cached, memory_order_relaxed))
		return;
	sf_buf_printf(b,
	              " \"cache\": {\"hits\": %" PRIu64 ", \"misses\": %" PRIu64
	              ", \"asked_bytes\": %" PRIu64 ", \"hit_bytes\": %" PRIu64
	              ", \"fetched_requests\": %" PRIu64 ", \"fetched_bytes\": %" PRIu64,
	              load(&c->cache_hits), load(&c->cache_misses), load(&c->cache_asked_bytes),
	              load(&c->cache_hit_bytes), load(&c->cache_fetched_requests),
	              load(&c->cache_fetched_bytes));
	if (disk)
		put_cache_disk(b, disk);
	sf_buf_str(b, "},\n");
}

/* Servers that do not answer, and how many requests wait for them. */
static void put_away(struct sf_buf *b, const struct sf_counters *c)
{
	const char *sep = " \"away\": [";
	struct sf_outage_look look;

	for (struct sf_outage *o = sf_outage_first(c); o; o = sf_outage_next(o)) {
		sf_outage_look(o, &look);
		if (!look.away)
			continue;
		sf_buf_printf(b, "%s{\"server\": ", sep);
		sf_escape_json(b, look.server, strlen(look.server));
		sf_buf_printf(b, ", \"for_s\": %" PRIu64 ", \"waiting\": %" PRIu64 ", \"error\": ",
		              look.for_s, look.waits);
		sf_escape_json(b, look.why, strlen(look.why));
		sf_buf_byte(b, '}');
		sep = ", ";
	}
	if (*sep == ',')
		sf_buf_str(b, "],\n");
}

static void put_prefetch(struct sf_buf *b, const struct sf_counters *c)
{
	uint64_t total = load(&c->prefetch_total);

	if (total)
		sf_buf_printf(b,
		              " \"prefetch\": {\"bytes\": %" PRIu64 ", \"total\": %" PRIu64 "},\n",
		              load(&c->prefetched), total);
}

static void put_hedged(struct sf_buf *b, const struct sf_counters *c)
{
	if (load(&c->hedged_requests))
		sf_buf_printf(b,
		              " \"hedged\": {\"requests\": %" PRIu64 ", \"bytes\": %" PRIu64
		              ", \"won\": %" PRIu64 "},\n",
		              load(&c->hedged_requests), load(&c->hedged_bytes),
		              load(&c->hedged_won));
}

int sf_counters_json(const struct sf_counters *c, const struct sf_budget_stat *memory,
                     const struct sf_cache_state *cache, char **ret)
{
	struct sf_buf b = { 0 };

	sf_buf_str(&b, "{\"schema\": 1,\n");
	put_mount(&b, c);
	sf_buf_printf(&b, " \"read_requests\": %" PRIu64 ",\n \"read_bytes\": %" PRIu64 ",\n",
	              load(&c->read_requests), load(&c->read_bytes));
	put_kinds(&b, "fetched_requests", c->fetched_requests);
	put_kinds(&b, "fetched_bytes", c->fetched_bytes);
	put_hedged(&b, c);
	sf_buf_printf(&b, " \"retried\": %" PRIu64 ",\n", load(&c->retried));
	put_away(&b, c);
	sf_buf_printf(&b,
	              " \"errors\": %" PRIu64 ",\n \"stale\": %" PRIu64 ",\n \"parked\": %" PRIu64
	              ",\n",
	              load(&c->errors), load(&c->stale), load(&c->parked));
	put_cache(&b, c, cache);
	put_prefetch(&b, c);
	sf_buf_printf(&b,
	              " \"memory\": {\"limit\": %" PRIu64 ", \"held\": %" PRIu64
	              ", \"most\": %" PRIu64 ", \"waits\": %" PRIu64 ", \"waiting\": %" PRIu64
	              "}}\n",
	              memory->limit, memory->held, memory->most, memory->waits, memory->waiting);
	return finish(&b, ret);
}

static void put_metric(struct sf_buf *b, const char *name, const char *help,
                       const _Atomic uint64_t *at)
{
	sf_buf_printf(b,
	              "# HELP shardfuse_%s_total %s\n# TYPE shardfuse_%s_total "
	              "counter\nshardfuse_%s_total %" PRIu64 "\n",
	              name, help, name, name, load(at));
}

static void put_metric_kinds(struct sf_buf *b, const char *name, const char *help,
                             const _Atomic uint64_t *at)
{
	sf_buf_printf(b, "# HELP shardfuse_%s_total %s\n# TYPE shardfuse_%s_total counter\n", name,
	              help, name);
	for (int i = 0; i < SF_FETCH_NKINDS; i++)
		sf_buf_printf(b, "shardfuse_%s_total{kind=\"%s\"} %" PRIu64 "\n", name, kinds[i],
		              load(&at[i]));
}

static void put_gauge(struct sf_buf *b, const char *name, const char *help, uint64_t value)
{
	sf_buf_printf(
		b, "# HELP shardfuse_%s %s\n# TYPE shardfuse_%s gauge\nshardfuse_%s %" PRIu64 "\n",
		name, help, name, name, value);
}

static void put_away_metrics(struct sf_buf *b, const struct sf_counters *c)
{
	struct sf_outage_look look;
	uint64_t away = 0, waits = 0;

	for (struct sf_outage *o = sf_outage_first(c); o; o = sf_outage_next(o)) {
		sf_outage_look(o, &look);
		away += look.away;
		waits += look.away ? look.waits : 0;
	}
	put_gauge(b, "servers_away", "Servers that do not answer.", away);
	put_gauge(b, "requests_waiting", "Requests that wait for them.", waits);
}

static void put_cache_metrics(struct sf_buf *b, const struct sf_counters *c,
                              const struct sf_cache_state *disk)
{
	if (!atomic_load_explicit(&c->cached, memory_order_relaxed))
		return;
	put_metric(b, "cache_hits", "Reads of remote files that the cache answered.",
	           &c->cache_hits);
	put_metric(b, "cache_misses", "Reads of remote files that had to fetch.", &c->cache_misses);
	put_metric(b, "cache_asked_bytes", "Bytes of both.", &c->cache_asked_bytes);
	put_metric(b, "cache_hit_bytes", "Bytes of them that the cache had.", &c->cache_hit_bytes);
	put_metric(b, "cache_fetched_requests", "Requests to servers for the others.",
	           &c->cache_fetched_requests);
	put_metric(b, "cache_fetched_bytes", "Bytes of those requests.", &c->cache_fetched_bytes);
	if (!disk)
		return;
	put_gauge(b, "cache_limit_bytes", "What may be kept, --cache-size.", disk->limit);
	put_gauge(b, "cache_kept_bytes", "What is.", disk->kept);
	put_gauge(b, "cache_free_bytes", "Free on the cache's disk.", disk->space.free);
	put_gauge(b, "cache_keeps_nothing", "1: the disk is full, read-only or fails.",
	          *disk->why != 0);
}

int sf_counters_prometheus(const struct sf_counters *c, const struct sf_budget_stat *memory,
                           const struct sf_cache_state *cache, char **ret)
{
	const _Atomic uint64_t waits = memory->waits;
	struct sf_buf b = { 0 };

	put_metric(&b, "read_requests", "Reads of virtual files.", &c->read_requests);
	put_metric(&b, "read_bytes", "Bytes of virtual files that were read.", &c->read_bytes);
	put_metric_kinds(&b, "fetched_requests", "Reads of stored files, requests to servers.",
	                 c->fetched_requests);
	put_metric(&b, "hedged_requests", "Requests that were slow and made a second time.",
	           &c->hedged_requests);
	put_metric(&b, "hedged_bytes", "Bytes of them.", &c->hedged_bytes);
	put_metric(&b, "hedged_won", "Second requests that were answered first.", &c->hedged_won);
	put_metric_kinds(&b, "fetched_bytes", "Bytes of them.", c->fetched_bytes);
	put_metric(&b, "retried_requests", "Requests to servers that were made again.",
	           &c->retried);
	put_away_metrics(&b, c);
	put_metric(&b, "errors", "Reads, opens and sizes that failed.", &c->errors);
	put_metric(&b, "stale", "Those of them for which a stored file had changed.", &c->stale);
	put_metric(&b, "parked", "Reads that had to wait for a store.", &c->parked);
	put_cache_metrics(&b, c, cache);
	if (load(&c->prefetch_total)) {
		put_gauge(&b, "prefetch_bytes", "Bytes that -o prefetch has read.",
		          load(&c->prefetched));
		put_gauge(&b, "prefetch_total_bytes", "Bytes that it is to read.",
		          load(&c->prefetch_total));
	}
	put_metric(&b, "memory_waits", "What had to wait its turn for memory.", &waits);
	put_gauge(&b, "memory_limit_bytes", "The budget, --memory.", memory->limit);
	put_gauge(&b, "memory_held_bytes", "Of it, what is held now.", memory->held);
	put_gauge(&b, "memory_waiting", "Who waits for memory now.", memory->waiting);
	put_gauge(&b, "memory_most_bytes", "What was held at once so far.", memory->most);
	return finish(&b, ret);
}
