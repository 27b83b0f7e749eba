#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/put_damage.h"
#include "cli/expect.h"
#include "cli/text.h"
#include "cli/verify_deep.h"
#include "cli/verify_manifest.h"
#include "tool/claims.h"

struct verify_options {
	bool deep, json;
	const char *expect, *strict;
};

enum { VERIFY_OK = 0, VERIFY_DEFECT = 1, VERIFY_UNKNOWN = 2 };

static const struct sf_opt options[] = {
	{ "deep", 0, SF_OPT_FLAG, offsetof(struct verify_options, deep), NULL, NULL,
	  "read everything, check CRCs, and SHA-256 where a save wrote a manifest" },
	{ "expect", 0, SF_OPT_STR, offsetof(struct verify_options, expect), NULL, "FILE",
	  "keys that must exist: one KEY [DTYPE [SHAPE]] per line" },
	{ "strict", 0, SF_OPT_STR, offsetof(struct verify_options, strict), NULL, "MODE",
	  "assume_ok_unexpected, log_*, raise_*, return_* (unexpected|all), ignore_all" },
	{ "json", 0, SF_OPT_FLAG, offsetof(struct verify_options, json), NULL, NULL, "print JSON" },
	{ 0 },
};

struct verify {
	const struct verify_options *o;
	const struct sf_catalog *c;
	struct sf_progress *progress;
	unsigned defects;
	uint64_t sha256; /* files of a save's manifest that were checked */
};

/* A JSON member's name and its text; "" before the first of an object, ", " before the others. */
static void member(const char *sep, const char *name, const char *s, size_t len)
{
	printf("%s\"%s\": ", sep, name);
	if (s)
		sf_put_json(stdout, s, len);
	else
		printf("null");
}

static void text_member(const char *name, const char *s)
{
	member(", ", name, s, strlen(s));
}

static const struct sf_entry *entry_at(const struct verify *v, uint32_t entry)
{
	return entry == SF_NONE ? NULL : &v->c->entry[entry];
}

static void report(struct verify *v, const struct sf_damage_one *d)
{
	const struct sf_entry *e = entry_at(v, d->entry);

	sf_progress_end(v->progress);
	if (v->o->json) {
		printf("%s\n  {", v->defects ? "," : "");
		member("", "key", e ? e->name : NULL, e ? e->len : 0);
		text_member("code", d->code);
		if (d->file)
			member(", ", "file", d->file->name, d->file->name_len);
		text_member("text", d->text);
		putchar('}');
	} else {
		printf("%s: ", d->code);
		if (e) {
			sf_put_name(stdout, e->name, e->len);
			printf(": ");
		}
		sf_put_name(stdout, d->text, strlen(d->text));
		putchar('\n');
	}
	v->defects++;
}

static int found(void *arg, const struct sf_damage_one *d)
{
	report(arg, d);
	return 0;
}

static void deep_defect(void *arg, uint32_t entry, const char *code, const char *text)
{
	sf_terminal_lock();
	report(arg, &(struct sf_damage_one){ .entry = entry, .code = code, .text = text });
	fflush(stdout);
	sf_terminal_unlock();
}

static void file_defect(void *arg, const char *code, const char *text)
{
	deep_defect(arg, SF_NONE, code, text);
}

/* What the load found: folded, a line per file and cause, then each. */
static int report_damage(struct verify *v, struct sf_error *err)
{
	struct sf_damage_list folds;
	int r = sf_damage_fold(v->c, &folds);

	if (v->o->json)
		printf("{\"schema\": 1, \"damage\": [");
	for (uint32_t i = 0; v->o->json && i < folds.n && r >= 0; i++) {
		struct sf_buf b = { 0 };
		sf_damage_json(&b, v->c, &folds.at[i]);
		printf("%s\n  %s", i ? "," : "", sf_buf_cstr(&b));
		r = sf_buf_check(&b);
		sf_buf_release(&b);
	}
	if (v->o->json)
		printf("%s],\n \"defects\": [", folds.n ? "\n " : "");
	else if (folds.n) {
		sf_put_damage(stdout, v->c, &folds, "", UINT32_MAX);
		putchar('\n');
	}
	sf_damage_release(&folds);
	if (r >= 0)
		r = sf_damage_each(v->c, found, v);
	return r < 0 ? sf_fail(err, r, "%" PRIu32 " keys", v->c->n) : 0;
}

