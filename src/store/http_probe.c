#include "config.h"

#include <string.h>

#include "base/path.h"
#include "store/http_store.h"
#include "store/hub_revision.h"
#include "store/source.h"

/* Of a hub: which commit is read. */
static void say_revision(struct sf_http_store *h, const struct sf_probe *to)
{
	const char *base = h->base, *given = h->given ? h->given : base;
	size_t at, len;

	if (!sf_hub_revision(given, &at, &len))
		return;
	if (h->given)
		sf_probe_say(to, SF_PROBE_OK, "revision", NULL, "%.*s is commit %.*s", (int)len,
		             given + at, (int)strcspn(base + at, "/"), base + at);
	else
		sf_probe_say(to, SF_PROBE_HINT, "revision",
		             "name a commit in its place: a branch may move while it is read, and "
		             "files of two commits then meet",
		             "the server does not tell which commit %.*s is", (int)len, given + at);
}

static bool names_file(const char *source, const char *const *names)
{
	const char *last = strrchr(source, '/') + 1; /* it has "://" */

	while (*names && strcmp(*names, last) != 0)
		names++;
	return *names || sf_has_suffix(last, ".distcp") || sf_has_suffix(last, ".safetensors");
}

bool sf_http_probe(struct sf_store *s, const struct sf_probe *to)
{
	struct sf_http_store *h = (struct sf_http_store *)s;
	struct sf_error err = SF_ERROR_INIT, why = SF_ERROR_INIT;
	const char *a = h->authorization, *found = NULL;
	struct sf_source *src = NULL;
	uint8_t byte;
	int r = -ENOENT;

	sf_probe_say(to, SF_PROBE_OK, "endpoint", NULL, "%s", s->source);
	sf_probe_world(to, h->base, &h->r);
	sf_probe_say(to, SF_PROBE_OK, "credentials", NULL, "%s",
	             !a                    ? (*h->query ? "none, but the URL has a query" : "none")
	             : strstr(a, "Bearer") ? "a hub's token (HF_TOKEN, or its token file)"
	                                   : "userinfo of the URL");
	for (size_t i = 0; to->names[i] && r == -ENOENT; i++) {
		found = to->names[i];
		r = s->ops->open(s, found, NULL, &src, &err);
		if (r == -EACCES) { /* who may not list a bucket is told 403 of what is not there */
			why = err;
			r = -ENOENT;
		}
	}
	if (r >= 0 || r == -ENOENT)
		sf_probe_say(to, SF_PROBE_OK, "server", NULL, "it answers");
	if (r >= 0)
		say_revision(h, to);
	if (r >= 0)
		r = sf_source_read(src, 0, &byte, src->size ? 1 : 0, SF_FETCH_METADATA, &err);
	sf_source_unref(src);
	if (r >= 0) {
		sf_probe_say(to, SF_PROBE_OK, "reading", NULL, "a byte of '%s'", found);
		return true;
	}
	if (r == -ENOENT && why.msg[0])
		sf_probe_failed(to, h->base, -EACCES, &why);
	else if (r == -ENOENT && names_file(s->source, to->names))
		sf_probe_say(to, SF_PROBE_BAD, "files",
		             "SOURCE is the URL without its last part: the directory of the files",
		             "'%s' is named as a file of a checkpoint is, not its directory",
		             s->source);
	else if (r == -ENOENT)
		sf_probe_say(to, SF_PROBE_BAD, "files",
		             "the URL names the directory of the files, not a page about it (of a "
		             "Hugging Face hub: .../resolve/REV, not .../tree/REV)",
		             "nothing that a checkpoint has is there: .metadata, "
		             "model.safetensors and others are asked for");
	else
		sf_probe_failed(to, h->base, r, &err);
	return false;
}
