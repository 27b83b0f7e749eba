#include "config.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "store/guard.h"
#include "tool/common.h"
#include "catalog/map_file.h"
#include "ckpt/join_rules.h"
#include "tool/progress.h"

#define FILES_WANTED 65536
#define JOIN_RULES_MAX (1 << 20) /* bytes */
#define AT(field) offsetof(struct sf_common, field)
#define SESSION(field) offsetof(struct sf_common, session.field)
#define VIEW(field) offsetof(struct sf_view_options, field)

static int parse_log_level(void *dest, const char *value, struct sf_error *err)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	struct sf_common *o = dest;
	for (unsigned i = 0; i < SF_ARRAY_LEN(names); i++)
		if (strcasecmp(value, names[i]) == 0) {
			o->log.level = (enum sf_log_level)i;
			return 0;
		}
	return sf_fail(err, -EINVAL, "'%s' is not one of error, warn, info, debug", value);
}

static int parse_cache_size(void *dest, const char *value, struct sf_error *err)
{
	struct sf_store_options *o = &((struct sf_common *)dest)->session.store;
	int r = sf_parse_size(value, &o->cache_size, err);
	o->cache_size_given = r >= 0;
	return r;
}

/* Read here, once: a daemon changes its directory. */
static int parse_join_rules(void *dest, const char *value, struct sf_error *err)
{
	struct sf_common *o = dest;
	struct sf_join_rules rules = { .n = 0 };
	FILE *f = fopen(value, "re");
	char *text = calloc(1, JOIN_RULES_MAX + 2);
	int r = 0;

	if (!f)
		r = sf_fail(err, -errno, "--join-rules %s: %s", value, strerror(errno));
	else if (!text)
		r = sf_fail(err, -ENOMEM, "--join-rules %s", value);
	if (r >= 0) {
		const size_t len = fread(text, 1, JOIN_RULES_MAX + 1, f);
		if (ferror(f))
			r = sf_fail(err, -EIO, "--join-rules %s: it cannot be read", value);
		else if (len > JOIN_RULES_MAX || strlen(text) < len)
			r = sf_fail(err, -EINVAL, "--join-rules %s: more than %d bytes, or no text",
			            value, JOIN_RULES_MAX);
		else
			r = sf_join_rules_parse(text, len, &rules, err);
		if (r < 0)
			sf_fail_ctx(err, r, "--join-rules %s", value);
	}
	if (f)
		fclose(f);
	sf_join_rules_release(&rules);
	if (r >= 0) {
		free(o->join_rules);
		o->session.join_rules = o->join_rules = text;
	} else {
		free(text);
	}
	return r;
}

static int read_config(void *dest, const char *value, struct sf_error *err);

