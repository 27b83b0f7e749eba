#include "config.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "cli/old_files.h"
#include "cli/text.h"

int sf_old_files_add(struct sf_old_files *l, char *path)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 8;
		char **at = path ? realloc(l->at, cap * sizeof(*at)) : NULL;
		if (!at) {
			free(path);
			return -ENOMEM;
		}
		l->at = at;
		l->cap = cap;
	}
	l->at[l->n] = path;
	l->n += path != NULL;
	return path ? 0 : -ENOMEM;
}

void sf_old_files_release(struct sf_old_files *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->at[i]);
	free(l->at);
	*l = (struct sf_old_files){ 0 };
}

int sf_old_files_refuse(const struct sf_old_files *l, struct sf_error *err)
{
	return sf_fail(err, -EEXIST,
	               "'%s' already exists: loaders would read it as part of the new model (use "
	               "--force to remove it)",
	               l->at[0]);
}

/* "chunk-00003.pt" and its number, as "chunk-%05u%s" spells it. */
static bool is_chunk(const char *name, const char *suffix, unsigned long *ret)
{
	char again[64], *end;

	if (strncmp(name, "chunk-", 6) != 0 || name[6] < '0' || name[6] > '9')
		return false;
	errno = 0;
	*ret = strtoul(name + 6, &end, 10);
	snprintf(again, sizeof(again), "chunk-%05lu%s", *ret, suffix);
	return errno == 0 && strcmp(again, name) == 0;
}

int sf_old_chunks(struct sf_old_files *l, const char *target, const char *dir, uint32_t n,
                  const char *suffix)
{
	SF_FREE char *path = sf_cli_text("%s/%s", target, dir);
	DIR *d = path ? opendir(path) : NULL;
	struct dirent *e;
	unsigned long number;
	int r = path ? 0 : -ENOMEM;

	while (d && r >= 0 && (e = readdir(d)))
		if (is_chunk(e->d_name, suffix, &number) && number >= n)
			r = sf_old_files_add(l, sf_cli_text("%s/%s", path, e->d_name));
	if (d)
		closedir(d);
	return r;
}
