#include "config.h"
#include <string.h>
#include <fnmatch.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/buf.h"
#include "catalog/view_wanted.h"
#include "fuse/mount_options.h"
#include "store/url.h"

#define AT(field) offsetof(struct sf_mount_options, field)

static int parse_prefetch(void *dest, const char *value, struct sf_error *err)
{
	static const char *const words[] = { [SF_PREFETCH_NONE] = "none",
		                             [SF_PREFETCH_FILES] = "files",
		                             [SF_PREFETCH_AUTO] = "auto" };

	for (size_t i = 0; i < SF_ARRAY_LEN(words); i++)
		if (strcmp(value, words[i]) == 0) {
			((struct sf_mount_options *)dest)->prefetch = (enum sf_prefetch_mode)i;
			return 0;
		}
	return sf_fail(err, -EINVAL, "'%s' is not one of files, none, auto", value);
}

static int parse_refresh(void *dest, const char *value, struct sf_error *err)
{
	struct sf_mount_options *o = dest;
	char *end;

	errno = 0;
	unsigned long v = strtoul(value, &end, 10);
	if (errno || end == value || *end || *value == '-' || v > UINT32_MAX / 1000)
		return sf_fail(err, -EINVAL, "'%s' is not a number of seconds", value);
	o->refresh_s = (unsigned)v;
	o->refresh_given = true;
	return 0;
}

const struct sf_opt sf_mount_option_table[] = {
	{ "options", 'o', SF_OPT_STRS, AT(words), NULL, "NAME[=VALUE],…",
	  "mount options: those below, and every long option without its dashes" },
	{ "foreground", 'f', SF_OPT_FLAG, AT(foreground), NULL, NULL,
	  "stay in the foreground, log to stderr" },
	{ "debug", 'd', SF_OPT_FLAG, AT(debug), NULL, NULL,
	  "like -f, and log every request to stderr" },
	{ "single", 's', SF_OPT_FLAG, AT(single), NULL, NULL, "serve requests with one thread" },
	{ 0 },
};

const struct sf_opt sf_mount_word_table[] = {
	{ "allow_other", 0, SF_OPT_FLAG, AT(allow_other), NULL, NULL,
	  "other users may read the mount" },
	{ "allow_root", 0, SF_OPT_FLAG, AT(allow_root), NULL, NULL, "root may read the mount" },
	{ "auto_unmount", 0, SF_OPT_FLAG, AT(auto_unmount), NULL, NULL,
	  "unmount when the daemon is killed" },
	{ "nonempty", 0, SF_OPT_FLAG, AT(nonempty), NULL, NULL,
	  "mount over files without a warning, even over SOURCE" },
	{ "prefetch", 0, SF_OPT_CALL, 0, parse_prefetch, "files|none|auto",
	  "fetch what is stored in the background: files at once, auto when an eighth was read "
	  "(default: none)" },
	{ "refresh", 0, SF_OPT_CALL, 0, parse_refresh, "SECONDS",
	  "of a run directory: look for new steps as often (default: 10, 0: never)" },
	{ "uid", 0, SF_OPT_STR, AT(uid), NULL, "USER",
	  "owner of the files (default: the user who mounts)" },
	{ "gid", 0, SF_OPT_STR, AT(gid), NULL, "GROUP", "group of the files" },
	{ "umask", 0, SF_OPT_STR, AT(umask), NULL, "OCTAL", "permission bits to clear" },
	{ "readahead", 0, SF_OPT_SIZE, AT(readahead), NULL, "SIZE",
	  "what the kernel reads ahead; above 128K root alone (default: 1M, of a server 128K)" },
	{ 0 },
};

/* What mount(8), fstab and systemd put into -o for everybody. */
static const char *const ignored[] = {
	"x-*",         "comment=*",
	"dev",         "nodev",
	"suid",        "nosuid",
	"exec",        "noexec",
	"atime",       "noatime",
	"diratime",    "nodiratime",
	"relatime",    "norelatime",
	"strictatime", "nostrictatime",
	"lazytime",    "nolazytime",
	"ro",          "rw",
	"_netdev",     "nofail",
	"auto",        "noauto",
	"user",        "user=*",
	"nouser",      "users",
	"owner",       "group",
	"defaults",    "async",
	"sync",        "default_permissions",
};

