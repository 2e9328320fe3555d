//! The guardian: a process of its own that puts the old values back when the tuner is gone.
