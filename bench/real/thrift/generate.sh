#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# What the package's compiler makes of store.thrift.
set -e
mkdir -p generated
thrift --gen cpp:no_skeleton -out generated store.thrift
