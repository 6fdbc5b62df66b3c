// SPDX-License-Identifier: BSL-1.0
#pragma once

// The version of these headers, by the rules of semver.org. Before 1.0 a minor version may break source compatibility, a patch
// version does not. CMakeLists.txt, the package files and CHANGELOG.md state the same version; the lint checks it.
//
//   #if POOLED_VERSION >= 300      // 0.3.0 or later: major * 10000 + minor * 100 + patch

#define POOLED_VERSION_MAJOR 0
#define POOLED_VERSION_MINOR 3
#define POOLED_VERSION_PATCH 0

#define POOLED_VERSION (POOLED_VERSION_MAJOR * 10000 + POOLED_VERSION_MINOR * 100 + POOLED_VERSION_PATCH)

// "0.3.0"
#define POOLED_VERSION_STRING                 \
    POOLED_VERSION_TEXT(POOLED_VERSION_MAJOR) \
    "." POOLED_VERSION_TEXT(POOLED_VERSION_MINOR) "." POOLED_VERSION_TEXT(POOLED_VERSION_PATCH)
#define POOLED_VERSION_TEXT(number) POOLED_VERSION_TEXT_OF(number)
#define POOLED_VERSION_TEXT_OF(number) #number

namespace pooled {

inline constexpr int version_major = POOLED_VERSION_MAJOR;
inline constexpr int version_minor = POOLED_VERSION_MINOR;
inline constexpr int version_patch = POOLED_VERSION_PATCH;
inline constexpr char const* version_string = POOLED_VERSION_STRING;

}  // namespace pooled
