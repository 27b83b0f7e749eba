#include "config.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"

#define LINE_MAX_BYTES 2048 /* longer lines are cut; no allocation, so -ENOMEM can be logged */

void sf_log(const struct sf_log *log, enum sf_log_level level, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	va_list ap;

	if (!log || !log->write || level > log->level)
		return;
	va_start(ap, fmt);
	if (vsnprintf(line, sizeof(line), fmt, ap) < 0)
		line[0] = '\0';
	va_end(ap);
	log->write(log->arg, level, line);
}
