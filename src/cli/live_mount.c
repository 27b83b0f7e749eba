#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mountinfo.h"
#include "cli/live_mount.h"

void sf_live_mount_release(struct sf_live_mount *m)
{
	free(m->path);
	free(m->target);
	free(m->source);
	*m = (struct sf_live_mount){ 0 };
}

static int nearest(void *arg, const struct sf_mountinfo *info)
{
	struct sf_live_mount *m = arg;
	size_t n = strlen(info->target);

	if (strncmp(m->path, info->target, n) != 0 || (m->path[n] && m->path[n] != '/') ||
	    (m->target && strlen(m->target) > n))
		return 0;
	free(m->target);
	free(m->source);
	m->target = strdup(info->target);
	m->source = strdup(info->source);
	return m->target && m->source ? 0 : -ENOMEM;
}

int sf_live_mount_find(const char *path, struct sf_live_mount *ret, struct sf_error *err)
{
	struct sf_live_mount m = { .path = realpath(path, NULL) };
	int r = 0;

	if (m.path)
		r = sf_mounts_each(nearest, &m, err);
	if (r == -ENOMEM)
		sf_fail(err, r, "'%s': no memory", path);
	if (r < 0 || !m.target) {
		sf_live_mount_release(&m);
		return r < 0 ? r : 0;
	}
	*ret = m;
	return 1;
}
