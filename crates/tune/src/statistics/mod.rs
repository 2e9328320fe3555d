//! How a trial is laid out and what its numbers say. Pure: no I/O, no clock; chance comes from the caller.
