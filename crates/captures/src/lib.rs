//! What somebody captured of a server: `SHOW ENGINE INNODB STATUS` out of a ticket, a process list, an error log, stacks by gdb.
//!
//! Texts in, a window out: the same [`spindoctor_model::window::Window`] as a live server gives, so that the rules run on it
//! unchanged. What a text is, its content says, never its name alone.
//! Pure: no I/O, no clock. Everything that comes in is hostile until parsed.

#![allow(unreachable_pub, reason = "what others may use, this file says")]

pub mod stacks;
