/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* For a test: what is counted, and the events that it was counted from. */

#define RECORDED
#include "page_lists.h"
