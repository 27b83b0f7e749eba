#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "store/aws_chain.h"
#include "store/aws_config.h"
#include "store/aws_credentials.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int r, struct sf_aws_credentials *c, struct sf_error *err)
{
	if ((r < 0) != (err->msg[0] != '\0') || (r == 0 && (!*c->key_id || !*c->secret)))
		abort();
	if (r == 0)
		sf_aws_credentials_release(c);
	err->msg[0] = '\0';
}

/* Files of a user and what servers and programs say: as each of them. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct sf_aws_config c = { 0 };
	struct sf_aws_credentials cred;
	struct sf_error err = SF_ERROR_INIT;

	for (int file = 0; file < 2; file++) {
		int r = sf_aws_config_add(&c, text, size, file, "f", &err);
		if ((r < 0) != (err.msg[0] != '\0'))
			abort();
		err.msg[0] = '\0';
	}
	const char *v = sf_aws_config_get(&c, SF_AWS_PROFILE, "default", "region");
	if (v && (!sf_aws_config_has(&c, SF_AWS_PROFILE, "default") || strlen(v) > size))
		abort();
	sf_aws_config_release(&c);

	check(sf_aws_reply_json(text, size, false, &cred, &err), &cred, &err);
	check(sf_aws_reply_json(text, size, true, &cred, &err), &cred, &err);
	check(sf_aws_reply_xml(text, size, &cred, &err), &cred, &err);
	return 0;
}
