#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/memory_limit.h"

/* A limit's file: bytes; v2's "max", and v1's number next to 2^63, are none. */
static uint64_t limit_in(const char *path)
{
	FILE *f = fopen(path, "re");
	char line[64] = "", *end;
	unsigned long long v;

	if (!f)
		return UINT64_MAX;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	errno = 0;
	v = strtoull(line, &end, 10);
	return errno || end == line || *line == '-' || v >> 62 ? UINT64_MAX : v;
}

/* The least of @name in group @path and those above it. In a container its own group may be mounted as
 * the root of all, whatever the kernel calls it: then only that is found. */
static uint64_t least(const char *root, const char *mount, const char *path, const char *name)
{
	char file[PATH_MAX];
	uint64_t v = UINT64_MAX;
	size_t n = strlen(path);

	for (;;) {
		while (n && path[n - 1] == '/')
			n--;
		if (snprintf(file, sizeof(file), "%s/sys/fs/cgroup%s%.*s/%s", root, mount, (int)n,
		             path, name) < (int)sizeof(file))
			v = SF_MIN(v, limit_in(file));
		if (!n)
			return v;
		while (n && path[n - 1] != '/')
			n--;
	}
}

/* "N:CONTROLLERS:PATH" of /proc/self/cgroup; v2's has N 0 and no controllers. */
static uint64_t limit_of(const char *root, char *line)
{
	char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL, *save;
	uint64_t v = UINT64_MAX, high;

	if (!path)
		return v;
	*path++ = '\0';
	path[strcspn(path, "\n")] = '\0';
	if (!*++names) {
		v = least(root, "", path, "memory.max");
		high = least(root, "", path, "memory.high");
		v = SF_MIN(v, high);
		/* where both versions are mounted */
		high = least(root, "/unified", path, "memory.max");
		return SF_MIN(v, high);
	}
	for (char *s = strtok_r(names, ",", &save); s; s = strtok_r(NULL, ",", &save))
		if (strcmp(s, "memory") == 0)
			v = least(root, "/memory", path, "memory.limit_in_bytes");
	return v;
}

static uint64_t machine(const char *root)
{
	char path[PATH_MAX], line[128];
	unsigned long long kib = 0;
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/proc/meminfo", root) >= (int)sizeof(path) ||
	    !(f = fopen(path, "re")))
		return UINT64_MAX;
	while (fgets(line, sizeof(line), f) && sscanf(line, "MemTotal: %llu kB", &kib) != 1)
		;
	fclose(f);
	return kib && kib < UINT64_MAX / 1024 ? kib * 1024 : UINT64_MAX;
}

uint64_t sf_memory_limit(const char *root)
{
	uint64_t v = machine(root);
	char path[PATH_MAX], *line = NULL;
	size_t cap = 0;
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/proc/self/cgroup", root) >= (int)sizeof(path) ||
	    !(f = fopen(path, "re")))
		return v;
	while (getline(&line, &cap, f) > 0) {
		uint64_t one = limit_of(root, line);
		v = SF_MIN(v, one);
	}
	free(line);
	fclose(f);
	return v;
}

uint64_t sf_memory_default(const char *root)
{
	return SF_MIN(SF_MAX(sf_memory_limit(root) / 4, SF_MEMORY_DEFAULT_LEAST),
	              SF_MEMORY_DEFAULT_MOST);
}
