#include "config.h"
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "base/path.h"
#include "cli/cli.h"
#include "tool/progress.h"

int sf_cli_error(int code, const struct sf_error *err)
{
	struct sf_buf text = { .limit = 16384 };
	sf_escape_text(&text, err->msg, strlen(err->msg));
	sf_terminal_lock();
	fprintf(stderr, "shardfuse: %s\n", sf_buf_cstr(&text));
	sf_terminal_unlock();
	sf_buf_release(&text);
	return code;
}
