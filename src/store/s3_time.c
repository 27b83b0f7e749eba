#include "config.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "store/s3_list.h"

bool sf_s3_time(const char *text, int64_t *ret_ns)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd";
	struct tm tm = { 0 };
	int64_t ns = 0, unit = 100000000, ahead_s = 0;

	for (size_t i = 0; i < sizeof(form) - 1; i++)
		if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
			return false;
	if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
	           &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6 ||
	    tm.tm_year < 1970 || tm.tm_year > 2200 || tm.tm_mon < 1 || tm.tm_mon > 12 ||
	    tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 ||
	    tm.tm_sec > 60)
		return false;
	text += sizeof(form) - 1;
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++, unit /= 10)
			ns += (*text - '0') * unit;
	if (*text == '+' || *text == '-') {
		int hours, minutes, sign = *text == '+' ? 1 : -1, n = 0;

		if (text[1] < '0' || text[1] > '9' || text[2] < '0' || text[2] > '9' ||
		    sscanf(text + 1, text[3] == ':' ? "%2d:%2d%n" : "%2d%2d%n", &hours, &minutes,
		           &n) != 2 ||
		    text[n + 1] || hours > 23 || minutes < 0 || minutes > 59)
			return false;
		ahead_s = sign * (hours * 3600 + minutes * 60);
	} else if (strcmp(text, "Z") != 0) {
		return false;
	}
	tm.tm_year -= 1900;
	tm.tm_mon--;
	*ret_ns = ((int64_t)timegm(&tm) - ahead_s) * 1000000000 + ns;
	return true;
}
