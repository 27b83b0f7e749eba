#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/http_world.h"
#include "store/probe.h"
#include "store/remote.h"

void sf_probe_say(const struct sf_probe *p, enum sf_probe_state state, const char *what,
                  const char *remedy, const char *fmt, ...)
{
	SF_FREE char *found = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&found, fmt, ap) < 0)
		found = NULL;
	va_end(ap);
	p->say(p->arg, state, what, found ? found : "no memory", remedy);
}

void sf_probe_world(const struct sf_probe *p, const char *url, const struct sf_remote_store *s)
{
	const char *from = NULL, *of_user = sf_http_ca_bundle(&from), *name, *except;
	SF_FREE char *proxy = NULL;

	name = sf_http_proxy(url, &proxy);
	except = getenv("no_proxy") ? getenv("no_proxy") : getenv("NO_PROXY");
	if (name)
		sf_probe_say(p, SF_PROBE_OK, "proxy", NULL, "%s (%s%s%s)", proxy ? proxy : "?",
		             name, except && *except ? "; but for " : "", except ? except : "");
	if (strncasecmp(url, "https:", 6) != 0)
		return;
	if (sf_remote_ca_bundle(s))
		sf_probe_say(p, SF_PROBE_OK, "certificates", NULL, "of %s (%s)",
		             sf_remote_ca_bundle(s),
		             sf_remote_ca_bundle(s) == s->ca_bundle
		                     ? "AWS_CA_BUNDLE, or ca_bundle of the profile"
		                     : "--ca-bundle");
	else if (of_user)
		sf_probe_say(p, SF_PROBE_OK, "certificates", NULL, "of %s (%s)", of_user, from);
	else
		sf_probe_say(p, SF_PROBE_OK, "certificates", NULL, "the system's");
}

void sf_probe_clock(const struct sf_probe *p, enum sf_probe_state state, int64_t skew_s,
                    const char *until)
{
	SF_FREE char *remedy = NULL;

	if (asprintf(&remedy, "timedatectl set-ntp true (or chronyc makestep); %s", until) < 0)
		remedy = NULL;
	sf_probe_say(p, state, "clock", remedy,
	             "this machine's clock is %" PRId64 " s %s the server's",
	             skew_s < 0 ? -skew_s : skew_s, skew_s < 0 ? "ahead of" : "behind");
}

/* What the transport can fail with, and what helps. */
static const struct {
	int r;
	const char *what, *remedy;
} transport[] = {
	{ -EHOSTUNREACH, "name of the host",
	  "it has no address here: check its spelling (--endpoint-url for a bucket), then this "
	  "machine's DNS: getent hosts HOST" },
	{ -ECONNREFUSED, "endpoint",
	  "nothing answers there: check host and port, whether the server runs, and the firewall "
	  "between: curl -v URL" },
	{ -ETIMEDOUT, "endpoint",
	  "no answer in time: a firewall may drop what is sent, or a proxy is needed "
	  "(https_proxy); "
	  "--timeout waits longer" },
	{ -ECONNRESET, "endpoint",
	  "the connection ends before the answer: a firewall, or a server for another protocol: is "
	  "it https://?" },
	{ -ECONNABORTED, "endpoint", "it does not speak TLS: is it http:// instead of https://?" },
	{ -EKEYREJECTED, "certificate",
	  "--ca-bundle FILE names whom to trust (or AWS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE); "
	  "the host must be one that the certificate is for, and this machine's clock right" },
	{ -EPROTO, "endpoint", "it does not answer by HTTP: check scheme and port" },
	{ -ELOOP, "endpoint", "it redirects without end: check the URL in a browser" },
};

bool sf_probe_transport(const struct sf_probe *p, const char *url, int r,
                        const struct sf_error *err)
{
	SF_FREE char *proxy = NULL, *remedy = NULL;
	const char *name = sf_http_proxy(url, &proxy);
	bool by_proxy = name && sf_http_is_of_proxy(proxy, err->msg);

	for (size_t i = 0; i < SF_ARRAY_LEN(transport); i++) {
		if (transport[i].r != r)
			continue;
		if (by_proxy) {
			if (asprintf(&remedy,
			             "the way goes through the proxy %s: check %s, or name the "
			             "host in "
			             "no_proxy",
			             proxy ? proxy : "", name) < 0)
				remedy = NULL;
			sf_probe_say(p, SF_PROBE_BAD, "proxy", remedy, "%s", err->msg);
		} else {
			sf_probe_say(p, SF_PROBE_BAD, transport[i].what, transport[i].remedy, "%s",
			             err->msg);
		}
		return true;
	}
	return false;
}

void sf_probe_failed(const struct sf_probe *p, const char *url, int r, const struct sf_error *err)
{
	if (sf_probe_transport(p, url, r, err))
		return;
	if (r == -EACCES)
		sf_probe_say(
			p, SF_PROBE_BAD, "permission",
			"it wants to know who asks: userinfo in the URL, a token of the hub "
			"(HF_TOKEN), or a URL with its key in the query; 403 may also be a file "
			"that is not there",
			"%s", err->msg);
	else if (r == -ENOTSUP)
		sf_probe_say(
			p, SF_PROBE_BAD, "ranges",
			"the server has to send parts of files as they are stored: curl -s -r 0-0 "
			"-D- -o /dev/null URL/FILE shows 206, Content-Range and no "
			"Content-Encoding where it does, as nginx, Apache, Caddy and buckets do "
			"(python -m http.server does not)",
			"%s", err->msg);
	else
		sf_probe_say(p, SF_PROBE_BAD, "server", "check the URL: curl -I URL", "%s",
		             err->msg);
}
