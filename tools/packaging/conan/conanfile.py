# SPDX-License-Identifier: BSL-1.0
"""Conan 2 recipe: `conan create tools/packaging/conan` from a checkout. The version is that of version.hpp.

By default the package has the headers, the static library, pooled::new_delete and pooled::malloc (docs/malloc.md), with
`-o "pooled/*:shared=True"` the shared library. It defines the library's macro for its users (docs/compiled-library.md).
With `-o "pooled/*:header_only=True"` it has only headers; with `-o "pooled/*:poolheap=True"` also the program poolheap
(docs/heap.md)."""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain
from conan.tools.files import copy, load, rmdir
from conan.tools.gnu import PkgConfigDeps


class PooledConan(ConanFile):
    name = "pooled"
    description = "C++20 memory pools for objects owned by smart pointers"
    license = "BSL-1.0"
    topics = ("memory-pool", "allocator", "shared-ptr")
    package_type = "library"
    implements = ("auto_header_only",)  # the package of the headers is the same for all settings
    settings = "os", "arch", "compiler", "build_type"
    options = {"header_only": [True, False], "shared": [True, False], "poolheap": [True, False]}
    default_options = {"header_only": False, "shared": False, "poolheap": False}
    no_copy_source = True

    @property
    def _checkout(self):
        return os.path.join(self.recipe_folder, "..", "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._checkout, "include", "pooled", "version.hpp"))
        parts = (re.search(rf"^#define POOLED_VERSION_{p} (\d+)$", text, re.M)[1] for p in ("MAJOR", "MINOR", "PATCH"))
        self.version = ".".join(parts)

    def export_sources(self):
        compat = ("compat/CMakeLists.txt", "compat/include/*")
        for pattern in (
            "CMakeLists.txt",
            "LICENSE",
            "cmake/*",
            "include/*",
            *compat,
            "poolheap/CMakeLists.txt",
            "poolheap/src/*",
            "src/*",
            "tools/debuggers/*",
            "modules/*",
        ):
            copy(self, pattern, src=self._checkout, dst=self.export_sources_folder)

    def requirements(self):
        if self.options.get_safe("poolheap"):
            for needed in ("cli11/[>=2.1 <3]", "elfutils/[>=0.186 <1]", "nlohmann_json/[>=3.10 <4]"):
                self.requires(needed, headers=True, libs=True, run=False, visible=False)

    def validate(self):
        check_min_cppstd(self, 20)
        if self.options.get_safe("poolheap") and (self._kind != "static" or self.settings.os != "Linux"):
            raise ConanInvalidConfiguration("poolheap is built for Linux, beside the static library")
        if self._kind == "shared" and self.settings.os == "Windows":
            raise ConanInvalidConfiguration("there is no DLL of pooled (docs/platforms.md): use shared=False")

    @property
    def _kind(self):
        if self.options.get_safe("header_only"):
            return None
        return "shared" if self.options.shared else "static"

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "BENCH", "EXAMPLES"):
            toolchain.cache_variables[f"POOLED_BUILD_{part}"] = False
        toolchain.cache_variables["BUILD_SHARED_LIBS"] = self._kind == "shared"
        toolchain.cache_variables["POOLED_BUILD_LIBRARIES"] = self._kind == "static"  # for pooled::new_delete
        toolchain.cache_variables["POOLED_BUILD_POOLHEAP"] = bool(self.options.get_safe("poolheap"))
        toolchain.generate()
        CMakeDeps(self).generate()
        PkgConfigDeps(self).generate()

    def build(self):
        if self._kind:
            cmake = CMake(self)
            cmake.configure()
            cmake.build()

    def package(self):
        if self._kind:
            CMake(self).install()
            for each in ("cmake", "pkgconfig"):  # CMakeDeps and PkgConfigDeps write their own
                rmdir(self, os.path.join(self.package_folder, "lib", each))
        else:
            copy(self, "include/*", src=self.source_folder, dst=self.package_folder)
            copy(self, "include/*", src=os.path.join(self.source_folder, "compat"), dst=self.package_folder)
            copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "pooled")
        # Of all components together, which nobody can link: two of them replace operator new.
        self.cpp_info.set_property("cmake_target_name", "pooled::all_components")
        headers = self.cpp_info.components["pooled"]
        headers.bindirs = []
        headers.libdirs = []
        headers.set_property("cmake_target_name", "pooled::pooled")
        headers.set_property("pkg_config_name", "pooled")
        headers.system_libs = ["pthread"]
        headers.set_property("cmake_target_aliases", [f"pooled::{self._kind or 'header_only'}"])
        if self._kind:
            headers.libdirs = ["lib"]
            headers.libs = ["pooled" if self._kind == "shared" else "pooled-static"]
            headers.defines = [f"POOLED_{self._kind.upper()}=1"]
        if self._kind == "static" and self.settings.os != "Windows":
            replacements = {"new_delete": ("new", "_Znwm")}
            if self.settings.os != "Macos":
                replacements["malloc"] = ("malloc", "malloc")
            for name, (library, symbol) in replacements.items():
                functions = self.cpp_info.components[name]
                functions.bindirs = []
                functions.libs = [f"pooled-{library}-static"]
                functions.exelinkflags = [f"-Wl,-u,{symbol}"]
                functions.requires = ["pooled"]
                functions.set_property("cmake_target_name", f"pooled::{name}")
                functions.set_property("pkg_config_name", f"pooled-{library}")
