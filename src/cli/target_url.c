#include "config.h"

#include <errno.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/target_url.h"

/* Without userinfo and query, which may hold secrets. */
int sf_refuse_url(const char *target)
{
	const char *host = strstr(target, "://") + 3, *slash = strchr(host, '/');
	const char *at = memrchr(host, '@', slash ? (size_t)(slash - host) : strlen(host));
	struct sf_error err = SF_ERROR_INIT;

	sf_fail(&err, -ENOTSUP,
	        "'%.*s%.*s': only --format dcp is exported to a URL yet: export to a local path",
	        (int)(host - target), target, (int)strcspn(at ? at + 1 : host, "?#"),
	        at ? at + 1 : host);
	return sf_cli_error(SF_EXIT_USAGE, &err);
}
