#include "config.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "store/aws_chain.h"
#include "store/aws_credentials.h"
#include "store/s3_list.h"
#include "store/xml.h"

#define PART_MAX 16384 /* bytes of a key, a secret, a token */

int sf_aws_keep(const char *key_id, const char *secret, const char *token, int64_t expires,
                struct sf_aws_credentials *ret, struct sf_error *err)
{
	struct sf_aws_credentials c = { .expires = expires };

	if (!key_id || !*key_id || !secret || !*secret)
		return sf_fail(err, -EBADMSG, "it has no %s",
		               !key_id || !*key_id ? "access key id" : "secret access key");
	if (strlen(key_id) > PART_MAX || strlen(secret) > PART_MAX ||
	    (token && strlen(token) > PART_MAX))
		return sf_fail(err, -EBADMSG, "a key, secret or token is longer than %d bytes",
		               PART_MAX);
	c.key_id = strdup(key_id);
	c.secret = strdup(secret);
	c.token = token && *token ? strdup(token) : NULL;
	if (!c.key_id || !c.secret || (token && *token && !c.token)) {
		sf_aws_credentials_release(&c);
		return sf_fail(err, -ENOMEM, "no memory for credentials");
	}
	*ret = c;
	return 0;
}

static int expiry(const char *text, int64_t *ret, struct sf_error *err)
{
	int64_t ns;

	if (!text || !*text) {
		*ret = 0;
		return 0;
	}
	if (!sf_s3_time(text, &ns))
		return sf_fail(err, -EBADMSG, "Expiration '%.40s' is not a time", text);
	*ret = ns / 1000000000;
	return 0;
}

/* A text, NULL where it is missing or null. */
static const char *str(const struct cJSON *obj, const char *name)
{
	const char *s;

	return sf_json_get_str(obj, name, &s, NULL) == 0 ? s : NULL;
}

int sf_aws_reply_json(const char *text, size_t len, bool process, struct sf_aws_credentials *ret,
                      struct sf_error *err)
{
	struct sf_json *j;
	const struct cJSON *root;
	uint64_t version = 0;
	int64_t expires = 0;
	const char *code;
	int r;

	/* its own message may quote the text */
	if (sf_json_parse(text, len, &j, NULL) < 0)
		return sf_fail(err, -EBADMSG, "its answer is not JSON (%zu bytes)", len);
	root = sf_json_root(j);
	code = str(root, "Code");
	r = process ? sf_json_get_u64(root, "Version", &version, NULL) : 0;
	if (process && (r < 0 || version != 1))
		r = sf_fail(err, -EBADMSG, "its output has no \"Version\": 1");
	else if (code && strcmp(code, "Success") != 0)
		r = sf_fail(err, -EIO, "it answers %.100s", code);
	else
		r = expiry(str(root, "Expiration"), &expires, err);
	if (r == 0)
		r = sf_aws_keep(str(root, "AccessKeyId"), str(root, "SecretAccessKey"),
		                str(root, process ? "SessionToken" : "Token"), expires, ret, err);
	sf_json_free(j);
	return r;
}

int sf_aws_reply_xml(const char *text, size_t len, struct sf_aws_credentials *ret,
                     struct sf_error *err)
{
	static const char *const names[] = { "AccessKeyId", "SecretAccessKey", "SessionToken",
		                             "Expiration" };
	struct sf_buf value[SF_ARRAY_LEN(names)] = { 0 };
	struct sf_error why = SF_ERROR_INIT;
	bool inside = false;
	int64_t expires = 0;
	struct sf_xml x;
	int r;

	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++)
		value[i].limit = PART_MAX;
	sf_xml_init(&x, text, len);
	while ((r = sf_xml_next(&x, &why)) > 0) {
		if (r != SF_XML_OPEN && r != SF_XML_CLOSE)
			continue;
		if (sf_xml_is(&x, "Credentials")) {
			inside = r == SF_XML_OPEN;
			continue;
		}
		for (size_t i = 0; inside && r == SF_XML_OPEN && i < SF_ARRAY_LEN(names); i++)
			if (sf_xml_is(&x, names[i])) {
				r = sf_xml_text(&x, &value[i], &why);
				break;
			}
		if (r < 0)
			break;
	}
	if (r < 0)
		sf_fail(err, r, "its answer cannot be read: %s", why.msg);
	if (r == 0)
		r = expiry(sf_buf_cstr(&value[3]), &expires, err);
	if (r == 0)
		r = sf_aws_keep(sf_buf_cstr(&value[0]), sf_buf_cstr(&value[1]),
		                sf_buf_cstr(&value[2]), expires, ret, err);
	if (x.text.at)
		explicit_bzero(x.text.at, x.text.cap);
	sf_xml_release(&x);
	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		if (value[i].at)
			explicit_bzero(value[i].at, value[i].len);
		sf_buf_release(&value[i]);
	}
	return r;
}
