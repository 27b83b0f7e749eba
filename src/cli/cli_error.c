#include "config.h"
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/cli.h"
#include "store/url.h"
#include "tool/progress.h"

int sf_cli_error(int code, const struct sf_error *err)
{
	struct sf_buf text = { .limit = 16384 };
	/* names are told as they were typed, and one may be a URL with a password in the wrong place */
	SF_FREE char *msg = sf_url_scrub(err->msg);

	sf_escape_text(&text, msg ? msg : "out of memory", strlen(msg ? msg : "out of memory"));
	sf_terminal_lock();
	fprintf(stderr, "shardfuse: %s\n", sf_buf_cstr(&text));
	sf_terminal_unlock();
	sf_buf_release(&text);
	return code;
}
