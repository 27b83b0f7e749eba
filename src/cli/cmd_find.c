#include "config.h"
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/text.h"
#include "view/run_text.h"

enum { NONE = 1, COULD_NOT_TELL = 2 };

struct find_options {
	bool json;
	struct sf_run_choice choice;
};

static const struct sf_opt options[] = {
	{ "permanent", 0, SF_OPT_FLAG, offsetof(struct find_options, choice.permanent), NULL, NULL,
	  "only those that the trainer means to keep" },
	{ "ephemeral", 0, SF_OPT_FLAG, offsetof(struct find_options, choice.ephemeral), NULL, NULL,
	  "only those that it will delete (OLMo-core marks them)" },
	{ "json", 0, SF_OPT_FLAG, offsetof(struct find_options, json), NULL, NULL, "print JSON" },
	{ 0 },
};

/* SOURCE opened, and its steps. Both are the caller's to end. */
static int open_run(const struct sf_common *common, const char *source, struct sf_session *s,
                    struct sf_run **ret, struct sf_error *err)
{
	int r = sf_session_store(s, &common->session, source, err);

	if (r < 0)
		return r;
	r = sf_run_new(s->store, common->session.source_format, 0, ret, err);
	if (r < 0)
		sf_session_close(s);
	return r;
}

static size_t name_width(struct sf_run *run)
{
	uint32_t n = sf_run_nsteps(run);
	struct sf_run_step step;
	size_t width = 0;

	for (uint32_t i = 0; i < n; i++) {
		sf_run_step(run, i, &step);
		width = SF_MAX(width, strlen(step.name));
	}
	return width;
}

/* One step's line. */
static void put_step(struct sf_run *run, uint32_t i, const struct sf_run_step *s, size_t width)
{
	static const char *const marks[] = { [SF_RUN_UNMARKED] = "complete",
		                             [SF_RUN_PERMANENT] = "permanent",
		                             [SF_RUN_EPHEMERAL] = "ephemeral" };
	struct sf_buf line = { .limit = 65536 };
	char when[40] = "";

	sf_escape_text(&line, s->name, strlen(s->name));
	for (size_t k = strlen(s->name); k < width; k++)
		sf_buf_byte(&line, ' ');
	if (s->state == SF_RUN_COMPLETE) {
		if (s->mtime_ns)
			sf_time_text(s->mtime_ns, when);
		sf_buf_printf(&line, "  %-10s  %s%s", marks[s->mark], when, *when ? "  " : "");
		const char *source = sf_run_store(run)->source;
		sf_escape_text(&line, source, strlen(source));
		sf_buf_byte(&line, '/');
		sf_escape_text(&line, s->name, strlen(s->name));
	} else {
		sf_buf_str(&line, "  incomplete  ");
		sf_run_put_why(&line, run, i);
	}
	puts(sf_buf_cstr(&line));
	sf_buf_release(&line);
}

/* How many complete ones were chosen. */
static uint32_t put_steps(struct sf_run *run, const struct find_options *o)
{
	uint32_t n = sf_run_nsteps(run), found = 0;
	size_t width = name_width(run);
	struct sf_run_step step;

	for (uint32_t i = 0; i < n; i++) {
		sf_run_step(run, i, &step);
		if (step.state == SF_RUN_GONE || !sf_run_chosen(&o->choice, &step))
			continue;
		/* who asks for one kind has no use for those that are neither */
		if (step.state == SF_RUN_INCOMPLETE && (o->choice.ephemeral || o->choice.permanent))
			continue;
		found += step.state == SF_RUN_COMPLETE;
		if (!o->json)
			put_step(run, i, &step, width);
	}
	return found;
}

static int run_find(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct find_options *o = opt;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_session s;
	struct sf_run *run;
	uint32_t found;
	(void)argc;

	if (open_run(common, argv[0], &s, &run, &err) < 0)
		return sf_cli_error(COULD_NOT_TELL, &err);
	int r = sf_run_read_marks(run, &err);
	found = r < 0 ? 0 : put_steps(run, o);
	if (r >= 0 && o->json) {
		struct sf_buf b = { 0 };
		sf_run_json(&b, run, &o->choice);
		r = sf_buf_check(&b);
		if (r >= 0)
			fwrite(b.at, 1, b.len, stdout);
		sf_buf_release(&b);
	}
	if (r >= 0 && !found && !o->json)
		sf_fail(&err, -ENOENT, "'%s': no complete checkpoint%s in it", s.store->source,
		        o->choice.ephemeral || o->choice.permanent ? " of that kind" : "");
	sf_run_free(run);
	sf_session_close(&s);
	if (r < 0 || (!found && err.msg[0]))
		sf_cli_error(0, &err);
	return r < 0 ? COULD_NOT_TELL : found ? SF_EXIT_OK : NONE;
}

const struct sf_cmd sf_cmd_find = {
	.name = "find",
	.usage = "RUN [--permanent] [--ephemeral] [--json]",
	.about = "list the checkpoints of a run, and why others are not complete",
	.example = "shardfuse find /ckpt/run1\n"
		   "shardfuse find s3://bucket/run1 --permanent",
	.options = options,
	.common = true,
	.min_args = 1,
	.max_args = 1,
	.opt_size = sizeof(struct find_options),
	.run = run_find,
};

static int run_latest(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_run_step step;
	struct sf_session s;
	struct sf_run *run;
	uint32_t latest;
	int code = SF_EXIT_OK;
	(void)opt, (void)argc;

	if (open_run(common, argv[0], &s, &run, &err) < 0)
		return sf_cli_error(COULD_NOT_TELL, &err);
	if (sf_run_latest(run, &latest) >= 0) {
		sf_run_step(run, latest, &step);
		printf("%s/%s\n", s.store->source, step.name);
	} else {
		sf_fail(&err, -ENOENT,
		        "'%s': no complete checkpoint in it (shardfuse find says why, unless it "
		        "is one itself)",
		        s.store->source);
		code = sf_cli_error(NONE, &err);
	}
	sf_run_free(run);
	sf_session_close(&s);
	return code;
}

const struct sf_cmd sf_cmd_latest = {
	.name = "latest",
	.usage = "RUN",
	.about = "print the path of a run's latest complete checkpoint",
	.example = "shardfuse info \"$(shardfuse latest /ckpt/run1)\"",
	.common = true,
	.min_args = 1,
	.max_args = 1,
	.run = run_latest,
};
