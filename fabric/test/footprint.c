/* footprint.c: a program that only calls fi_getinfo pays for no thread and for less than a MiB. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pair.h"

static int threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	int n = -2; /* . and .. */

	check(dir, "no /proc");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static bool mapped(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	bool found = false;

	check(maps, "no /proc");
	while (fgets(line, sizeof(line), maps))
		found |= strstr(line, name) != NULL;
	fclose(maps);
	return found;
}

/* provider_kib counts the resident pages of the mappings of the provider. */
static long provider_kib(void)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	char line[4096];
	long sum = 0, n;
	bool ours = false;

	check(maps, "no /proc");
	while (fgets(line, sizeof(line), maps)) {
		if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' '))
			ours = strstr(line, "libndxdp-fi.so") != NULL;
		else if (ours && sscanf(line, "Rss: %ld", &n) == 1)
			sum += n;
	}
	fclose(maps);
	return sum;
}

int main(void)
{
	struct fi_info *hints = usual_hints(), *info;
	long kib;

	must(fi_getinfo(API, NULL, NULL, 0, hints, &info));
	fi_freeinfo(info);
	check(mapped("libndxdp-fi.so"), "the provider is not loaded");
	check(!mapped("libndxdp.so"), "the library is loaded");
	check(threads() == 1, "%d threads", threads());
	kib = provider_kib();
	check(kib > 0 && kib < 1024, "%ld KiB", kib);
	printf("ok: footprint of fi_getinfo: 1 thread, %ld KiB of the provider\n", kib);
	fi_freeinfo(hints);
	return 0;
}
