# SPDX-License-Identifier: BSL-1.0
"""One command a module; `add_to` gives it to the application."""
