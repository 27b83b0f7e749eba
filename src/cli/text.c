#include "config.h"
#include <inttypes.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/path.h"
#include "cli/text.h"

void sf_put_name(FILE *f, const char *s, size_t len)
{
	if (!isatty(fileno(f))) {
		fwrite(s, 1, len, f);
		return;
	}
	struct sf_buf b = { 0 };
	sf_escape_text(&b, s, len);
	fputs(sf_buf_cstr(&b), f);
	sf_buf_release(&b);
}

void sf_put_json(FILE *f, const char *s, size_t len)
{
	struct sf_buf b = { 0 };
	sf_escape_json(&b, s, len);
	fputs(sf_buf_cstr(&b), f);
	sf_buf_release(&b);
}

const char *sf_human_size(uint64_t bytes, char buf[32])
{
	static const char *const units[] = { "B", "KB", "MB", "GB", "TB", "PB", "EB" };
	double v = (double)bytes;
	size_t u = 0;

	for (; v >= 999.5 && u < 6; u++)
		v /= 1000;
	if (u == 0)
		snprintf(buf, 32, "%" PRIu64 " B", bytes);
	else
		snprintf(buf, 32, v < 9.95 ? "%.1f %s" : "%.0f %s", v, units[u]);
	return buf;
}

const char *sf_human_count(uint64_t n, char buf[32])
{
	static const char *const units[] = { "", " K", " M", " B", " T" };
	double v = (double)n;
	size_t u = 0;

	for (; v >= 999.95 && u < 4; u++)
		v /= 1000;
	if (u == 0)
		snprintf(buf, 32, "%" PRIu64, n);
	else
		snprintf(buf, 32, v < 9.995 ? "%.2f%s" : "%.1f%s", v, units[u]);
	return buf;
}

void sf_shape_text(struct sf_buf *out, const uint64_t *shape, unsigned ndim)
{
	sf_buf_byte(out, '[');
	for (unsigned d = 0; d < ndim; d++)
		sf_buf_printf(out, d ? ", %" PRIu64 : "%" PRIu64, shape[d]);
	sf_buf_byte(out, ']');
}

const char *sf_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

const char *sf_time_text(int64_t ns, char buf[40])
{
	time_t t = (time_t)(ns / 1000000000);
	struct tm tm;

	if (!localtime_r(&t, &tm) || !strftime(buf, 40, "%Y-%m-%d %H:%M:%S %z", &tm))
		buf[0] = 0;
	return buf;
}

char *sf_cli_text(const char *fmt, ...)
{
	va_list ap;
	char *out = NULL;

	va_start(ap, fmt);
	if (vasprintf(&out, fmt, ap) < 0)
		out = NULL;
	va_end(ap);
	return out;
}
