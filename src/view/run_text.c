#include "config.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/path.h"
#include "view/run_text.h"

bool sf_run_chosen(const struct sf_run_choice *choice, const struct sf_run_step *step)
{
	if (!choice || (!choice->permanent && !choice->ephemeral))
		return true;
	return step->mark == SF_RUN_EPHEMERAL ? choice->ephemeral : choice->permanent;
}

/* Its name stands beside it. */
static const char *without_path(const char *why)
{
	const char *behind = *why == '\'' ? strstr(why, "': ") : NULL;

	if (behind)
		return behind + 3;
	behind = *why == '\'' ? strstr(why, "' is ") : NULL;
	return behind ? behind + 2 : why;
}

void sf_run_put_why(struct sf_buf *out, struct sf_run *run, uint32_t step)
{
	struct sf_error why;
	const char *text;

	sf_run_why(run, step, &why);
	text = without_path(why.msg);
	sf_escape_text(out, text, strlen(text));
}

static void put_str(struct sf_buf *out, const char *name, const char *value)
{
	sf_buf_printf(out, "\"%s\": ", name);
	sf_escape_json(out, value, strlen(value));
}

static void put_name(struct sf_buf *out, const struct sf_run_step *s)
{
	put_str(out, "name", s->name);
	if (s->number >= 0)
		sf_buf_printf(out, ", \"step\": %" PRId64, s->number);
	else
		sf_buf_str(out, ", \"step\": null");
}

static void put_complete(struct sf_buf *out, struct sf_run *run, const struct sf_run_step *s)
{
	struct sf_buf path = { .limit = 65536 };
	time_t t = (time_t)(s->mtime_ns / 1000000000);
	char when[40] = "";
	struct tm tm;

	put_name(out, s);
	sf_buf_printf(&path, "%s/%s", sf_run_store(run)->source, s->name);
	sf_buf_str(out, ", ");
	put_str(out, "path", sf_buf_cstr(&path));
	sf_buf_release(&path);
	if (s->mtime_ns && gmtime_r(&t, &tm) &&
	    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm))
		sf_buf_printf(out, ", \"mtime\": \"%s\"", when);
	if (s->mark != SF_RUN_UNMARKED)
		sf_buf_printf(out, ", \"ephemeral\": %s",
		              s->mark == SF_RUN_EPHEMERAL ? "true" : "false");
}

/* Those of one state, in order. */
static void put_list(struct sf_buf *out, struct sf_run *run, enum sf_run_state state,
                     const struct sf_run_choice *choice)
{
	uint32_t n = sf_run_nsteps(run);
	const char *comma = "";

	for (uint32_t i = 0; i < n; i++) {
		struct sf_run_step s;
		struct sf_error why;
		sf_run_step(run, i, &s);
		if (s.state != state || !sf_run_chosen(choice, &s))
			continue;
		sf_buf_printf(out, "%s\n  {", comma);
		comma = ",";
		if (state == SF_RUN_COMPLETE) {
			put_complete(out, run, &s);
		} else {
			put_name(out, &s);
			sf_run_why(run, i, &why);
			sf_buf_str(out, ", ");
			put_str(out, "why", without_path(why.msg));
		}
		sf_buf_byte(out, '}');
	}
}

void sf_run_json(struct sf_buf *out, struct sf_run *run, const struct sf_run_choice *choice)
{
	struct sf_run_step s;
	uint32_t latest;

	sf_buf_str(out, "{\"schema\": 1,\n ");
	put_str(out, "source", sf_run_store(run)->source);
	sf_buf_str(out, ",\n ");
	if (sf_run_latest(run, &latest) >= 0) {
		sf_run_step(run, latest, &s);
		put_str(out, "latest", s.name);
	} else {
		sf_buf_str(out, "\"latest\": null");
	}
	sf_buf_str(out, ",\n \"checkpoints\": [");
	put_list(out, run, SF_RUN_COMPLETE, choice);
	sf_buf_str(out, "],\n \"incomplete\": [");
	put_list(out, run, SF_RUN_INCOMPLETE, choice);
	sf_buf_str(out, "]}\n");
}

void sf_run_readme(struct sf_buf *out, struct sf_run *run)
{
	const char *source = sf_run_store(run)->source;
	uint32_t n = sf_run_nsteps(run), complete = 0, incomplete = 0, latest;
	struct sf_run_step s;

	for (uint32_t i = 0; i < n; i++) {
		sf_run_step(run, i, &s);
		complete += s.state == SF_RUN_COMPLETE;
		incomplete += s.state == SF_RUN_INCOMPLETE;
	}
	sf_buf_str(out, "A run directory, shown by shardfuse: a directory for each checkpoint of "
	                "it. Read-only.\nSource: ");
	sf_escape_text(out, source, strlen(source));
	sf_buf_printf(out, "\nHolds %" PRIu32 " complete checkpoint%s", complete,
	              complete == 1 ? "" : "s");
	if (incomplete)
		sf_buf_printf(out, "; %" PRIu32 " more %s not shown: info.json says why",
		              incomplete, incomplete == 1 ? "is" : "are");
	sf_buf_str(out, ".\n\nEach is read when it is first looked into, and has a README of its "
	                "own.\n");
	if (sf_run_latest(run, &latest) < 0)
		return;
	sf_run_step(run, latest, &s);
	sf_buf_str(out, "latest leads to ");
	sf_escape_text(out, s.name, strlen(s.name));
	sf_buf_str(out, " now. MNT stands for this directory.\n\n    "
	                "torch.load(\"MNT/latest/model.pt\", mmap=True)\n");
}
