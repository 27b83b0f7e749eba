#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mountinfo.h"

/* mountinfo writes blank, tab, newline and backslash as \ooo. In place. */
static void unescape(char *s)
{
	char *to = s;
	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = 0;
}

/* Source: proc(5): "36 35 98:0 /root /target opts optional… - type source superopts". 1 ours, 0
 * another's. */
static int parse_line(char *line, struct sf_mountinfo *m)
{
	char *save = NULL, *field;
	int i = 0;

	for (field = strtok_r(line, " \n", &save); field && strcmp(field, "-") != 0;
	     field = strtok_r(NULL, " \n", &save), i++) {
		if (i == 2 && sscanf(field, "%u:%u", &m->major, &m->minor) != 2)
			return 0;
		if (i == 4)
			m->target = field;
	}
	char *type = field ? strtok_r(NULL, " \n", &save) : NULL;
	m->source = type ? strtok_r(NULL, " \n", &save) : NULL;
	if (!m->source || !m->target || strcmp(type, "fuse.shardfuse") != 0)
		return 0;
	const char *super = strtok_r(NULL, " \n", &save),
		   *uid = super ? strstr(super, "user_id=") : NULL;
	if (uid)
		sscanf(uid, "user_id=%u", &m->uid);
	unescape(m->source);
	unescape(m->target);
	return 1;
}

int sf_mounts_each_of(FILE *f, int (*each)(void *arg, const struct sf_mountinfo *m), void *arg)
{
	char *line = NULL;
	size_t cap = 0;
	int r = 0;

	while (r == 0 && getline(&line, &cap, f) > 0) {
		struct sf_mountinfo m = { 0 };
		if (parse_line(line, &m))
			r = each(arg, &m);
	}
	free(line);
	return r;
}

int sf_mounts_each(int (*each)(void *arg, const struct sf_mountinfo *m), void *arg,
                   struct sf_error *err)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");

	if (!f)
		return sf_fail_errno(err, "/proc/self/mountinfo");
	int r = sf_mounts_each_of(f, each, arg);
	fclose(f);
	return r;
}
