#include "config.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "cli/export_hf.h"
#include "cli/text.h"

/*
 * The order in which names change, so that at no instant somebody loads old weights among new ones.
 * All new files are whole and on disk before the first name changes (write_file.h), and nothing is
 * waited for in between.
 *
 * Who loads such a directory takes model.safetensors if it is there and looks no further
 * (transformers, accelerate); else what the index names (an error if one of these is missing); or
 * all *.safetensors, of which only those that the index names if there is one (vLLM).
 *
 * One new file: model.safetensors is replaced by a rename. Then the old shards go, while the old
 * index still keeps a reader of all files from mixing them with it. Then the old index.
 *
 * New shards:
 *   1. Old shards whose names the new ones take go (before): what the old index names is now not
 *      there, instead of half of it new.
 *   2. If there is an old model.safetensors, the new index comes first. It keeps a reader of all
 *      files from mixing the shards with it, and everybody else still takes the old file.
 *   3. The shards.
 *   4. The index, if it was not the second: shards without one are nobody's, so this is the moment
 *      at which the new model is there.
 *   5. The old model.safetensors goes, then other shards (after).
 *
 * Companions come first: the old weights may meet a new config.json for a moment, but no weights
 * appear without theirs.
 */

void sf_hf_export_release(struct sf_hf_export *x)
{
	sf_old_files_release(&x->before);
	sf_old_files_release(&x->after);
}

#define SUFFIX ".safetensors"

/* "STEM-00001-of-00003.safetensors", with any number of digits from five on? */
static bool is_shard(const char *name, const char *stem)
{
	size_t n = strlen(stem), digits;

	if (strncmp(name, stem, n) != 0 || name[n] != '-')
		return false;
	name += n + 1;
	digits = strspn(name, "0123456789");
	if (digits < 5 || strncmp(name + digits, "-of-", 4) != 0)
		return false;
	name += digits + 4;
	digits = strspn(name, "0123456789");
	return digits >= 5 && strcmp(name + digits, SUFFIX) == 0;
}

static bool is_new(const struct sf_hf *hf, const char *name)
{
	for (uint32_t i = 0; i < hf->nfiles; i++)
		if (strcmp(hf->file[i].name, name) == 0)
			return true;
	return hf->index_json && strcmp(hf->index_name, name) == 0;
}

/* Old weights of this stem in the target. */
struct found {
	bool single, index; /* one file of all; an index */
	char *single_name;
};

static int take(struct sf_hf_export *x, const struct sf_hf *hf, const char *target,
                const char *stem, const char *name, struct found *f)
{
	bool shards = hf->nfiles > 1;

	if (is_shard(name, stem)) {
		if (!shards || !is_new(hf, name))
			return sf_old_files_add(&x->after, sf_cli_text("%s/%s", target, name));
		return sf_old_files_add(&x->before, sf_cli_text("%s/%s", target, name));
	}
	f->single |= strcmp(name, f->single_name) == 0;
	f->index |= strcmp(name, hf->index_name) == 0;
	return 0;
}

static int look(struct sf_hf_export *x, const struct sf_hf *hf, const char *target,
                const char *stem, struct found *f)
{
	DIR *dir = opendir(target);
	struct dirent *e;
	int r = 0;

	while (dir && r >= 0 && (e = readdir(dir)))
		r = take(x, hf, target, stem, e->d_name, f);
	if (dir)
		closedir(dir);
	return r;
}

/* The file of all weights goes before other shards, the index after them. */
static int add_forms(struct sf_hf_export *x, const struct sf_hf *hf, const char *target,
                     const struct found *f)
{
	int r = 0;

	if (hf->nfiles > 1 && f->single) {
		r = sf_old_files_add(&x->after, sf_cli_text("%s/%s", target, f->single_name));
		for (size_t i = x->after.n - 1; r >= 0 && i > 0; i--) {
			char *path = x->after.at[i];
			x->after.at[i] = x->after.at[i - 1];
			x->after.at[i - 1] = path;
		}
	}
	if (hf->nfiles <= 1 && f->index)
		r = sf_old_files_add(&x->after, sf_cli_text("%s/%s", target, hf->index_name));
	return r;
}

static int add_index(struct sf_out_list *list, const struct sf_hf *hf, const char *target)
{
	return sf_out_add_bytes(list, hf->index_json, hf->index_len,
	                        sf_cli_text("%s/%s", target, hf->index_name));
}

static int add_files(struct sf_out_list *list, const struct sf_hf *hf, const char *target,
                     bool index_first)
{
	int r = 0;

	for (uint32_t i = 0; i < hf->ncompanions && r >= 0; i++)
		r = sf_out_add_companion(list, hf, i,
		                         sf_cli_text("%s/%s", target, hf->companion[i].name));
	if (r >= 0 && hf->index_json && index_first)
		r = add_index(list, hf, target);
	for (uint32_t i = 0; i < hf->nfiles && r >= 0; i++)
		r = sf_out_add(list, SF_OUT_HF, &hf->file[i].sel,
		               sf_cli_text("%s/%s", target, hf->file[i].name));
	if (r >= 0 && hf->index_json && !index_first)
		r = add_index(list, hf, target);
	return r;
}

int sf_hf_export_plan(struct sf_hf_export *x, const struct sf_hf *hf, const char *target,
                      struct sf_out_list *list, struct sf_write_options *o, struct sf_error *err)
{
	size_t len = strlen(hf->index_name) - strlen(SUFFIX ".index.json");
	SF_FREE char *stem = strndup(hf->index_name, len);
	SF_FREE char *single = strndup(hf->index_name, len + strlen(SUFFIX));
	struct found f = { .single_name = single };

	int r = stem && single ? look(x, hf, target, stem, &f) : -ENOMEM;
	if (r >= 0)
		r = add_forms(x, hf, target, &f);
	if (r >= 0 && !o->force && x->after.n)
		return sf_old_files_refuse(&x->after, err);
	if (r >= 0)
		r = add_files(list, hf, target, hf->nfiles > 1 && f.single);
	if (r < 0)
		return sf_fail(err, r, "%u files", hf->nfiles);
	o->set = true;
	o->before = x->before.at;
	o->nbefore = x->before.n;
	o->after = x->after.at;
	o->nafter = x->after.n;
	return 0;
}
