#include "config.h"

#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/mem.h"
#include "store/http_range.h"

bool sf_http_number(const char **at, const char *end, uint64_t *ret)
{
	const char *from = *at;

	for (*ret = 0; *at < end && **at >= '0' && **at <= '9'; ++*at)
		if (!sf_mul(*ret, 10, ret) || !sf_add(*ret, (uint64_t)(**at - '0'), ret))
			return false;
	return *at > from;
}

bool sf_http_number_text(const char *text, uint64_t *ret)
{
	const char *end = text + strlen(text);

	return sf_http_number(&text, end, ret) && text == end;
}

int sf_content_range(const char *at, size_t len, uint64_t *first, uint64_t *last, uint64_t *total)
{
	const char *end = at + len;

	if (len < 6 || strncasecmp(at, "bytes", 5) != 0)
		return -1;
	for (at += 5; at < end && (*at == ' ' || *at == '='); at++)
		;
	if (at < end && *at == '*') { /* of nothing: 416 */
		*first = *last = 0;
		at++;
	} else if (!sf_http_number(&at, end, first) || at == end || *at++ != '-' ||
	           !sf_http_number(&at, end, last) || *last < *first) {
		return -1;
	}
	if (at == end || *at++ != '/')
		return -1;
	if (end - at == 1 && *at == '*') {
		*total = UINT64_MAX;
		return 0;
	}
	return sf_http_number(&at, end, total) && at == end ? 0 : -1;
}

bool sf_http_date(const char *text, int64_t *ret_s)
{
	struct tm tm = { 0 };
	const char *end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);

	if (!end || *end || tm.tm_year < 70 || tm.tm_year > 300)
		return false;
	*ret_s = (int64_t)timegm(&tm);
	return true;
}
