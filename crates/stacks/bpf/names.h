// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the program and the reader share. `src/capture/kernel_names.rs` has the same in Rust.

#pragma once

// The longest name of a symbol has 511 bytes, that of a module 55.
#define TEXT_BYTES 1008

struct asked {
	__u64 address; // reader
	__s64 length; // program: of the text, with its end; negative: the kernel prints none
	char text[TEXT_BYTES]; // program: name+0xoffset/0xsize [module]
};

_Static_assert(sizeof(struct asked) == 1024, "as in kernel_names.rs");
