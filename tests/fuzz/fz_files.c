#include "config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "tests/fuzz/fz_files.h"

#define FILE_LIMIT (16 << 20) /* bytes of a file of a directory */

void fz_unpack(const uint8_t *data, size_t size, struct fz_files *ret)
{
	const uint8_t *end = data + size;

	ret->n = 0;
	while (data < end && ret->n < FZ_FILES) {
		struct fz_file *f = &ret->at[ret->n++];
		size_t n = SF_MIN((size_t)*data, (size_t)(end - data - 1));
		memcpy(f->name, data + 1, n);
		f->name[n] = '\0';
		data += 1 + n;
		n = end - data >= 4 ? sf_le32(data) : 0;
		data += SF_MIN((size_t)4, (size_t)(end - data));
		f->at = data;
		f->len = SF_MIN(n, (size_t)(end - data));
		data += f->len;
	}
}

void fz_pack_file(struct sf_buf *out, const char *name, const void *at, size_t len)
{
	size_t n = SF_MIN(strlen(name), (size_t)255);
	uint8_t le[4];

	sf_buf_byte(out, (uint8_t)n);
	sf_buf_add(out, name, n);
	sf_put_le32(le, (uint32_t)len);
	sf_buf_add(out, le, 4);
	if (len)
		sf_buf_add(out, at, len);
}

void fz_pack(struct sf_buf *out, const struct fz_files *files)
{
	for (size_t i = 0; i < files->n; i++)
		fz_pack_file(out, files->at[i].name, files->at[i].at, files->at[i].len);
}

static int pack_path(struct sf_buf *out, const char *path, const char *name)
{
	FILE *f = fopen(path, "re");
	uint8_t *at = malloc(FILE_LIMIT);
	int r = f && at ? 0 : -1;

	if (r == 0)
		fz_pack_file(out, name, at, fread(at, 1, FILE_LIMIT, f));
	free(at);
	if (f)
		fclose(f);
	return r;
}

/* @below: "" or "sub/". In the order of names, so that a directory is always the same input. */
static int pack_level(struct sf_buf *out, const char *path, const char *below)
{
	struct dirent **entry = NULL;
	int n = scandir(path, &entry, NULL, alphasort), r = n < 0 ? -1 : 0;

	for (int i = 0; i < n; i++) {
		const char *name = entry[i]->d_name;
		char full[4096], inside[256];
		struct stat st;
		snprintf(full, sizeof(full), "%s/%s", path, name);
		if (r < 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
			;
		} else if (stat(full, &st) < 0 ||
		           snprintf(inside, sizeof(inside), "%s%s", below, name) >= 254) {
			r = -1;
		} else if (S_ISDIR(st.st_mode)) {
			strcat(inside, "/");
			r = pack_level(out, full, inside);
		} else {
			r = pack_path(out, full, inside);
		}
		free(entry[i]);
	}
	free(entry);
	return r;
}

int fz_pack_dir(struct sf_buf *out, const char *path, const char *options)
{
	size_t n = strlen(options);
	char *lines = strdup(options);

	if (!lines)
		return -1;
	for (size_t i = 0; i < n; i++)
		lines[i] = lines[i] == ' ' ? '\n' : lines[i];
	if (n)
		fz_pack_file(out, "", lines, n);
	free(lines);
	return pack_level(out, path, "");
}
