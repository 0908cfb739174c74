// The requests that the load generator sends. The calling program has made them.
//
// A file is a sequence of entries, integers big-endian:
//   uint32  position of a producer id and its epoch in the request, outside of its batches, or 0
//   uint32  position of the next id and epoch in the response, counted from its size field, or 0
//   uint32  number of error codes (int16) in the response, at least 1
//   uint32  number of record batches with a sequence in the request; all have the same number of records
//   uint32  size of the request
//   uint32  position of each error code, counted from the size field of the response
//   uint32  position of each batch in the request
//   the request, without its own size field

#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUEST_SIZE_FIELD = 4 };

struct entry {
    uint32_t identity_at, renewed_at, error_count, batch_count, *error_at, *batch_at;
    size_t size;
    unsigned char *bytes;         // including the size field before the request
};

static struct entry *entries;
static size_t entry_count;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "loadgen: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    exit(1);
}

static uint32_t get32(const unsigned char *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return be32toh(value);
}

static void put32(unsigned char *at, uint32_t value) {
    value = htobe32(value);
    memcpy(at, &value, 4);
}

static uint32_t *read_positions(FILE *file, uint32_t count) {
    uint32_t *positions = malloc((count + 1) * sizeof *positions);
    if (!positions || fread(positions, sizeof *positions, count, file) != count)
        fail("the file of requests is cut off");
    for (uint32_t i = 0; i < count; i++)
        positions[i] = be32toh(positions[i]);
    return positions;
}

static void read_entries(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        fail("%s: %s", path, strerror(errno));
    unsigned char head[20];
    for (size_t room = 0; fread(head, 1, sizeof head, file) == sizeof head; entry_count++) {
        if (entry_count == room && !(entries = realloc(entries, (room = room * 2 + 16) * sizeof *entries)))
            fail("out of memory");
        struct entry entry = {.identity_at = get32(head), .renewed_at = get32(head + 4),
                              .error_count = get32(head + 8), .batch_count = get32(head + 12)};
        size_t size = get32(head + 16);
        entry.error_at = read_positions(file, entry.error_count);
        entry.batch_at = read_positions(file, entry.batch_count);
        entry.size = size + REQUEST_SIZE_FIELD;
        entry.bytes = malloc(entry.size);
        if (!entry.bytes || fread(entry.bytes + REQUEST_SIZE_FIELD, 1, size, file) != size)
            fail("%s is cut off", path);
        put32(entry.bytes, (uint32_t)size);
        entries[entry_count] = entry;
    }
    fclose(file);
}
