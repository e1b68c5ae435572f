// SPDX-License-Identifier: Apache-2.0
// The formulas of activation.h in double precision.
#pragma once

namespace moonlit {

double ReferenceSigmoid(double x);
double ReferenceSilu(double x);
double ReferenceGelu(double x);
double ReferenceGeluTanh(double x);
double ReferenceReluSquared(double x);
double ReferenceSoftCap(double x, double cap);

}  // namespace moonlit
