#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "format/megatron/megatron.h"
#include "store/source.h"
#include "store/url.h"

/* NeMo 2 saves into a directory beside which an empty file stands until all is written. */

#define PATH_BYTES_MAX 65536

/* The store that holds @store's directory, and that one's name there; 0: that cannot be told. */
static int open_parent(struct sf_store *store, struct sf_buf *name, struct sf_store **ret)
{
	struct sf_buf path = { .limit = PATH_BYTES_MAX };
	const char *source = store->source, *base;
	size_t len = strlen(source);
	int r = 0;

	while (len && source[len - 1] == '/')
		len--;
	for (base = source + len; base > source && base[-1] != '/';)
		base--;
	/* what was left out of a web server's URL may be what it needs */
	if (base == source || base == source + len || store->ops->look)
		return 0;
	sf_buf_add(&path, source, (size_t)(base - source));
	sf_buf_add(name, base, (size_t)(source + len - base));
	sf_buf_str(name, "-unfinished");
	if (sf_buf_cstr(&path) && sf_buf_cstr(name))
		r = sf_store_open(store->io, (const char *)path.at, store->opt, ret, NULL) >= 0;
	sf_buf_release(&path);
	return r;
}

static bool is_nemo(const struct sf_format_dir *src)
{
	return *src->dir || sf_format_listed(src->files, src->nfiles, "context/io.json") ||
	       sf_format_listed(src->files, src->nfiles, "context/model.yaml");
}

/* Source: NVIDIA/NeMo nemo/utils/callbacks/dist_ckpt_io.py, nemo/lightning/pytorch/callbacks/
 * model_checkpoint.py (UNFINISHED_CHECKPOINT_SUFFIX), 2.4. */
int megatron_check_nemo(const struct sf_format_dir *src, struct sf_error *err)
{
	struct sf_buf name = { .limit = PATH_BYTES_MAX };
	struct sf_store *parent = NULL;
	struct sf_source *marker = NULL;
	struct sf_error why = SF_ERROR_INIT;
	int r = 0;

	if (!is_nemo(src))
		return 0;
	if (open_parent(src->store, &name, &parent))
		r = parent->ops->open(parent, (const char *)name.at, NULL, &marker, &why);
	/* what cannot be looked at for good is not there for us */
	if (r == -ENOENT || r == -ENOTDIR || r == -EACCES || r == -EPERM || r == -EBADMSG)
		r = 0;
	else if (r < 0)
		sf_fail(err, r, "%s", why.msg);
	if (marker)
		r = sf_fail(err, -ENOENT,
		            "'%s': not committed: '%s' stands beside it, which NeMo removes when "
		            "all is written",
		            src->store->source, (const char *)name.at);
	sf_source_unref(marker);
	sf_store_free(parent);
	sf_buf_release(&name);
	return r;
}