const struct sf_opt sf_common_options[] = {
	{ "source-format", 0, SF_OPT_STR, SESSION(source_format), NULL, "NAME",
	  "read SOURCE as this format, do not guess" },
	{ "memory", 0, SF_OPT_SIZE, SESSION(memory), NULL, "SIZE",
	  "memory beyond the metadata (default: a quarter of what there is, 1G at most)" },
	{ "threads", 0, SF_OPT_UINT, SESSION(threads), NULL, "N",
	  "threads that wait for storage (default 16)" },
	{ "timeout", 0, SF_OPT_UINT, SESSION(timeout_s), NULL, "SECONDS",
	  "deadline of each read (default 60, 0: none)" },
	{ "complete", 0, SF_OPT_FLAG, SESSION(complete), NULL, NULL,
	  "refuse a damaged checkpoint" },
	{ "join-rules", 0, SF_OPT_CALL, 0, parse_join_rules, "FILE",
	  "how tensor-parallel pieces are joined (Megatron's legacy) and cut (slice), by name" },
	{ "endpoint-url", 0, SF_OPT_STR, SESSION(store.endpoint_url), NULL, "URL",
	  "s3, gs: the server to ask instead of the provider's" },
	{ "region", 0, SF_OPT_STR, SESSION(store.region), NULL, "NAME", "s3: the bucket's region" },
	{ "profile", 0, SF_OPT_STR, SESSION(store.profile), NULL, "NAME",
	  "s3: a profile of ~/.aws/config and ~/.aws/credentials" },
	{ "no-sign-request", 0, SF_OPT_FLAG, SESSION(store.no_sign_request), NULL, NULL,
	  "s3, gs: ask without credentials" },
	{ "addressing", 0, SF_OPT_STR, SESSION(store.addressing), NULL, "path|virtual|auto",
	  "s3: how a bucket is put into URLs" },
	{ "request-payer", 0, SF_OPT_FLAG, SESSION(store.request_payer), NULL, NULL,
	  "s3: pay for what is fetched" },
	{ "user-project", 0, SF_OPT_STR, SESSION(store.user_project), NULL, "NAME",
	  "gs: the project that pays for what is fetched" },
	{ "ca-bundle", 0, SF_OPT_STR, SESSION(store.ca_bundle), NULL, "FILE",
	  "https: certificates to trust instead of the system's" },
	{ "cache-dir", 0, SF_OPT_STR, SESSION(store.cache_dir), NULL, "DIR",
	  "of a server: where to keep what was fetched" },
	{ "cache-size", 0, SF_OPT_CALL, 0, parse_cache_size, "SIZE",
	  "of a server: keep so much (default 10GB, 0: nothing)" },
	{ "quiet", 'q', SF_OPT_FLAG, AT(quiet), NULL, NULL, "print errors only" },
	{ "log-level", 0, SF_OPT_CALL, 0, parse_log_level, "LEVEL", "error, warn, info or debug" },
	{ "log-file", 0, SF_OPT_STR, AT(log_file), NULL, "FILE", "log to FILE" },
	{ "config", 0, SF_OPT_CALL, 0, read_config, "FILE",
	  "read options from FILE, one name=value per line" },
	{ 0 },
};

static int parse_dtype(void *dest, const char *value, struct sf_error *err)
{
	return sf_view_cast_parse(value, &((struct sf_view_options *)dest)->dtype, err);
}

static int parse_slice(void *dest, const char *value, struct sf_error *err)
{
	return sf_view_slice_parse(value, &((struct sf_view_options *)dest)->slice_tp, err);
}

static int parse_role(void *dest, const char *value, struct sf_error *err)
{
	return sf_view_role_parse(value, &((struct sf_view_options *)dest)->role, err);
}

static int parse_objects(void *dest, const char *value, struct sf_error *err)
{
	static const char *const names[] = { "keep", "plain", "none" };
	for (unsigned i = 0; i < 3; i++)
		if (strcmp(value, names[i]) == 0) {
			((struct sf_view_options *)dest)->objects = (enum sf_objects_policy)i;
			return 0;
		}
	return sf_fail(err, -EINVAL, "'%s' is not one of keep, plain, none", value);
}

static int parse_npy_bf16(void *dest, const char *value, struct sf_error *err)
{
	static const char *const names[] = { "void", "u2", "f4" };
	for (unsigned i = 0; i < 3; i++)
		if (strcmp(value, names[i]) == 0) {
			((struct sf_view_options *)dest)->npy_bf16 = (enum sf_npy_bf16)i;
			return 0;
		}
	return sf_fail(err, -EINVAL, "'%s' is not one of void, u2, f4", value);
}

static int parse_st_dtypes(void *dest, const char *value, struct sf_error *err)
{
	struct sf_view_options *o = dest;
	o->st_all_dtypes = strcmp(value, "all") == 0;
	return o->st_all_dtypes || strcmp(value, "common") == 0
	               ? 0
	               : sf_fail(err, -EINVAL, "'%s' is neither all nor common", value);
}

