// SPDX-License-Identifier: BSL-1.0
// A program that looks like one with AddressSanitizer.
extern "C" void __asan_init() {}
int main() { return 0; }