/* Items that are shorter than what they are said to hold, where nothing compresses them: the load
 * knows no more than their lengths, a stride of 0 may be the reason. */
static int report_claims(struct verify *v, struct sf_session *s, struct sf_error *err)
{
	for (uint32_t e = 0; e < v->c->n; e++) {
		uint32_t tensor = v->c->entry[e].tensor;
		struct sf_error why = SF_ERROR_INIT;
		if (tensor == SF_NONE || v->c->ckpt->tensor[tensor].flags & SF_TENSOR_DAMAGED)
			continue; /* that has been said */
		int r = sf_claims_check_tensor(s, tensor, &why);
		if (r == -EBADMSG)
			report(v, &(struct sf_damage_one){
					  .entry = e, .code = "short-item", .text = why.msg });
		else if (r < 0 && r != -ENOTSUP && r != -E2BIG) /* no reading it: not asked here */
			return sf_fail(err, r, "%s", why.msg);
	}
	return 0;
}

static void print_name(bool json, const char *list, bool first, const char *s, size_t len)
{
	if (json) {
		printf(first ? "" : ", ");
		sf_put_json(stdout, s, len);
	} else {
		printf("%s: ", list);
		sf_put_name(stdout, s, len);
		putchar('\n');
	}
}

static void print_mismatches(const struct verify *v, const struct sf_expect_report *r)
{
	for (size_t i = 0; i < r->nmismatched; i++) {
		const struct sf_mismatch *m = &r->mismatched[i];
		const struct sf_entry *e = entry_at(v, m->entry);
		if (v->o->json) {
			member(i ? ",\n  {" : "\n  {", "key", e->name, e->len);
			text_member("expected", m->expected);
			text_member("found", m->found);
			putchar('}');
		} else {
			printf("mismatched: ");
			sf_put_name(stdout, e->name, e->len);
			printf(": expected ");
			sf_put_name(stdout, m->expected, strlen(m->expected));
			printf(", found %s\n", m->found);
		}
	}
}

static void print_report(const struct verify *v, const struct sf_strict *strict,
                         const struct sf_expect_report *r)
{
	bool json = v->o->json;

	if (json)
		printf(",\n \"missing\": [");
	for (size_t i = 0; i < r->missing.n && strict->missing; i++)
		print_name(json, "missing", !i, r->missing.at[i], strlen(r->missing.at[i]));
	if (json)
		printf("],\n \"unexpected\": [");
	for (size_t i = 0; i < r->nunexpected && strict->unexpected; i++) {
		const struct sf_entry *e = entry_at(v, r->unexpected[i]);
		print_name(json, "unexpected", !i, e->name, e->len);
	}
	if (json)
		printf("],\n \"mismatched\": [");
	print_mismatches(v, r);
	if (json)
		printf("]");
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
		print_report(v, strict, &r);
		if (r.nmismatched || (strict->fails && ((strict->missing && r.missing.n) ||
		                                        (strict->unexpected && r.nunexpected))))
			code = VERIFY_DEFECT;
	}
	sf_expect_release(&r);
	return code;
}

/* Files that are there and that this user may not read: nothing is known of what is in them. */
static unsigned report_unreadable(struct verify *v, const struct sf_session *s)
{
	const struct sf_ckpt *k = s->ckpt;
	unsigned n = 0;

	if (v->o->json)
		printf(",\n \"unreadable\": [");
	for (uint32_t i = 0; i < k->nfiles; i++) {
		const struct sf_file *f = &k->file[i];
		struct sf_error err = SF_ERROR_INIT;
		if (f->missing || s->store->far || !s->store->ops->fd)
			continue;
		int fd = s->store->ops->fd(s->store, f->name, &f->info, &err);
		if (fd >= 0)
			close(fd);
		if (fd >= 0 || fd == -ESTALE || fd == -EMFILE || fd == -ENOTSUP)
			continue;
		const char *text = strerror(-fd);
		if (v->o->json) {
			member(n ? ",\n  {" : "\n  {", "file", f->name, f->name_len);
			text_member("text", text);
			putchar('}');
		} else {
			printf("could not tell: ");
			sf_put_name(stdout, f->name, f->name_len);
			printf(": %s\n", text);
		}
		n++;
	}
	if (v->o->json)
		printf("%s]", n ? "\n " : "");
	return n;
}

