#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/expect.h"
#include "cli/text.h"
#include "cli/verify_deep.h"

struct verify_options {
	bool deep, json;
	const char *expect, *strict;
};

enum { VERIFY_OK = 0, VERIFY_DEFECT = 1, VERIFY_UNKNOWN = 2 };

static const struct sf_opt options[] = {
	{ "deep", 0, SF_OPT_FLAG, offsetof(struct verify_options, deep), NULL, NULL,
	  "read everything, check CRCs" },
	{ "expect", 0, SF_OPT_STR, offsetof(struct verify_options, expect), NULL, "FILE",
	  "keys that must be there: a line KEY [DTYPE [SHAPE]] each" },
	{ "strict", 0, SF_OPT_STR, offsetof(struct verify_options, strict), NULL, "MODE",
	  "assume_ok_unexpected, log_*, raise_*, return_* (unexpected|all), ignore_all" },
	{ "json", 0, SF_OPT_FLAG, offsetof(struct verify_options, json), NULL, NULL,
	  "for machines" },
	{ 0 },
};

struct verify {
	const struct verify_options *o;
	const struct sf_catalog *c;
	unsigned defects;
};

static void report(struct verify *v, const char *key, size_t key_len, const char *code,
                   const char *text)
{
	if (v->o->json) {
		printf("%s\n  {\"key\": ", v->defects ? "," : "");
		if (key)
			sf_put_json(stdout, key, key_len);
		else
			printf("null");
		printf(", \"code\": ");
		sf_put_json(stdout, code, strlen(code));
		printf(", \"text\": ");
		sf_put_json(stdout, text, strlen(text));
		putchar('}');
	} else {
		printf("%s: ", code);
		if (key) {
			sf_put_name(stdout, key, key_len);
			printf(": ");
		}
		sf_put_name(stdout, text, strlen(text));
		putchar('\n');
	}
	v->defects++;
}

static void deep_defect(void *arg, uint32_t entry, const char *code, const char *text)
{
	struct verify *v = arg;
	report(v, v->c->entry[entry].name, v->c->entry[entry].len, code, text);
}

static void print_list(const char *name, const struct sf_strs *l, bool json)
{
	if (json)
		printf(",\n \"%s\": [", name);
	for (size_t i = 0; i < l->n; i++) {
		if (json) {
			printf(i ? ", " : "");
			sf_put_json(stdout, l->at[i], strlen(l->at[i]));
		} else {
			printf("%s: ", name);
			sf_put_name(stdout, l->at[i], strlen(l->at[i]));
			putchar('\n');
		}
	}
	if (json)
		putchar(']');
}

/* Returns a code of ours. */
static int check_expected(struct verify *v, const struct sf_strict *strict)
{
	struct sf_expect_report r = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	int code = VERIFY_OK;

	if (sf_expect_compare(v->c, v->o->expect, &r, &err) < 0) {
		sf_cli_error(0, &err);
		code = VERIFY_UNKNOWN;
	} else {
		static const struct sf_strs none;
		print_list("missing", strict->missing ? &r.missing : &none, v->o->json);
		print_list("unexpected", strict->unexpected ? &r.unexpected : &none, v->o->json);
		print_list("mismatched", &r.mismatched, v->o->json);
		if (r.mismatched.n || (strict->fails && ((strict->missing && r.missing.n) ||
		                                         (strict->unexpected && r.unexpected.n))))
			code = VERIFY_DEFECT;
	}
	sf_expect_release(&r);
	return code;
}

static const char *verdict(int code)
{
	return code == VERIFY_OK ? "ok" : code == VERIFY_DEFECT ? "defects" : "could not tell";
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct verify_options *o = opt;
	const struct sf_strict *strict =
		sf_strict_by_name(o->strict ? o->strict : "assume_ok_unexpected");
	struct verify v = { .o = o };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_progress progress;
	struct sf_session s;
	int code = VERIFY_OK;
	(void)argc;

	if (!strict) {
		sf_fail(&err, -EINVAL,
		        "--strict %s: assume_ok_unexpected, log_unexpected, log_all, "
		        "raise_unexpected, raise_all, return_unexpected, return_all or ignore_all",
		        o->strict);
		return sf_cli_error(SF_EXIT_USAGE, &err);
	}
	if (sf_session_open(&s, common, argv[0], &err) < 0)
		return sf_cli_error(VERIFY_UNKNOWN, &err);
	v.c = s.catalog;
	sf_progress_init(&progress, common->quiet);
	struct sf_deep deep = { .s = &s, .progress = &progress, .defect = deep_defect, .arg = &v };

	if (o->json)
		printf("{\"schema\": 1, \"defects\": [");
	for (uint32_t i = 0; i < s.ckpt->nwarnings; i++) {
		const struct sf_warning *w = &s.ckpt->warning[i];
		const struct sf_key *k = w->key == SF_NONE ? NULL : &s.ckpt->key[w->key];
		report(&v, k ? k->name : NULL, k ? k->len : 0, w->code, w->text);
	}
	if (o->deep && sf_verify_deep(&deep, &err) < 0)
		code = sf_cli_error(VERIFY_UNKNOWN, &err);
	sf_progress_end(&progress);
	if (o->json)
		printf("%s]", v.defects ? "\n " : "");
	if (v.defects && code == VERIFY_OK)
		code = VERIFY_DEFECT;
	if (o->expect) {
		int e = check_expected(&v, strict);
		code = SF_MAX(code, e);
	}
	if (o->json)
		printf(",\n \"deep\": %s, \"tensors\": %" PRIu64 ", \"objects\": %" PRIu64
		       ", \"bytes_read\": %" PRIu64 ", \"crcs_checked\": %" PRIu64
		       ", \"ok\": %s}\n",
		       o->deep ? "true" : "false", deep.tensors, deep.objects, deep.bytes,
		       deep.checked_crcs, code == VERIFY_OK ? "true" : "false");
	else if (o->deep)
		printf("%" PRIu64 " tensors, %" PRIu64 " objects, %" PRIu64 " bytes read, %" PRIu64
		       " CRCs checked: %s\n",
		       deep.tensors, deep.objects, deep.bytes, deep.checked_crcs, verdict(code));
	else
		printf("%" PRIu32 " tensors, %" PRIu32 " objects, %" PRIu32 " files: %s\n",
		       v.c->ntensors, v.c->nobjects, s.ckpt->nfiles, verdict(code));
	sf_session_close(&s);
	return code;
}

const struct sf_cmd sf_cmd_verify = {
	.name = "verify",
	.usage = "SOURCE [--deep] [--expect FILE [--strict MODE]] [--json]",
	.about = "tiling, bounds, files present and long enough; exit 1 a defect, 2 could not tell",
	.example = "shardfuse verify --deep /ckpt/step1000",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 1,
	.max_args = 1,
	.opt_size = sizeof(struct verify_options),
	.run = run,
};