static int parse_hf_strip(void *dest, const char *value, struct sf_error *err)
{
	struct sf_view_options *o = dest;
	o->hf_strip = strcmp(value, "yes") == 0;
	return o->hf_strip || strcmp(value, "no") == 0
	               ? 0
	               : sf_fail(err, -EINVAL, "'%s' is neither yes nor no", value);
}

/* What is not there, or is a file, would be an hf/ without config.json that says nothing. */
static int parse_hf_files(void *dest, const char *value, struct sf_error *err)
{
	struct sf_view_options *o = dest;
	struct stat st;

	if (stat(value, &st) < 0)
		return sf_fail_errno(err, "'%s'", value);
	if (!S_ISDIR(st.st_mode))
		return sf_fail(err, -ENOTDIR,
		               "'%s' is not a directory: name the one that has "
		               "config.json",
		               value);
	o->hf_files = value;
	return 0;
}

/* The rules of one --map, and which they are. */
static int add_map(const char *value, struct sf_map_rule **rules, size_t *n,
                   struct sf_map_arg **args, size_t *nargs, struct sf_error *err)
{
	struct sf_map_arg *at = realloc(*args, (*nargs + 1) * sizeof(*at));
	if (!at)
		return sf_fail(err, -ENOMEM, "'%s'", value);
	*args = at;
	int r = sf_map_rules_add(value, rules, n, err);
	if (r >= 0)
		at[(*nargs)++] = (struct sf_map_arg){ value, *n };
	return r;
}

static int parse_map(void *dest, const char *value, struct sf_error *err)
{
	struct sf_view_options *o = dest;
	return add_map(value, &o->map, &o->nmap, &o->map_arg, &o->nmap_arg, err);
}

static int parse_hf_map(void *dest, const char *value, struct sf_error *err)
{
	struct sf_view_options *o = dest;
	size_t n = o->nhf_map;
	int r = add_map(value, &o->hf_map, &o->nhf_map, &o->hf_map_arg, &o->nhf_map_arg, err);

	for (; r >= 0 && n < o->nhf_map; n++)
		if (o->hf_map[n].whole)
			r = sf_fail(err, -EINVAL,
			            "'%s': parts of tensors, as '%.200s', are --map's alone", value,
			            o->hf_map[n].old_name);
	return r;
}

const struct sf_opt sf_view_option_table[] = {
	{ "key", 'k', SF_OPT_STRS, VIEW(key), NULL, "KEY",
	  "show only this key and what is below it; repeatable" },
	{ "ignore", 0, SF_OPT_STRS, VIEW(ignore), NULL, "KEY",
	  "leave out this key and what is below it; repeatable" },
	{ "map", 0, SF_OPT_CALL, 0, parse_map, "OLD=NEW|@FILE",
	  "show stored name OLD as NEW; repeatable" },
	{ "hf-map", 0, SF_OPT_CALL, 0, parse_hf_map, "OLD=NEW|@FILE", "the same, for hf/ only" },
	{ "role", 0, SF_OPT_CALL, 0, parse_role, "model|optim|other",
	  "show only the keys of this role" },
	{ "model-only", 0, SF_OPT_FLAG, VIEW(model_only), NULL, NULL, "the same as --role model" },
	{ "weights-only", 0, SF_OPT_FLAG, VIEW(model_only), NULL, NULL,
	  "the same (Composer's name for it)" },
	{ "dtype", 0, SF_OPT_CALL, 0, parse_dtype, "bf16|fp16|fp32",
	  "cast the model's floating-point tensors" },
	{ "objects", 0, SF_OPT_CALL, 0, parse_objects, "keep|plain|none",
	  "objects in .pt: all, those weights_only=True accepts, none" },
	{ "st-dtypes", 0, SF_OPT_CALL, 0, parse_st_dtypes, "common|all",
	  "safetensors: all has dtypes that only recent readers know" },
	{ "npy-bf16", 0, SF_OPT_CALL, 0, parse_npy_bf16, "void|u2|f4", "how .npy shows bfloat16" },
	{ "max-shard-size", 0, SF_OPT_SIZE, VIEW(max_shard_size), NULL, "SIZE",
	  "hf: size at which model.safetensors is split (default 50GB)" },
	{ "hf-group", 0, SF_OPT_STR, VIEW(hf_group), NULL, "GROUP",
	  "hf: this group instead of the model" },
	{ "hf-name", 0, SF_OPT_STR, VIEW(hf_name), NULL, "STEM",
	  "hf: file name stem (default model)" },
	{ "hf-strip", 0, SF_OPT_CALL, 0, parse_hf_strip, "yes|no",
	  "hf: remove wrapper components such as _orig_mod (default yes)" },
	{ "hf-files", 0, SF_OPT_CALL, 0, parse_hf_files, "DIR",
	  "hf: where config.json and the tokenizer are" },
	{ "slice", 0, SF_OPT_CALL, 0, parse_slice, "tp:N",
	  "slices/tpN: the model cut for N tensor-parallel ranks" },
	{ "views", 0, SF_OPT_LIST, VIEW(views), NULL, "NAME,…",
	  "show only these: " SF_VIEW_NAMES(", ") },
	{ 0 },
};

