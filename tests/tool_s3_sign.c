/*
 * Signs one request for tests/interop/test_s3_sign.py. Reads fields that end with NUL, a letter and
 * its value: method, host, key (not encoded), query "name=value" (not encoded, repeats), region,
 * service, Header (signed too, repeats), payload, time, and of the credentials Id, Secret, Token.
 * Prints path, query and the headers, a line each.
 */
#include "config.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "store/s3_sign.h"

int main(void)
{
	struct sf_buf in = { .limit = 1 << 20 }, path = { .limit = 1 << 20 }, query = path;
	struct sf_s3_request req = { 0 };
	struct sf_aws_credentials cred = { 0 };
	struct sf_s3_param param[16];
	const char *headers[17] = { NULL };
	size_t nparam = 0, nheaders = 0, n;
	struct sf_error err = SF_ERROR_INIT;
	char block[4096], **out;

	while ((n = fread(block, 1, sizeof(block), stdin)) > 0)
		sf_buf_add(&in, block, n);
	sf_buf_cstr(&in);
	sf_buf_byte(&path, '/');
	for (size_t at = 0; at < in.len; at += strlen((char *)in.at + at) + 1) {
		char *v = (char *)in.at + at + 1, *eq;

		switch (v[-1]) {
		case 'm':
			req.method = v;
			break;
		case 'h':
			req.host = v;
			break;
		case 'k':
			sf_url_encode(&path, v, strlen(v), true);
			break;
		case 'r':
			req.region = v;
			break;
		case 's':
			req.service = v;
			break;
		case 'p':
			req.payload = v;
			break;
		case 't':
			req.now = strtoll(v, NULL, 10);
			break;
		case 'I':
			cred.key_id = v;
			break;
		case 'S':
			cred.secret = v;
			break;
		case 'T':
			cred.token = v;
			break;
		case 'H':
			if (nheaders < SF_ARRAY_LEN(headers) - 1)
				headers[nheaders++] = v;
			break;
		case 'q':
			eq = strchr(v, '=');
			if (eq && nparam < SF_ARRAY_LEN(param)) {
				param[nparam++] = (struct sf_s3_param){ v, eq + 1 };
				*eq = '\0';
				at = (size_t)(eq + 1 -
				              (char *)in.at); /* its second half is no field */
			}
			break;
		default:
			fprintf(stderr, "unknown field '%c'\n", v[-1]);
			return 2;
		}
	}
	sf_s3_query(&query, param, nparam);
	req.path = sf_buf_cstr(&path);
	req.query = sf_buf_cstr(&query);
	req.headers = headers;
	if (sf_s3_sign(&req, &cred, &out, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	printf("%s\n%s\n", req.path, req.query);
	for (char **h = out; *h; h++)
		printf("%s\n", *h);
	sf_s3_headers_free(out);
	sf_buf_release(&in);
	sf_buf_release(&path);
	sf_buf_release(&query);
	return 0;
}
