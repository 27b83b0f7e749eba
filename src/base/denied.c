#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/denied.h"

void sf_denied_by(const char *path, char *dir, size_t size)
{
	for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
		if ((size_t)(slash - path) + 2 > size)
			break;
		/* "/", and else the path up to here */
		snprintf(dir, size, "%.*s", slash == path ? 1 : (int)(slash - path), path);
		if (faccessat(AT_FDCWD, dir, X_OK, AT_EACCESS) < 0 && errno == EACCES)
			return;
	}
	snprintf(dir, size, "%s", path);
}
