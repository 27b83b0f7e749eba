/* What the saves of a keep have done so far, as a monitoring system collects it. */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/growing.h"
#include "base/mem.h"
#include "save/save_priv.h"

static const char *const phases[SF_SAVE_PHASES] = { "plan", "stage", "write", "commit" };

void sf_save_count(struct sf_save_counters *c, const char *phase, int64_t ms, uint64_t bytes,
                   bool ok)
{
	unsigned p = 0;

	while (p < SF_SAVE_PHASES && strcmp(phases[p], phase) != 0)
		p++;
	if (p == SF_SAVE_PHASES)
		return;
	atomic_fetch_add_explicit(ok ? &c->ended[p] : &c->failed[p], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->ms[p], ms > 0 ? (uint64_t)ms : 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->bytes[p], ok ? bytes : 0, memory_order_relaxed);
}

static void head(struct sf_buf *b, const char *name, const char *help)
{
	sf_buf_printf(b, "# HELP shardfuse_save_%s %s\n# TYPE shardfuse_save_%s counter\n", name,
	              help, name);
}

static uint64_t now(const _Atomic uint64_t *n)
{
	return atomic_load_explicit(n, memory_order_relaxed);
}

static void put(const struct sf_save_counters *c, struct sf_buf *b)
{
	head(b, "phases_total", "Phases of saves that ended, of this rank.");
	for (unsigned p = 0; p < SF_SAVE_PHASES; p++)
		sf_buf_printf(
			b,
			"shardfuse_save_phases_total{phase=\"%s\",outcome=\"ok\"} %" PRIu64 "\n"
			"shardfuse_save_phases_total{phase=\"%s\",outcome=\"failed\"} %" PRIu64
			"\n",
			phases[p], now(&c->ended[p]), phases[p], now(&c->failed[p]));
	head(b, "seconds_total", "Time that the phases took, waiting for other ranks included.");
	for (unsigned p = 0; p < SF_SAVE_PHASES; p++) {
		uint64_t ms = now(&c->ms[p]);
		sf_buf_printf(b, "shardfuse_save_seconds_total{phase=\"%s\"} %" PRIu64 ".%03u\n",
		              phases[p], ms / 1000, (unsigned)(ms % 1000));
	}
	head(b, "bytes_total",
	     "Bytes of phases that succeeded: of plan exchanged between ranks, else of this rank's "
	     "items.");
	for (unsigned p = 0; p < SF_SAVE_PHASES; p++)
		sf_buf_printf(b, "shardfuse_save_bytes_total{phase=\"%s\"} %" PRIu64 "\n",
		              phases[p], now(&c->bytes[p]));
}

int shardfuse_save_keep_counters(const struct shardfuse_save_keep *keep, char **ret,
                                 struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct sf_buf b = { .limit = 1 << 16 };
	int r;

	put(&keep->counters, &b);
	r = sf_buf_check(&b);
	if (r < 0) {
		sf_fail(&e, r, "no memory for the counters' text");
	} else {
		*ret = strdup(sf_buf_cstr(&b));
		if (!*ret)
			r = sf_fail(&e, -ENOMEM, "no memory for the counters' text");
	}
	sf_buf_release(&b);
	return sf_public_fail(err, &e, r);
}