/* "name = value" -> "name=value", in place. */
static void join_at_equals(char *s)
{
	char *eq = strchr(s, '='), *from = eq, *to = eq;

	if (!eq)
		return;
	while (to > s && isspace((unsigned char)to[-1]))
		to--;
	do
		from++;
	while (isspace((unsigned char)*from));
	*to++ = '=';
	memmove(to, from, strlen(from) + 1);
}

/* One line of a config file, blanks at its ends taken off. */
static int config_line(struct sf_common *o, char *s, struct sf_error *err)
{
	const struct sf_opt *const tables[] = { sf_common_options, sf_view_option_table, NULL };
	void *const dests[] = { o, &o->session.view };

	join_at_equals(s);
	size_t len = strcspn(s, "=");
	if (len == 6 && memcmp(s, "config", 6) == 0)
		return sf_fail(err, -EINVAL, "a config file cannot name another");
	const char **at = realloc(o->kept.at, (o->kept.n + 1) * sizeof(*at));
	char *kept = at ? strdup(s) : NULL; /* values point into it */
	if (at)
		o->kept.at = at;
	if (kept)
		at[o->kept.n++] = kept;
	int r = kept ? sf_options_word(tables, dests, kept, err) : sf_fail(err, -ENOMEM, "'%s'", s);
	if (r != 0)
		return r;
	const char *near = sf_options_near(tables, s, len);
	return sf_fail(err, -EINVAL,
	               near ? "unknown option '%.*s': did you mean %s?" : "unknown option '%.*s'",
	               (int)len, s, near);
}

#define CONFIG_MAX (1 << 20)

/* All of it, NUL behind. */
static int read_small(const char *path, char **ret, struct sf_error *err)
{
	FILE *f = fopen(path, "re");
	char *text = malloc(CONFIG_MAX + 1);
	size_t n = 0;
	int r = 0;

	if (!f)
		r = sf_fail_errno(err, "'%s'", path);
	else if (!text)
		r = sf_fail(err, -ENOMEM, "'%s'", path);
	else
		n = fread(text, 1, CONFIG_MAX + 1, f);
	if (r >= 0 && ferror(f)) /* a directory, for one */
		r = sf_fail_errno(err, "'%s'", path);
	if (r >= 0 && n > CONFIG_MAX)
		r = sf_fail(err, -E2BIG,
		            "'%s' has more than the %d bytes that a config file may have", path,
		            CONFIG_MAX);
	if (r >= 0 && memchr(text, '\0', n))
		r = sf_fail(err, -EINVAL, "'%s' holds a NUL: it is no text", path);
	if (f)
		fclose(f);
	if (r < 0) {
		free(text);
		return r;
	}
	text[n] = '\0';
	*ret = text;
	return 0;
}

