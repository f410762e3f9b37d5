/* Allocates, writes, checks and frees blocks of 0.5 to 32 KiB, about 8 MiB in all, until its input
 * ends. Prints `ready` when it has them, and at its end how much it checked and what was wrong. */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 512

static struct { unsigned char *bytes; size_t size; unsigned char value; } blocks[BLOCKS];
static unsigned long checked, wrong;

static void fill(size_t index)
{
	static unsigned int seed = 1;

	seed = seed * 1103515245 + 12345;
	blocks[index].size = 512 + (seed >> 8) % 32256;
	blocks[index].value = (unsigned char)(seed >> 24);
	blocks[index].bytes = malloc(blocks[index].size);
	if (!blocks[index].bytes)
		exit(3);
	memset(blocks[index].bytes, blocks[index].value, blocks[index].size);
}

static void check(size_t index)
{
	for (size_t at = 0; at < blocks[index].size; at++) {
		checked++;
		wrong += blocks[index].bytes[at] != blocks[index].value;
	}
}

int main(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	for (size_t index = 0; index < BLOCKS; index++)
		fill(index);
	puts("ready");
	fflush(stdout);
	for (size_t index = 0; poll(&input, 1, 0) == 0; index = (index + 7) % BLOCKS) {
		check(index);
		free(blocks[index].bytes);
		fill(index);
		usleep(100);
	}
	for (size_t index = 0; index < BLOCKS; index++)
		check(index);
	printf("checked %lu wrong %lu\n", checked, wrong);
	return wrong != 0;
}
