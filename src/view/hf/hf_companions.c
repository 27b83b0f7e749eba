#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "store/objinfo.h"
#include "view/hf/hf_companions.h"

#define COMPANIONS_MAX 4096 /* a model's directory has a dozen */

static bool is_companion(const char *name)
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

struct adding {
	struct sf_arena *arena;
	struct sf_objinfos files;
};

static int add(void *arg, const struct sf_objinfo *info)
{
	struct adding *a = arg;

	if (info->size == UINT64_MAX) /* no plain file: what is in it does not matter */
		return SF_LIST_SKIP;
	if (strchr(info->name, '/') || !is_companion(info->name))
		return 0;
	if (a->files.n == COMPANIONS_MAX)
		return -E2BIG;
	return sf_objinfos_keep(&a->files, a->arena, info);
}

int sf_hf_list_companions(struct sf_store *store, struct sf_arena *arena,
                          const struct sf_objinfo **ret, uint32_t *ret_n, struct sf_error *err)
{
	struct adding a = { .arena = arena };
	struct sf_error why = SF_ERROR_INIT;
	struct sf_objinfo *kept = NULL;
	int r = store->ops->list(store, "", 0, add, &a, &why);

	if (r >= 0) {
		kept = sf_arena_alloc(arena, (a.files.n + 1) * sizeof(*kept));
		r = kept ? 0 : -ENOMEM;
	}
	if (r >= 0) {
		if (a.files.n)
			memcpy(kept, a.files.at, a.files.n * sizeof(*kept));
		qsort(kept, a.files.n, sizeof(*kept), sf_objinfo_compare);
		*ret = kept;
		*ret_n = (uint32_t)a.files.n;
	} else {
		sf_fail(err, r, "hf_files '%s': %s", store->source,
		        r == -E2BIG    ? "more than 4096 files of a model"
		        : r == -ENOMEM ? "no memory"
		                       : why.msg);
	}
	sf_objinfos_release(&a.files);
	return r;
}