/* Lines name=value, blanks around the = or none; # begins a comment line. Names nobody knows are an
 * error, as on the command line. */
static int read_config(void *dest, const char *value, struct sf_error *err)
{
	char *text, *next;
	unsigned n = 0;
	int r = read_small(value, &text, err);

	if (r < 0)
		return r;
	for (char *s = text; s && r >= 0; s = next) {
		next = strchr(s, '\n');
		char *e = next ? next : s + strlen(s);
		next = next ? next + 1 : NULL;
		*e = 0;
		n++;
		while (e > s && isspace((unsigned char)e[-1]))
			*--e = 0;
		while (isspace((unsigned char)*s))
			s++;
		if (!*s || *s == '#')
			continue;
		r = config_line(dest, s, err);
		if (r < 0)
			r = sf_fail_ctx(err, r, "'%s' line %u", value, n);
	}
	free(text);
	return r < 0 ? r : 0;
}

/* Opened at the first line, because the option that names the file may come after whoever took a
 * pointer to the log. */
static void write_log(void *arg, enum sf_log_level level, const char *line)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	const struct sf_common *o = arg;
	struct sf_buf text = { .limit = 65536 };

	if (o->quiet && !o->log_file && level > SF_LOG_ERROR)
		return;
	FILE *f = o->log_file ? fopen(o->log_file, "ae") : stderr;

	if (!f)
		return; /* nowhere to say so */
	sf_escape_text(&text, line, strlen(line));
	sf_terminal_lock();
	if (o->log_file) {
		char when[32] = "";
		time_t now = time(NULL);
		struct tm tm;
		if (gmtime_r(&now, &tm))
			strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ ", &tm);
		fprintf(f, "%s", when);
	}
	fprintf(f, "shardfuse: %s: %s\n", names[level], sf_buf_cstr(&text));
	sf_terminal_unlock();
	sf_buf_release(&text);
	if (f != stderr)
		fclose(f);
}

void sf_common_init(struct sf_common *o)
{
	*o = (struct sf_common){ .quiet = false };
	sf_session_options_init(&o->session);
	o->log = (struct sf_log){ .write = write_log, .arg = o, .level = SF_LOG_WARN };
	o->session.log = &o->log;
}

/* Shells give 1,024 files and mostly allow many more: what the process may have it takes, as far as
 * that is any use. */
static void raise_open_files(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur >= FILES_WANTED)
		return;
	lim.rlim_cur = SF_MIN(lim.rlim_max, (rlim_t)FILES_WANTED);
	(void)setrlimit(RLIMIT_NOFILE, &lim); /* fewer do as well */
}

void sf_common_program(struct sf_common *o)
{
	const char *trace = getenv("SF_TRACE");

	raise_open_files();
	o->session.guard = sf_guard_install() >= 0;
	if (!trace || !*trace)
		return;
	o->session.trace_fd = open(trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (o->session.trace_fd < 0)
		sf_log(&o->log, SF_LOG_ERROR, "SF_TRACE='%.300s': %s: reads are not traced", trace,
		       strerror(errno));
}

void sf_common_release(struct sf_common *o)
{
	if (o->session.trace_fd >= 0)
		close(o->session.trace_fd);
	for (size_t i = 0; i < o->kept.n; i++)
		free((void *)(uintptr_t)o->kept.at[i]);
	free(o->kept.at);
	free(o->session.view.key.at);
	free(o->session.view.ignore.at);
	for (size_t i = 0; i < o->session.view.views.n; i++)
		free((void *)(uintptr_t)o->session.view.views.at[i]);
	free(o->session.view.views.at);
	free(o->join_rules);
	free(o->session.view.map_arg);
	free(o->session.view.hf_map_arg);
	sf_map_rules_free(o->session.view.map, o->session.view.nmap);
	sf_map_rules_free(o->session.view.hf_map, o->session.view.nhf_map);
}
