/* Files of an older export that the new one does not replace by name: loaders would read them
 * along.
 */
#ifndef SF_CLI_OLD_FILES_H
#define SF_CLI_OLD_FILES_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

/* Paths, malloc'ed. */
struct sf_old_files {
	char **at;
	size_t n, cap;
};
int sf_old_files_add(struct sf_old_files *l, char *path); /* takes @path; NULL is -ENOMEM */
void sf_old_files_release(struct sf_old_files *l);
/* -EEXIST: the first of them is there, and --force replaces it. */
int sf_old_files_refuse(const struct sf_old_files *l, struct sf_error *err);

/*
 * sf_old_chunks - what is left of a larger export by --strategy chunks in the directory
 * TARGET/@dir: its files chunk-NNNNN@suffix from number @n on.
 *
 * Appended to @l. -ENOMEM. Reads the directory, changes nothing.
 */
int sf_old_chunks(struct sf_old_files *l, const char *target, const char *dir, uint32_t n,
                  const char *suffix);

#endif
