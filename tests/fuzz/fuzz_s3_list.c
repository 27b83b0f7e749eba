#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "store/s3_list.h"
#include "store/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int each(void *arg, const struct sf_bucket_entry *e)
{
	size_t *told = arg;

	if (!e->key_len || e->key_len > SF_BUCKET_KEY_MAX || strlen(e->key) != e->key_len)
		abort();
	if (!e->is_prefix && e->size == UINT64_MAX)
		abort();
	if (e->etag && (e->etag[0] == '\0' || strpbrk(e->etag, "\r\n ")))
		abort();
	*told += e->key_len;
	return 0;
}

/* What a server answers: as a page of a listing, twice, and as an error document. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sf_bucket_pager p = { .prefix = "" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_s3_error e;
	struct sf_buf query = { 0 };
	struct sf_xml x;
	size_t told = 0, text = 0;
	int r;

	sf_xml_init(&x, (const char *)data, size);
	while ((r = sf_xml_next(&x, &err)) > 0) {
		if (x.depth > SF_XML_DEPTH_MAX)
			abort();
		text += x.text.len;
	}
	sf_xml_release(&x);
	if ((r < 0) != (err.msg[0] != '\0') || text > size)
		abort();

	err.msg[0] = '\0';
	r = sf_s3_pager_take(&p, (const char *)data, size, each, &told, &err);
	if ((r < 0) != (err.msg[0] != '\0') || told > size || (r == 1) != (p.token != NULL))
		abort();
	if (r == 1) { /* its own token again */
		sf_s3_pager_query(&p, &query);
		if (sf_buf_check(&query) < 0 ||
		    sf_s3_pager_take(&p, (const char *)data, size, each, &told, NULL) != -EBADMSG)
			abort();
	}
	sf_buf_release(&query);
	sf_bucket_pager_release(&p);

	if (sf_s3_error_parse((const char *)data, size, &e) != (e.code[0] != '\0'))
		abort();
	for (const char *c = e.message; *c; c++)
		if ((unsigned char)*c < ' ')
			abort();
	return 0;
}
