//! Window to findings. Pure: no I/O, no driver, no runtime, no operating system.
