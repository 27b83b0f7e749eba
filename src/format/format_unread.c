#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "format/format_dir.h"
#include "format/format_unread.h"

#define NAMES_SHOWN 4

/* By one file's name alone; '*' takes '/' too. The first pattern that some file has decides. */
static const struct {
	const char *format, *pattern, *what, *hint;
} by_name[] = {
	{ "olmo-core", "rank_[0-9]*.safetensors", "ranks' halves of an OLMo checkpoint",
	  "give its step, which has model/ and optim/" },
	{ "composer", "*ep[0-9]*-ba[0-9]*-rank[0-9]*.t*",
	  "Composer checkpoints of DeepSpeed archives, one per rank",
	  "name those of one step, with {rank} for the number" },
	{ "composer", "*ep[0-9]*-ba[0-9]*-rank[0-9]*.pt*",
	  "Composer checkpoints of one .pt file each (monolithic)" },
	{ "composer", "*latest-rank[0-9]*.pt*",
	  "Composer checkpoints of one .pt file each (monolithic)" },
	{ "torch", "*checkpoint_[0-9]*.pt", "torch.distributed experimental checkpoint" },
	{ "torch", "*model_[0-9]*.pt", "checkpoint of one .pt file per rank" },
	{ "torch", "*.ckpt", "directory of several .ckpt files" },
	{ "torch", "*.pt", "directory of several .pt files" },
	{ "torch", "*.pth", "directory of several .pth files" },
	{ "torch", "*.pt.[bglxz]*", "directory of packed .pt files" },
	{ "composer", "*.tar*", "directory of archives",
	  "name one of them, or those of one step with {rank} for the number" },
	{ "torch", "*.bin", "directory of several .bin files" },
};

static bool matches(const char *pattern, const char *name)
{
	return sf_glob_match(pattern, strlen(pattern), name, strlen(name));
}

static const char *first_match(const struct sf_objinfo *files, size_t n, const char *pattern)
{
	for (size_t i = 0; i < n; i++)
		if (matches(pattern, files[i].name))
			return files[i].name;
	return NULL;
}

static void found(struct sf_unread *ret, const char *format, const char *file, const char *what)
{
	ret->format = format;
	ret->file = file;
	snprintf(ret->what, sizeof(ret->what), "%s", what);
}

void sf_unread_find(const struct sf_objinfo *files, size_t n, struct sf_unread *ret)
{
	*ret = (struct sf_unread){ 0 };
	for (size_t i = 0; i < SF_ARRAY_LEN(by_name) && !ret->format; i++) {
		const char *file = first_match(files, n, by_name[i].pattern);
		if (!file)
			continue;
		found(ret, by_name[i].format, file, by_name[i].what);
		ret->hint = by_name[i].hint ? by_name[i].hint : "name one of its files";
	}
}

const char sf_unread_names[] = "composer, which is dcp, deepspeed or torch";

bool sf_unread_format(const char *name)
{
	return strcmp(name, "composer") == 0;
}

int sf_unread_source(const char *source, struct sf_error *err)
{
	static const struct {
		const char *pattern, *what;
	} kinds[] = {
		{ "*.distcp", "a data file of a checkpoint; give its directory" },
		{ "*.metadata", "a checkpoint's metadata; give its directory" },
		{ "metadata.json", "a checkpoint's metadata; give its directory" },
		{ "*.index.json", "the index of a checkpoint; give its directory" },
	};
	const char *base = strrchr(source, '/');

	base = base ? base + 1 : source;
	for (size_t i = 0; i < SF_ARRAY_LEN(kinds); i++)
		if (matches(kinds[i].pattern, base))
			return sf_fail(err, -ENOTSUP, "'%s' is %s", source, kinds[i].what);
	return 0;
}

/* Names of files that hold state: weights, optimizers, random numbers. */
static bool holds_state(const char *name)
{
	static const char *const exts[] = { ".pt",   ".pth",         ".bin", ".pkl",
		                            ".ckpt", ".safetensors", ".npz" };

	for (size_t i = 0; i < SF_ARRAY_LEN(exts); i++)
		if (sf_has_suffix(name, exts[i]))
			return true;
	return false;
}

/* Is a checkpoint of its own in a directory of the listing, and nothing read from there? */
static bool unread_dir(const struct sf_ckpt_builder *b, const struct sf_objinfo *files, size_t n,
                       size_t at)
{
	const char *dir = files[at].name;
	size_t len;

	if (!sf_has_suffix(dir, "/.metadata"))
		return false;
	len = strlen(dir) - strlen(".metadata");
	/* what is in it stands around it: names are sorted */
	while (at > 0 && strncmp(files[at - 1].name, dir, len) == 0)
		at--;
	for (; at < n && strncmp(files[at].name, dir, len) == 0; at++)
		if (sf_ckpt_builder_has_file(b, files[at].name, strlen(files[at].name)))
			return false;
	return true;
}

int sf_unread_warn(struct sf_ckpt_builder *b, const struct sf_objinfo *files, size_t n)
{
	struct sf_buf text = { .limit = 64 << 10 };
	size_t unread = 0;
	int r;

	for (size_t i = 0; i < n; i++) {
		const char *name = files[i].name;
		size_t len = strlen(name);
		bool dir = unread_dir(b, files, n, i);
		/* the parts that consolidated files were made of */
		if (!dir && (!holds_state(name) || strncmp(name, "sharded/", 8) == 0 ||
		             sf_ckpt_builder_has_file(b, name, len)))
			continue;
		if (unread++ < NAMES_SHOWN) {
			sf_buf_str(&text, unread > 1 ? ", " : "");
			sf_escape_text(&text, name, SF_MIN(dir ? len - 9 : len, 120u));
		}
	}
	if (unread > NAMES_SHOWN)
		sf_buf_printf(&text, " and %zu more", unread - NAMES_SHOWN);
	r = sf_buf_check(&text);
	if (r >= 0 && unread)
		r = sf_ckpt_builder_warn(b, NULL, "unread-files", "not read by this version: %s",
		                         sf_buf_cstr(&text));
	sf_buf_release(&text);
	return r;
}
