#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "catalog/key_near.h"
#include "cli/text.h"
#include "format/dcp/dcp_remove.h"
#include "store/url.h"
#include "tool/interrupt.h"

#define METADATA_MAX (UINT64_C(1) << 30) /* bytes, of the old one and of the new one */

struct rm_options {
	bool force;
};

static const struct sf_opt options[] = {
	{ "force", 0, SF_OPT_FLAG, offsetof(struct rm_options, force), NULL, NULL,
	  "do it; without, only say what would be removed" },
	{ 0 },
};

struct rm {
	int npatterns;
	char **pattern;   /* KEYs, of stored names */
	char *dir, *path; /* of SOURCE; of its .metadata */
	struct sf_arena arena;
	struct sf_buf old, new;
	struct dcp_removed gone;
};

static bool is_named(void *arg, const char *key, size_t len)
{
	const struct rm *rm = arg;

	for (int i = 0; i < rm->npatterns; i++)
		if (sf_key_match(rm->pattern[i], key, len))
			return true;
	return false;
}

/* Each of them is a key's, and the checkpoint is one that loads. */
static int check(const struct rm *rm, const struct sf_common *common, const char *source,
                 struct sf_error *err)
{
	struct sf_session s;
	int r = sf_session_open(&s, &common->session, source, err);

	if (r < 0)
		return r;
	for (int i = 0; i < rm->npatterns && r >= 0; i++) {
		bool any = false;
		for (uint32_t k = 0; k < s.catalog->n && !any; k++) {
			const struct sf_key *key = &s.ckpt->key[s.catalog->entry[k].key];
			any = sf_key_match(rm->pattern[i], key->name, key->len);
		}
		if (!any)
			r = sf_catalog_no_key(s.catalog, rm->pattern[i], strlen(rm->pattern[i]),
			                      err);
	}
	sf_session_close(&s);
	return r;
}