static bool is_ignored(const char *word)
{
	for (size_t i = 0; i < SF_ARRAY_LEN(ignored); i++)
		if (fnmatch(ignored[i], word, 0) == 0)
			return true;
	return false;
}

static bool is_view(const char *word)
{
	const struct sf_view_options o = { .views = { &word, 1 } };
	return sf_views_check(&o, NULL) >= 0;
}

/* @list: the word before it if that is a list, of which this may have been meant as a part. */
static int apply_word(struct sf_mount_options *o, struct sf_common *common, char *word,
                      const char *list, struct sf_error *err)
{
	const struct sf_opt *const tables[] = { sf_mount_word_table, sf_common_options,
		                                sf_view_option_table, NULL };
	void *const dests[] = { o, common, &common->session.view };

	if (!*word || is_ignored(word))
		return 0;
	int r = sf_options_word(tables, dests, word, err);
	if (r != 0)
		return r < 0 ? r : 0;
	if (o->sloppy)
		return 0;
	size_t len = strcspn(word, "=");
	const char *near = sf_options_near(tables, word, len);
	if (list && !word[len] && is_view(word))
		return sf_fail(err, -EINVAL,
		               "unknown mount option '%s': in -o a list has colons between its "
		               "items: %.200s:%s",
		               word, list, word);
	return sf_fail(err, -EINVAL,
	               near ? "unknown mount option '%s': did you mean %s?"
	                    : "unknown mount option '%s' (shardfuse mount --help lists them)",
	               word, near);
}

/* Ends the word at its comma, takes "\," for a literal one; returns the rest or NULL. In place. */
static char *next_word(char *at)
{
	char *to = at;
	for (; *at; at++) {
		if (at[0] == '\\' && at[1] == ',')
			at++;
		else if (*at == ',') {
			*to = 0;
			return at + 1;
		}
		*to++ = *at;
	}
	*to = 0;
	return NULL;
}

int sf_mount_options_apply(struct sf_mount_options *o, struct sf_common *common,
                           struct sf_error *err)
{
	o->kept = calloc(o->words.n + 1, sizeof(*o->kept));
	if (!o->kept)
		return sf_fail(err, -ENOMEM, "options");
	for (size_t i = 0; i < o->words.n; i++) {
		char *at = o->kept[o->nkept++] = strdup(o->words.at[i]);
		if (!at)
			return sf_fail(err, -ENOMEM, "options");
		const char *list = NULL;
		for (char *rest; at; at = rest) {
			rest = next_word(at);
			int r = apply_word(o, common, at, list, err);
			if (r < 0)
				return r;
			list = strncmp(at, "views=", 6) == 0 ? at : NULL;
		}
	}
	if (o->debug)
		o->foreground = true;
	common->session.runs = true;
	if (o->refresh_given)
		common->session.refresh_s = o->refresh_s;
	return 0;
}

void sf_mount_options_release(struct sf_mount_options *o)
{
	for (size_t i = 0; i < o->nkept; i++)
		free(o->kept[i]);
	free(o->kept);
	o->kept = NULL;
	o->nkept = 0;
}

char *sf_mount_options_given(const char *source, const char *mountpoint)
{
	/* the kernel has the words as they were typed; ours have been taken apart */
	FILE *f = fopen("/proc/self/cmdline", "re");
	struct sf_buf out = { .limit = 16384 };
	char *word = NULL;
	size_t cap = 0;
	bool source_seen = false, where_seen = false;
	SF_FREE char *hidden = strdup(source);

	if (hidden) /* as main() has left it there */
		sf_url_hide(hidden);
	for (unsigned i = 0; f && getdelim(&word, &cap, 0, f) > 0; i++) {
		bool is_source = !source_seen && hidden && strcmp(word, hidden) == 0;
		bool is_where = !where_seen && !is_source && strcmp(word, mountpoint) == 0;
		source_seen |= is_source;
		where_seen |= is_where;
		if (!i || (i == 1 && strcmp(word, "mount") == 0) || is_source || is_where)
			continue;
		sf_buf_str(&out, out.len ? " " : "");
		sf_buf_str(&out, word);
	}
	free(word);
	if (f)
		fclose(f);
	sf_buf_byte(&out, 0);
	if (sf_buf_check(&out) >= 0)
		return (char *)out.at;
	sf_buf_release(&out);
	return NULL;
}