static const char *verdict(int code)
{
	return code == VERIFY_OK ? "ok" : code == VERIFY_DEFECT ? "defects" : "could not tell";
}

static void print_totals(const struct verify *v, const struct sf_deep *d, const struct sf_ckpt *k,
                         int code)
{
	if (v->o->json) {
		printf(",\n \"deep\": %s, \"tensors\": %" PRIu64 ", \"objects\": %" PRIu64
		       ", \"files\": %" PRIu32 ", \"bytes_read\": %" PRIu64
		       ", \"crcs_checked\": %" PRIu64 ", \"manifest_files\": %" PRIu64
		       ", \"ok\": %s}\n",
		       v->o->deep ? "true" : "false", d->tensors, d->objects, k->nfiles, d->bytes,
		       d->checked_crcs, v->sha256, code == VERIFY_OK ? "true" : "false");
		return;
	}
	printf("%" PRIu64 " tensor%s, %" PRIu64 " object%s, ", d->tensors, sf_plural(d->tensors),
	       d->objects, sf_plural(d->objects));
	if (v->o->deep)
		printf("%" PRIu64 " byte%s read, %" PRIu64 " CRC%s checked", d->bytes,
		       sf_plural(d->bytes), d->checked_crcs, sf_plural(d->checked_crcs));
	if (v->sha256)
		printf(", %" PRIu64 " file%s of the manifest", v->sha256, sf_plural(v->sha256));
	else
		printf("%" PRIu32 " file%s", k->nfiles, sf_plural(k->nfiles));
	printf(": %s\n", verdict(code));
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
		        "--strict %s: expected assume_ok_unexpected, log_unexpected, log_all, "
		        "raise_unexpected, raise_all, return_unexpected, return_all or ignore_all",
		        o->strict);
		return sf_cli_error(SF_EXIT_USAGE, &err);
	}
	if (sf_session_open(&s, &common->session, argv[0], &err) < 0)
		return sf_cli_error(VERIFY_UNKNOWN, &err);
	v.c = s.catalog;
	v.progress = &progress;
	sf_progress_init(&progress, common->quiet);
	struct sf_deep deep = { .s = &s, .progress = &progress, .defect = deep_defect, .arg = &v };

	if (report_damage(&v, &err) < 0)
		code = sf_cli_error(VERIFY_UNKNOWN, &err);
	if (!o->deep) { /* looked at, if not read */
		deep.tensors = v.c->ntensors;
		deep.objects = v.c->nobjects;
		if (code == VERIFY_OK && report_claims(&v, &s, &err) < 0)
			code = sf_cli_error(VERIFY_UNKNOWN, &err);
	} else if (code == VERIFY_OK) {
		struct sf_manifest_check manifest = {
			.s = &s, .progress = &progress, .defect = file_defect, .arg = &v
		};
		if (sf_verify_deep(&deep, &err) < 0 || sf_verify_manifest(&manifest, &err) < 0)
			code = sf_cli_error(VERIFY_UNKNOWN, &err);
		v.sha256 = manifest.files;
	}
	sf_progress_end(&progress);
	if (o->json)
		printf("%s]", v.defects ? "\n " : "");
	if (v.defects && code == VERIFY_OK)
		code = VERIFY_DEFECT;
	if (report_unreadable(&v, &s))
		code = VERIFY_UNKNOWN;
	if (o->expect) {
		int e = check_expected(&v, strict);
		code = SF_MAX(code, e);
	}
	print_totals(&v, &deep, s.ckpt, code);
	sf_session_close(&s);
	return code;
}

const struct sf_cmd sf_cmd_verify = {
	.name = "verify",
	.usage = "SOURCE [--deep] [--expect FILE [--strict MODE]] [--json]",
	.about = "check that chunks cover every tensor and files are whole; exit 1: a defect, 2: "
		 "could not tell",
	.example = "shardfuse verify --deep /ckpt/step1000",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 1,
	.max_args = 1,
	.opt_size = sizeof(struct verify_options),
	.run = run,
};
