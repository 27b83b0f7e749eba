#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/quote.h"
#include "format/run.h"
#include "fuse/mount_notes.h"
#include "view/damage.h"

/* Takes what is in @b. */
static void add(struct sf_mount_notes *n, struct sf_buf *b)
{
	char *line = sf_buf_check(b) >= 0 ? strdup(sf_buf_cstr(b)) : NULL;

	if (line)
		n->line[n->n++] = line;
	sf_buf_release(b);
}

static void add_damage(struct sf_mount_notes *n, const struct sf_session *s)
{
	struct sf_damage_list l;
	uint32_t lines, shown;

	if (sf_damage_fold(s->catalog, &l) < 0)
		l.n = 0;
	lines = SF_MIN(l.n, (uint32_t)SF_MOUNT_DAMAGE_LINES);
	shown = lines < l.n ? lines - 1 : lines;
	for (uint32_t i = 0; i < lines; i++) {
		struct sf_buf b = { .limit = 1 << 16 };
		sf_buf_str(&b, "warning: ");
		if (i < shown)
			sf_damage_text(&b, s->catalog, &l.at[i]);
		else
			sf_buf_printf(&b, "%" PRIu32 " more like these", l.n - shown);
		if (i + 1 == lines) {
			sf_buf_str(&b, " (shardfuse verify ");
			sf_quote_shell_message(&b, s->store->source, "SOURCE");
			sf_buf_byte(&b, ')');
		}
		add(n, &b);
	}
	sf_damage_release(&l);
}

void sf_mount_notes_make(struct sf_mount_notes *n, const struct sf_session *s,
                         const char *mountpoint, bool hides_files)
{
	struct sf_buf b = { .limit = 1 << 16 };
	uint32_t step;
	sf_node hf;

	*n = (struct sf_mount_notes){ 0 };
	add_damage(n, s);
	if (hides_files) {
		sf_buf_printf(&b,
		              "warning: mountpoint '%s' is not empty: what is in it is hidden "
		              "until the unmount (-o nonempty: do not say so)",
		              mountpoint);
		add(n, &b);
	}
	n->nwarnings = n->n;
	if (s->run && sf_run_next(s->run, 0, &step) == NULL) {
		b = (struct sf_buf){ .limit = 4096 };
		sf_buf_str(&b,
		           "note: a run directory without a complete checkpoint yet: its info.json "
		           "says of each why");
		add(n, &b);
	}
	if (!s->view.hf_files_found && sf_tree_lookup(s->tree, SF_NODE_ROOT, "hf", 2, &hf) >= 0) {
		b = (struct sf_buf){ .limit = 4096 };
		sf_buf_str(&b, "note: hf/ has no config.json: add -o hf_files=DIR for "
		               "from_pretrained");
		add(n, &b);
	}
}

void sf_mount_notes_say(const struct sf_mount_notes *n, const struct sf_common *common,
                        bool foreground)
{
	for (unsigned i = 0; i < n->n; i++) {
		struct sf_buf text = { .limit = 1 << 18 };
		sf_escape_text(&text, n->line[i], strlen(n->line[i]));
		if (!common->quiet)
			fprintf(stderr, "shardfuse: %s\n", sf_buf_cstr(&text));
		sf_buf_release(&text);
		/* "warning" is a level there */
		if (i < n->nwarnings && (!foreground || common->log_file))
			sf_log(&common->log, SF_LOG_WARN, "%s", strchr(n->line[i], ' ') + 1);
	}
}

void sf_mount_notes_release(struct sf_mount_notes *n)
{
	for (unsigned i = 0; i < n->n; i++)
		free(n->line[i]);
	n->n = 0;
}
