/* A check that names itself when it fails, and ends the program. */

#ifndef CHECK_H
#define CHECK_H

#include <nodeward.h>

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #condition,                 \
                    nodeward_last_error());                                                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif
