#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "cli/doctor_cache.h"
#include "cli/text.h"
#include "store/cache.h"
#include "store/cache_dir.h"

/* The directory, or the nearest one above it that is there: it has the same disk. */
static int open_nearest(const char *path)
{
	SF_FREE char *at = strdup(path);
	int fd = -1;

	while (at && (fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 && errno == ENOENT) {
		char *slash = strrchr(at, '/');
		if (!slash)
			return open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		slash[slash == at] = '\0';
		if (slash == at && strcmp(at, "/") == 0)
			return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	return fd;
}

/* Whether others could write there is for who opens it; what is not there is not made. */
static bool trusted(const char *path, struct sf_error *err)
{
	int fd;

	if (access(path, F_OK) != 0)
		return true;
	if (sf_cache_dir_open(path, &fd, err) < 0)
		return false;
	close(fd);
	return true;
}

enum sf_probe_state sf_doctor_cache(const struct sf_store_options *opt, char **ret_found,
                                    const char **ret_remedy)
{
	SF_FREE char *own = NULL;
	const char *dir = opt->cache_dir;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_cache_space space = { .floor = 0 };
	char why[SF_CACHE_WHY_MAX], size[2][32];
	int fd, r = 0;

	*ret_remedy = "";
	if (opt->cache_size_given && !opt->cache_size) {
		*ret_found = strdup("--cache-size 0: what is fetched is not kept");
		return SF_PROBE_OK;
	}
	if (!dir) {
		r = sf_cache_dir_default(&own, &err);
		dir = own;
	}
	if (r < 0 || !trusted(dir, &err)) {
		*ret_found = strdup(err.msg);
		*ret_remedy = "what is fetched is not kept: --cache-dir says where else";
		return SF_PROBE_HINT;
	}
	fd = open_nearest(dir);
	if (fd >= 0) {
		(void)sf_cache_space(fd, &space);
		close(fd);
	}
	if (fd < 0 || sf_cache_space_lack(&space, why, sizeof(why))) {
		*ret_found = sf_cli_text("%s: %s", dir, fd < 0 ? strerror(errno) : why);
		*ret_remedy = "what is fetched is not kept: make room there (shardfuse drop), or "
			      "--cache-dir on another disk";
		return SF_PROBE_HINT;
	}
	*ret_found = sf_cli_text(
		"%s, %s at most, %s free", dir,
		sf_human_size(opt->cache_size_given ? opt->cache_size : SF_CACHE_SIZE_DEFAULT,
	                      size[0]),
		sf_human_size(space.free, size[1]));
	return SF_PROBE_OK;
}
