#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/columns.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/terminal.h"

enum { LOOKED_AT = 2048, GAP = 2 };

bool sf_terminal_binary(const char *s, size_t len)
{
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		uint32_t c;
		n = sf_utf8_next(s + i, len - i, &c);
		if (!n) /* at the end it may be a character that goes on */
			return len < LOOKED_AT || len - i >= 4;
		if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f') ||
		    (c >= 0x7f && c < 0xa0))
			return true;
	}
	return false;
}

int sf_terminal_check(struct sf_vfile *f, const char *name, struct sf_error *err)
{
	char head[LOOKED_AT];

	if (!isatty(STDOUT_FILENO))
		return 0;
	int64_t n = sf_vfile_pread(f, 0, head, SF_MIN(f->size, (uint64_t)sizeof(head)), err);
	if (n < 0)
		return (int)n;
	if (!sf_terminal_binary(head, (size_t)n))
		return 0;
	return sf_fail(err, -EPERM,
	               "'%s' is binary and would garble the terminal: redirect it to a file (> "
	               "FILE), or pipe it (| cat) to see it anyway",
	               name);
}

size_t sf_terminal_width(FILE *f)
{
	const char *env = getenv("COLUMNS");
	struct winsize w;

	if (env && atoi(env) > 0)
		return (size_t)atoi(env);
	return ioctl(fileno(f), TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 80;
}

void sf_put_columns(FILE *f, char *const *name, size_t n, size_t width)
{
	SF_FREE size_t *wide = sf_alloc_array(n, sizeof(*wide)); /* of each name */
	size_t columns = SF_MIN(n, width / (GAP + 1)), rows = n;

	for (size_t i = 0; wide && i < n; i++)
		wide[i] = sf_columns(name[i], strlen(name[i]));
	for (; wide && columns > 1; columns--) {
		size_t sum = 0;
		rows = (n + columns - 1) / columns;
		for (size_t c = 0; c * rows < n && sum <= width + GAP; c++) {
			size_t widest = 0;
			for (size_t i = c * rows; i < SF_MIN(n, (c + 1) * rows); i++)
				widest = SF_MAX(widest, wide[i]);
			sum += widest + GAP;
		}
		if (sum <= width + GAP)
			break;
	}
	if (!wide || columns <= 1)
		rows = n;
	for (size_t r = 0; r < rows; r++) {
		for (size_t i = r; i < n; i += rows) {
			size_t c = i / rows, widest = 0;
			fputs(name[i], f);
			if (i + rows >= n)
				break;
			for (size_t k = c * rows; k < (c + 1) * rows; k++)
				widest = SF_MAX(widest, wide[k]);
			fprintf(f, "%*s", (int)(widest - wide[i] + GAP), "");
		}
		putc('\n', f);
	}
}