static int read_old(struct rm *rm, struct sf_error *err)
{
	int fd = open(rm->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t got = 1;
	int r = fd < 0 || fstat(fd, &st) < 0 ? sf_fail_errno(err, "'%s'", rm->path) : 0;

	if (r == -ENOENT)
		sf_fail(err, r,
		        "'%s' has no .metadata: rm-keys knows DCP and Megatron's torch_dist, in "
		        "the "
		        "directory that has it",
		        rm->dir);
	if (r >= 0 && !S_ISREG(st.st_mode))
		r = sf_fail(err, -EBADMSG, "'%s' is no plain file", rm->path);
	while (r >= 0 && got > 0) {
		uint8_t *at = sf_buf_extend(&rm->old, 1 << 20);
		if (!at) {
			r = sf_fail(err, sf_buf_check(&rm->old), "'%s': over %" PRIu64 " bytes",
			            rm->path, METADATA_MAX);
			break;
		}
		got = read(fd, at, 1 << 20);
		rm->old.len -= (1 << 20) - (size_t)SF_MAX(got, 0);
		if (got < 0)
			r = sf_fail_errno(err, "'%s'", rm->path);
	}
	if (fd >= 0)
		close(fd);
	return r;
}

static int write_all(int fd, const uint8_t *at, size_t len)
{
	while (len) {
		ssize_t n = write(fd, at, len);
		if (n < 0)
			return -errno;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

/* The new one in the old one's place, on disk. */
static int replace(struct rm *rm, struct sf_error *err)
{
	struct sf_atomic_file f = SF_ATOMIC_FILE_INIT;
	int r = sf_atomic_file_open(&f, rm->path, err);

	if (r >= 0) {
		r = write_all(f.fd, rm->new.at, rm->new.len);
		if (r < 0)
			sf_fail(err, r, "'%s': %s", rm->path, strerror(-r));
	}
	if (r >= 0)
		r = sf_atomic_file_sync(&f, rm->path, err);
	if (r >= 0)
		r = sf_atomic_file_publish(&f, rm->path, true, err);
	else
		sf_atomic_file_drop(&f);
	return r < 0 ? r : sf_sync_dir_of(rm->path, err);
}

/* Names that the metadata gives: of plain files right in the directory, and no others. */
static bool is_data_file(int dir, const char *name)
{
	struct stat st;

	return *name && !strchr(name, '/') && *name != '.' &&
	       fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

static void put_files(const struct rm *rm, const char *verb)
{
	for (size_t i = 0; i < rm->gone.nfiles; i++) {
		printf("%s ", verb);
		sf_put_name(stdout, rm->gone.file[i], strlen(rm->gone.file[i]));
		putchar('\n');
	}
}

/* What nothing names any more. */
static int remove_files(const struct rm *rm, struct sf_error *err)
{
	int dir = open(rm->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = dir < 0 ? sf_fail_errno(err, "'%s'", rm->dir) : 0;

	for (size_t i = 0; i < rm->gone.nfiles && r >= 0; i++)
		if (is_data_file(dir, rm->gone.file[i]) && unlinkat(dir, rm->gone.file[i], 0) < 0)
			r = sf_fail_errno(err, "'%s/%s'", rm->dir, rm->gone.file[i]);
	if (dir >= 0)
		close(dir);
	return r;
}

static void tell(const struct rm *rm, bool done)
{
	SF_FREE char *sums = sf_cli_text("%s/integrity.json", rm->dir);

	put_files(rm, done ? "removed" : "would remove");
	printf("%s %zu key%s with %zu stored item%s, %zu stay\n", done ? "removed" : "would remove",
	       rm->gone.keys, sf_plural(rm->gone.keys), rm->gone.items, sf_plural(rm->gone.items),
	       rm->gone.left);
	fflush(stdout);
	if (done && sums && access(sums, F_OK) == 0)
		fprintf(stderr,
		        "shardfuse: note: integrity.json still has the sums of the files before\n");
	if (!done)
		fprintf(stderr, "shardfuse: nothing was changed: add --force\n");
}

static int rm_keys(struct rm *rm, bool force, struct sf_error *err)
{
	int r = read_old(rm, err);

	if (r >= 0) {
		r = dcp_remove(rm->old.at, rm->old.len, is_named, rm, &rm->arena, &rm->new,
		               &rm->gone, err);
		if (r < 0)
			sf_fail_ctx(err, r, "'%s'", rm->path);
	}
	if (r >= 0 && !rm->gone.keys)
		r = sf_fail(err, -ENOENT, "'%s' has none of these keys: they are in another file",
		            rm->path);
	if (r >= 0 && force)
		r = replace(rm, err);
	if (r >= 0)
		tell(rm, force);
	return r >= 0 && force ? remove_files(rm, err) : r;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct rm_options *o = opt;
	struct sf_error err = SF_ERROR_INIT;
	struct rm rm = { .npatterns = argc - 1,
		         .pattern = argv + 1,
		         .old = { .limit = METADATA_MAX },
		         .new = { .limit = METADATA_MAX } };
	int r = 0;

	sf_interrupt_init();
	if (sf_url_scheme(argv[0]))
		r = sf_fail(&err, -ENOTSUP,
		            "rm-keys changes a directory of this machine: give its path");
	rm.dir = strdup(argv[0]);
	rm.path = sf_cli_text("%s/.metadata", argv[0]);
	if (r >= 0 && (!rm.dir || !rm.path))
		r = sf_fail(&err, -ENOMEM, "'%s'", argv[0]);
	if (r >= 0)
		r = check(&rm, common, argv[0], &err);
	if (r >= 0)
		r = rm_keys(&rm, o->force, &err);
	free(rm.dir);
	free(rm.path);
	sf_buf_release(&rm.old);
	sf_buf_release(&rm.new);
	sf_arena_release(&rm.arena);
	if (r < 0)
		return sf_cli_error(SF_EXIT_FAILED, &err);
	return o->force ? SF_EXIT_OK : SF_EXIT_USAGE;
}

const struct sf_cmd sf_cmd_rm_keys = {
	.name = "rm-keys",
	.usage = "SOURCE KEY… --force",
	.about = "take keys out of a local DCP or Megatron checkpoint's metadata, and the files "
		 "that "
		 "held nothing else",
	.example = "shardfuse rm-keys /ckpt/step1000 optimizer --force",
	.options = options,
	.common = true,
	.view = false,
	.min_args = 2,
	.max_args = -1,
	.opt_size = sizeof(struct rm_options),
	.run = run,
};
