/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "moonlit.h"

int Greet(const moonlit_error* error);
int Greet(const moonlit_error* error) { return printf("%s\n", error->message) < 0; }
