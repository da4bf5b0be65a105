/* library.c: loads libndxdp.so with the first domain or listener. A program that uses neither gets no thread and no memory of it. */
#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "provider.h"

#define LIBRARY_NAME "libndxdp.so.1"

struct library lib;

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static enum { NOT_LOADED, LOADED, FAILED } state;

/* beside returns the path of the library in the directory of this provider. */
static bool beside(char *path, size_t len)
{
	Dl_info info;
	const char *slash;

	if (!dladdr((void *) library_load, &info) || !(slash = strrchr(info.dli_fname, '/')))
		return false;
	return (size_t) snprintf(path, len, "%.*s/" LIBRARY_NAME, (int) (slash - info.dli_fname), info.dli_fname) < len;
}

/* open_library blocks all signals meanwhile: the threads of the library inherit the mask, so that handlers of the program, which may
 * lack SA_ONSTACK, do not run on them. */
static void *open_library(void)
{
	char path[PATH_MAX];
	sigset_t all, before;
	void *handle = NULL;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	if (beside(path, sizeof(path)))
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		handle = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return handle;
}

static bool resolve(void *handle)
{
#define X(name) \
	if (!(lib.name = (__typeof__(lib.name)) dlsym(handle, "ndx_" #name))) { \
		WARN(CORE, "%s has no function ndx_%s: install the libndxdp of this provider's release\n", LIBRARY_NAME, #name); \
		return false; \
	}
	LIBRARY(X)
#undef X
	if (lib.abi() != NDX_ABI) {
		WARN(CORE, "%s has interface %u and the provider needs %u: install matching releases\n", LIBRARY_NAME, lib.abi(), NDX_ABI);
		return false;
	}
	return true;
}

int library_load(void)
{
	void *handle;

	pthread_mutex_lock(&load_lock);
	if (state == NOT_LOADED) {
		handle = open_library();
		if (!handle)
			WARN(CORE, "cannot load %s: %s. Install libndxdp, or put it beside libndxdp-fi.so\n", LIBRARY_NAME, dlerror());
		state = handle && resolve(handle) ? LOADED : FAILED;
		if (state == LOADED)
			INFO(CORE, "loaded %s %s\n", LIBRARY_NAME, lib.version());
	}
	pthread_mutex_unlock(&load_lock);
	return state == LOADED ? 0 : -FI_ENOSYS;
}
