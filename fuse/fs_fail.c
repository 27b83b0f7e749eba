#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "base/log_limit.h"
#include "base/map.h"
#include "fuse/fs_ops.h"

int sf_fs_errno(int code)
{
	switch (code) {
	case -EBADMSG:
	case -ENOTSUP:
	case -E2BIG:
	case -ETIMEDOUT:
	case -EFAULT:
		return EIO;
	case -ECANCELED:
		return EINTR;
	default:
		return code < 0 ? -code : 0;
	}
}

void sf_fs_count_failure(struct sf_fs *fs, int code)
{
	struct sf_counters *c = &fs->io->counters;

	if (code >= 0 || code == -ECANCELED) /* the client's own wish */
		return;
	atomic_fetch_add_explicit(&c->errors, 1, memory_order_relaxed);
	if (code == -ESTALE)
		atomic_fetch_add_explicit(&c->stale, 1, memory_order_relaxed);
}

void sf_fs_log_failure(struct sf_fs *fs, const char *kind, int code, uint64_t thing,
                       const char *fmt, ...)
{
	const uint64_t alike[3] = { sf_hash(kind, strlen(kind)), (uint64_t)code, thing };
	char line[SF_ERROR_MAX + 128];
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(line, sizeof(line), fmt, ap) < 0)
		line[0] = '\0';
	va_end(ap);
	sf_log_limited(fs->io->failures, fs->io->log, SF_LOG_ERROR, sf_hash(alike, sizeof(alike)),
	               "%s", line);
}
