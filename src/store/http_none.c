#include "config.h"

#include <stdlib.h>

#include "store/http.h"

/* A build without libcurl: what is on this machine's own disks is all there is. */

int sf_http_get(struct sf_io *io, struct sf_http **ret, struct sf_error *err)
{
	(void)io;
	(void)ret;
	return sf_fail(
		err, -ENOTSUP,
		"this shardfuse was built without libcurl: it reads local directories only "
		"(Debian, Ubuntu: apt install libcurl4-openssl-dev, then configure and make)");
}

void sf_http_free(struct sf_http *http)
{
	(void)http;
}

void sf_http_submit(struct sf_http *http, struct sf_http_req *req)
{
	(void)http;
	req->done(req, -ENOTSUP);
}

void sf_http_cancel(struct sf_http_req *req)
{
	(void)req;
}

uint64_t sf_http_connections(const struct sf_http *http)
{
	(void)http;
	return 0;
}
