//! A model of how a trial's settings are given back, and the checker that looks at everything that can happen to it. It is no
//! part of the program; `crates/tune/src/apply/mod.rs` describes the protocol, and `crates/tune/tests/replay.rs` holds the program to
//! the model by playing its ways on real servers.
//!
//! # What is modelled
//!
//! A tuner, step by step as it is written: one step is one statement on the server, one write to the disk, or one message. A
//! second tuner, on the same host or on another. Their guardians; each tuner's EVENT and its rehearsal; `tune --recover`, run
//! by somebody at any moment; a DBA who sets a variable to a third value, to the one that is tried, or to the old one, and may
//! persist it; an account without privileges that takes the lock, for as long as it likes. The user lock goes the way of the
//! connection that holds it: it ends with the process where the network brings the news, else when the server has received
//! nothing for so many seconds. A `SET GLOBAL` of two variables looks at its conditions first and changes one after the
//! other, for as long as it likes, whatever became of the client.
//!
//! Faults, at any moment: SIGKILL, SIGSTOP and SIGCONT of each process; a network that brings nothing, and later does again, or
//! so late that the client has given up; a server that is restarted, with the values of its option file or those persisted; the
//! crash of the tuner's host; `event_scheduler = OFF`.
//!
//! Time is in seconds. A second passes when every process that runs has done what it can do and the server has run each EVENT
//! once; what happens within a second happens in every order.
//!
//! # What is proved
//!
//! In every state that can be reached within a [`steps::Scope`], which says how many faults, changes of a DBA and other guests a
//! run may have:
//!
//! - nobody overwrites what is not theirs: no DBA's value, no value that another tuner sets under its lease; nothing is set by a
//!   process that lost its lease; no tuner's EVENT is dropped by somebody else; no journal comes back that was removed;
//! - what is changed, and not kept, stands in a journal or an EVENT with its old value, so that `--recover` can give it
//!   back at any time, whichever process has died;
//! - while the EVENT can run, or the guardian runs and reaches the server, what a tuner that is gone has changed is back within
//!   [`check::PROMISED`] seconds of the last thing that happened;
//! - no lease outlives its tuner.
//!
//! `cases::SHORT` is what `make test` looks at, whole: there is no bound of steps. `script/giving-back` looks at
//! `cases::DEEP` too, and writes the numbers into CHECKED.md. `cases::PLANTED` are bugs that the checker must find.
//!
//! # What is assumed
//!
//! - Nobody gives back where no switch is left: the EVENT cannot run (the scheduler is off, or was never on) and the guardian
//!   is dead with its host. `--recover`, or the next tuner on that host, does it then.
//! - A DBA who sets the very value that is tried, while it is tried, sets it for the trial's time. A DBA's change that falls
//!   between the server's look and its write, within one statement of ours, is overwritten.
//! - An EVENT's body that has begun ends before another tuner has taken its settings, which lasts seconds.
//! - Two tuners on two hosts know of each other by the EVENT alone. Of two that try the same value, the second one's kept value
//!   may be undone by the first one's guardian, where that one was cut off. On a server whose scheduler is off, the second may
//!   take for the old value what the first has set and not given back yet, and set it again at the moment in which the first
//!   one's guardian gives back: it stays then. `script/giving-back` finds that way in its case of two faults and a second tuner
//!   on another host.
//! - A tuner that keeps and loses the lease within that moment says so: the values are all new or all old then.
//! - The disk keeps what was synced; the server's clock and the processes' run at one speed.

pub mod cases;
pub mod check;
pub mod protocol;
pub mod state;
pub mod steps;
pub mod ways;
