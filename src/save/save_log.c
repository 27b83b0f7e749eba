/* A line of JSON for each phase of a save. */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/path.h"
#include "save/save_priv.h"

void sf_save_log(const struct shardfuse_save *s, const char *phase, int64_t began_ms,
                 uint64_t bytes, int r, const struct sf_error *err)
{
	struct sf_buf b = { .limit = 1 << 16 };
	const int64_t ms = sf_now_ms() - began_ms;

	sf_save_count(&s->keep->counters, phase, ms, bytes, r >= 0);
	if (!s->opt.log)
		return;
	sf_buf_printf(&b, "{\"phase\": \"%s\", \"rank\": %u, \"target\": ", phase, s->comm.rank);
	sf_escape_json(&b, s->target, strlen(s->target));
	sf_buf_printf(&b, ", \"ms\": %lld, \"bytes\": %llu, \"outcome\": ", (long long)ms,
	              (unsigned long long)bytes);
	if (r >= 0)
		sf_buf_str(&b, "\"ok\"");
	else
		sf_escape_json(&b, err->msg, strlen(err->msg));
	sf_buf_str(&b, "}");
	if (sf_buf_check(&b) == 0)
		s->opt.log(s->opt.log_arg, sf_buf_cstr(&b));
	sf_buf_release(&b);
}