static int number(const char *s, int base, unsigned long max, unsigned long *ret)
{
	char *end;
	errno = 0;
	unsigned long v = strtoul(s, &end, base);
	if (errno || end == s || *end || *s == '-' || v > max)
		return -EINVAL;
	*ret = v;
	return 0;
}

/* allow_other by an ordinary user needs a word in fuse.conf; fusermount3's own message does not say
 * where. */
static int check_allow_other(const char *option, struct sf_error *err)
{
	char line[256];
	bool found = false;
	FILE *f = geteuid() == 0 ? NULL : fopen("/etc/fuse.conf", "re");

	if (geteuid() == 0)
		return 0;
	while (f && !found && fgets(line, sizeof(line), f))
		found = strncmp(line, "user_allow_other", 16) == 0;
	if (f)
		fclose(f);
	return found ? 0
	             : sf_fail(err, -EPERM,
	                       "%s needs the line 'user_allow_other' in /etc/fuse.conf, or root",
	                       option);
}

int sf_mount_options_serve(const struct sf_mount_options *o, const char *source,
                           struct sf_serve_options *ret, char **ret_fuse_options,
                           struct sf_error *err)
{
	struct sf_serve_options s = {
		.debug = o->debug, .threads = o->single ? 1 : 0, .uid = getuid(), .gid = getgid()
	};
	struct sf_buf words = { .limit = 65536 };
	unsigned long v;

	if (o->uid) {
		struct passwd *pw = getpwnam(o->uid);
		if (!pw && number(o->uid, 10, UINT32_MAX - 1, &v) < 0)
			return sf_fail(err, -EINVAL, "uid=%s: no such user", o->uid);
		s.uid = pw ? pw->pw_uid : (uid_t)v;
	}
	if (o->gid) {
		struct group *gr = getgrnam(o->gid);
		if (!gr && number(o->gid, 10, UINT32_MAX - 1, &v) < 0)
			return sf_fail(err, -EINVAL, "gid=%s: no such group", o->gid);
		s.gid = gr ? gr->gr_gid : (gid_t)v;
	}
	s.readahead = o->readahead;
	if (o->umask) {
		if (number(o->umask, 8, 0777, &v) < 0)
			return sf_fail(err, -EINVAL, "umask=%s: not an octal number up to 777",
			               o->umask);
		s.umask = (mode_t)v;
	}
	if (o->allow_other || o->allow_root) {
		int r = check_allow_other(o->allow_other ? "allow_other" : "allow_root", err);
		if (r < 0)
			return r;
	}

	sf_buf_str(&words, "ro,nosuid,nodev,default_permissions,subtype=shardfuse");
	/* allow_root is libfuse's: allow_other to the kernel, everybody but root and the owner
	 * refused by it */
	if (o->allow_other || o->allow_root)
		sf_buf_str(&words, o->allow_other ? ",allow_other" : ",allow_root");
	/* fsname last, its commas and backslashes escaped as libfuse wants them */
	sf_buf_str(&words, ",fsname=");
	for (const char *c = source; *c; c++) {
		if (*c == ',' || *c == '\\')
			sf_buf_byte(&words, '\\');
		sf_buf_byte(&words, (uint8_t)*c);
	}
	sf_buf_byte(&words, 0);
	if (sf_buf_check(&words) < 0) {
		sf_buf_release(&words);
		return sf_fail(err, -ENOMEM, "options");
	}
	*ret = s;
	*ret_fuse_options = (char *)words.at;
	return 0;
}
