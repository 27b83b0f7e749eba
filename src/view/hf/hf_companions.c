#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "view/hf/hf_companions.h"

#define COMPANIONS_MAX 4096 /* a model's directory has a dozen */

SF_VEC(sf_objinfos, struct sf_objinfo);

bool sf_hf_is_companion(const char *name)
{
	static const char *const patterns[] = {
		"config.json",
		"generation_config.json",
		"tokenizer*",
		"*.model",
		"vocab*",
		"merges.txt",
		"special_tokens_map.json",
		"added_tokens.json",
		"chat_template*",
		"*processor_config.json",
		"*.py",
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(patterns); i++)
		if (sf_glob_match(patterns[i], strlen(patterns[i]), name, strlen(name)))
			return name[0] != '.';
	return false;
}

static bool has_config(const char *dir)
{
	char *path = NULL;
	struct stat st;
	bool found;

	if (asprintf(&path, "%s/config.json", dir) < 0)
		return false;
	found = stat(path, &st) == 0 && S_ISREG(st.st_mode);
	free(path);
	return found;
}

int sf_hf_find_files(const char *ckpt_dir, char **ret_dir)
{
	static const char *const places[] = {
		"", "/huggingface", "/hf", "/hf_assets", "/.hf_metadata", "/context", "/..",
	};
	struct stat st;

	if (strncmp(ckpt_dir, "file://", 7) == 0)
		ckpt_dir += 7;
	if (strstr(ckpt_dir, "://"))
		return -ENOENT;
	const char *slash = strrchr(ckpt_dir, '/');
	size_t len = strlen(ckpt_dir);
	/* a file, or a name with {rank} in it: its directory */
	const char *base = ckpt_dir;
	if (stat(ckpt_dir, &st) < 0 || !S_ISDIR(st.st_mode)) {
		len = slash ? (size_t)(slash - ckpt_dir) : 1;
		base = slash ? ckpt_dir : ".";
	}
	for (size_t i = 0; i < SF_ARRAY_LEN(places); i++) {
		char *dir = NULL;
		if (asprintf(&dir, "%.*s%s", (int)len, base, places[i]) < 0)
			return -ENOMEM;
		if (has_config(dir)) {
			*ret_dir = dir;
			return 0;
		}
		free(dir);
	}
	return -ENOENT;
}

void sf_hf_companion_info(const struct stat *st, struct sf_objinfo *ret)
{
	ret->size = (uint64_t)st->st_size;
	ret->version = (struct sf_version){ .dev = st->st_dev,
		                            .ino = st->st_ino,
		                            .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 +
		                                        st->st_mtim.tv_nsec };
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct sf_objinfo *)a)->name, ((const struct sf_objinfo *)b)->name);
}

static int add(DIR *d, const char *name, struct sf_arena *arena, struct sf_objinfos *files)
{
	struct sf_objinfo info = { .name = NULL };
	struct stat st;

	if (!sf_hf_is_companion(name) || fstatat(dirfd(d), name, &st, 0) < 0 ||
	    !S_ISREG(st.st_mode))
		return 0;
	if (files->n == COMPANIONS_MAX)
		return -E2BIG;
	sf_hf_companion_info(&st, &info);
	info.name = sf_arena_strdup(arena, name, strlen(name));
	return info.name && sf_objinfos_push(files, info) == 0 ? 0 : -ENOMEM;
}

int sf_hf_list_companions(const char *dir, struct sf_arena *arena, const struct sf_objinfo **ret,
                          uint32_t *ret_n, struct sf_error *err)
{
	struct sf_objinfos files = { 0 };
	struct sf_objinfo *kept = NULL;
	int r = 0;
	DIR *d = opendir(dir);

	if (!d)
		return sf_fail_errno(err, "hf_files '%s'", dir);
	for (struct dirent *e; r >= 0 && (e = readdir(d));)
		r = add(d, e->d_name, arena, &files);
	closedir(d);
	if (r >= 0) {
		kept = sf_arena_alloc(arena, (files.n + 1) * sizeof(*kept));
		r = kept ? 0 : -ENOMEM;
	}
	if (r >= 0) {
		if (files.n)
			memcpy(kept, files.at, files.n * sizeof(*kept));
		qsort(kept, files.n, sizeof(*kept), compare);
		*ret = kept;
		*ret_n = (uint32_t)files.n;
	} else {
		sf_fail(err, r, "hf_files '%s': %s", dir,
		        r == -E2BIG ? "more than 4096 files of a model" : "no memory");
	}
	sf_objinfos_release(&files);
	return r;
}
