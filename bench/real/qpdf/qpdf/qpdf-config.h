// SPDX-License-Identifier: BSL-1.0
// What the package's CMake project finds out on 64-bit Linux.
#pragma once
#define USE_CRYPTO_OPENSSL 1
#define DEFAULT_CRYPTO "openssl"
#define HAVE_INTTYPES_H 1
#define HAVE_STDINT_H 1
#define HAVE_FSEEKO 1
#define HAVE_LOCALTIME_R 1
#define HAVE_RANDOM 1
#define HAVE_TM_GMTOFF 1
#define RANDOM_DEVICE "/dev/urandom"
#define SIZEOF_SIZE_T 8
